"""One writer at a time for a feature store."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from muvr_train.errors import DataError

LOCK = ".lock"


class StoreLock:
    """The right to write a store; it ends with `release`, or with the process.

    Args:
        path: the store's folder; made if absent.

    Raises:
        DataError: another process holds it, or the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise DataError(f"The feature store {path} cannot be written: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            self._file = -1
            if isinstance(error, BlockingIOError):
                raise DataError(f"Another process is writing the feature store {path}") from None
            raise DataError(f"The feature store {path} cannot be locked: {error}") from error

    @property
    def held(self) -> bool:
        """Whether it has not been released."""
        return self._file >= 0

    def release(self) -> None:
        """Let others write. May be called twice."""
        if self.held:
            os.close(self._file)
            self._file = -1
