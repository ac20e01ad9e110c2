"""Where the package keeps what it can make again: imported stores, extracted folders, the built-in corpus."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The cache folder: the environment variable MUVR_TRAIN_CACHE, or ~/.cache/muvr_train. It may not exist yet."""
    chosen = os.environ.get("MUVR_TRAIN_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "muvr_train"
