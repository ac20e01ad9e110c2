"""Digests of files, kept on disk: a large file is read once, not at every start."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from pathlib import Path

from muvr_train.cache import cache_root
from muvr_train.errors import DataError

FILE = "digests.jsonl"
"""Below the cache folder: lines of [real path, size, time in nanoseconds, inode, sha256], in any order."""
KEEP = 2**18
"""Bytes; smaller files are as quickly read as looked up, and only kept in memory."""
TOLD = 2**30
"""Bytes after which the log says how far a file is read."""
_BLOCK = 2**20
_Known = tuple[str, int, int, int]
log = logging.getLogger(__name__)


class Digests:
    """Digests by path, size, time and inode. Safe in threads, and in processes that share the file.

    Nobody waits for another process: each appends whole lines and reads those of others. Lines that are cut or broken
    are passed over; their files are read again.

    Args:
        path: file of the digests; it need not exist, and where it cannot be written they are kept in memory alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[_Known, str] = {}
        self._locks: dict[_Known, threading.Lock] = {}
        self._lock, self._read, self._told = threading.Lock(), 0, False

    def of(self, path: Path) -> str:
        """Give the sha256 of a file's content.

        Raises:
            OSError: there is no such file, or it cannot be read.
        """
        known = _known(path, path.stat())
        with self._locks.setdefault(known, threading.Lock()):  # threads that want the same file read it once
            if known not in self._found and known[1] >= KEEP:
                self._learn()
            if known not in self._found:
                digest, unchanged = _read(path, known)
                if not unchanged:
                    return digest
                self._found[known] = digest
                if known[1] >= KEEP:
                    self._append(known, digest)
            return self._found[known]

    def _learn(self) -> None:
        """Read what was appended since the last time."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._read)
                    new = file.read()
            except FileNotFoundError:
                return
            except OSError as error:
                self._tell(error)
                return
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._found.update(filter(None, map(_parsed, whole.splitlines())))

    def _append(self, known: _Known, digest: str) -> None:
        line = f"\n{json.dumps([*known, digest])}\n"  # a cut line before it stays by itself
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab", buffering=0) as file:
                    file.write(line.encode())
            except OSError as error:
                self._tell(error)

    def _tell(self, error: OSError) -> None:
        if not self._told:
            log.warning("%s: digests of files are not kept for the next start (%s)", self.path, error.strerror or error)
        self._told = True


_stores: dict[Path, Digests] = {}


def digest_of(path: Path) -> str:
    """sha256 of a file's content; read again only where its size, time or place on the disk changed. Safe in threads.

    Raises:
        DataError: there is no such file, or it cannot be read.
    """
    store = cache_root() / FILE
    try:
        return _stores.setdefault(store, Digests(store)).of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def digest_of_all(path: Path) -> str:
    """The same of a file, or of the names and contents of the files in a folder (hidden ones left out)."""
    if not path.is_dir():
        return digest_of(path)
    files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    content = "".join(f"{digest_of(file)} {file.name}\n" for file in files)
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def _known(path: Path, status: os.stat_result) -> _Known:
    return os.path.realpath(path), status.st_size, status.st_mtime_ns, status.st_ino


def _read(path: Path, known: _Known) -> tuple[str, bool]:
    """Hash a file; also whether it is the one that was looked at, before and after."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        if known[1] >= TOLD:
            log.info("%s: its %.1f GB are read to know its content; the digest is kept", path, known[1] / 1e9)
        while block := file.read(_BLOCK):
            digest.update(block)
            if (done := done + len(block)) % TOLD == 0:
                log.info("%s: %.1f of %.1f GB", path.name, done / 1e9, known[1] / 1e9)
        return digest.hexdigest(), _known(path, os.fstat(file.fileno())) == known


def _parsed(line: bytes) -> tuple[_Known, str] | None:
    try:
        path, size, time, inode, digest = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    numbers = all(isinstance(value, int) for value in (size, time, inode))
    right = numbers and isinstance(path, str) and isinstance(digest, str) and len(digest) == 64
    return ((path, size, time, inode), digest) if right else None
