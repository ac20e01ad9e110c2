"""Where the package keeps what it can make again: imported stores, extracted folders, the built-in corpus."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muvr_train.errors import DataError


def cache_root() -> Path:
    """The cache folder: the environment variable MUVR_TRAIN_CACHE, or ~/.cache/muvr_train. It may not exist yet."""
    chosen = os.environ.get("MUVR_TRAIN_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "muvr_train"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file: one process at a time makes an entry of the cache, the others wait for it.

    Raises:
        DataError: the cache folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise DataError(f"The cache folder cannot be written: {error}. Set MUVR_TRAIN_CACHE to another one.") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
