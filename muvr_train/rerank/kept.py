"""What several questions need is read once: digests of files, and the pixels that were decoded last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from muvr_train.errors import DataError
from muvr_train.rerank.types import Clip, Picture

CACHE_MIB = 256
"""Bound on the pixels that a process keeps for further questions."""
_BLOCK = 2**20
_digests: dict[tuple[str, int, int, int], str] = {}


def digest_of(path: Path) -> str:
    """sha256 of a file's content; read again only where its size, time or place on the disk changed. Safe in threads.

    Raises:
        DataError: there is no such file, or it cannot be read.
    """
    try:
        status = path.stat()
        known = (str(path), status.st_size, status.st_mtime_ns, status.st_ino)
        if known not in _digests:
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            _digests[known] = digest.hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return _digests[known]


def digest_of_all(path: Path) -> str:
    """The same of a file, or of the names and contents of the files in a folder (hidden ones left out)."""
    if not path.is_dir():
        return digest_of(path)
    files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    content = "".join(f"{digest_of(file)} {file.name}\n" for file in files)
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


class KeptPixels:
    """Loaded pictures and clips by key, those used last, up to so many bytes. Safe in threads.

    Threads that need the same one at once decode it once.
    """

    def __init__(self, most_bytes: int = CACHE_MIB * 2**20) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Future[Picture | Clip]] = OrderedDict()

    def get(self, key: str, load: Callable[[], Picture | Clip]) -> Picture | Clip:
        """Give what is kept under a key, or load it; where that fails, nothing is kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                mine = self._kept[key] = Future()
            else:
                self._kept.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            mine.set_result(load())
        except BaseException as error:
            with self._lock:
                del self._kept[key]
            mine.set_exception(error)
            raise
        self._forget()
        return mine.result()

    def _forget(self) -> None:
        """Let go of what was used longest ago, until the rest fits."""
        with self._lock:
            sizes = {key: _size(made.result()) for key, made in self._kept.items() if made.done()}
            total = sum(sizes.values())
            for key, size in sizes.items():
                if total <= self.most_bytes:
                    return
                del self._kept[key]
                total -= size


def _size(loaded: Picture | Clip) -> int:
    return loaded.pixels.nbytes if isinstance(loaded, Picture) else sum(frame.nbytes for frame in loaded.frames)
