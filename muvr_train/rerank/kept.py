"""The pixels that were decoded last, for further questions about them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from muvr_train.rerank.types import Clip, Picture

CACHE_MIB = 256
"""Bound on the pixels that a process keeps for further questions."""


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
