"""`open_features`: whatever a user calls features, opened as a store."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

from muvr_train.cache import locked
from muvr_train.errors import DataError, shorten
from muvr_train.features.import_muvr import import_muvr, list_partitions
from muvr_train.features.import_s2vs import import_s2vs
from muvr_train.features.importing import DONE, FAILURES
from muvr_train.features.index import INDEX, MANIFEST
from muvr_train.features.shards import read_json
from muvr_train.features.store import FeatureStore

_HDF5 = (".h5", ".hdf5")
_EXPECTED = (
    "Expected a feature store (a folder with manifest.json), a folder in MUVR's layout (<partition>/<video id>.npy), "
    "or an HDF5 file (.h5, .hdf5) with a data set per video."
)
logger = logging.getLogger(__name__)


def open_features(path: Path | str, cache: Path | str, residency: str = "mmap", device: str = "cpu") -> FeatureStore:
    """Open a store; import a folder in MUVR's layout or an HDF5 file into the cache once, and open that.

    Args:
        path: a store's folder, a folder in MUVR's layout, or an .h5 / .hdf5 file.
        cache: the cache folder (`muvr_train.cache.cache_root()`). An import lies in `imported/<digest>` inside it, the
            digest being of the source's place, file names, sizes and times: changed features are imported again.
        residency: see `FeatureStore`.
        device: see `FeatureStore`.

    Raises:
        DataError: nothing there, an empty folder, something else, or a broken store.
    """
    source = Path(path)
    check_features(source)
    if not _is_store(source):
        source = _imported(source.resolve(), Path(cache) / "imported")
    return FeatureStore(source, residency, device)


def check_features(source: Path) -> None:
    """Check at a glance that something holds features; what is in its files is not read.

    Raises:
        DataError: nothing there, an empty folder, or something else.
    """
    if not source.exists():
        raise DataError(f"The features {source} do not exist. {_EXPECTED}")
    if source.is_dir() and not _is_store(source):
        names = sorted(entry.name for entry in source.iterdir())
        if not names:
            raise DataError(f"The folder of features {source} is empty. {_EXPECTED}")
        if not list_partitions(source):
            raise DataError(f"The folder {source} holds no features; it holds: {shorten(names, 5)}. {_EXPECTED}")
    if source.is_file() and source.suffix.lower() not in _HDF5:
        raise DataError(f"{source} is a file that holds no features ({source.suffix or 'no extension'}). {_EXPECTED}")


def _is_store(source: Path) -> bool:
    return (source / MANIFEST).exists() or (source / INDEX).exists()


def _imported(source: Path, folder: Path) -> Path:
    """The store that holds the import of a source; makes or completes it if needed, in one process at a time."""
    store = folder / source_digest(source)
    with locked(store.with_suffix(".lock")):
        if not (store / DONE).exists():
            logger.info("Importing %s into %s", source, store)
            (import_muvr if source.is_dir() else import_s2vs)(source, store)
        elif read_json(store / DONE, "the mark of an import").get("failures"):
            logger.warning("Some features of %s could not be imported: see %s", source, store / FAILURES)
    return store


def source_digest(source: Path) -> str:
    """A name for the state of a folder or file: its place, and names, sizes and times in it (two levels)."""
    listing: list[tuple[str, int, int]] = []
    pending = [(source, 0)] if source.is_dir() else []
    while pending:
        folder, depth = pending.pop()
        for entry in os.scandir(folder):
            status = entry.stat(follow_symlinks=os.path.exists(entry.path))  # a broken link is reported by the import
            if entry.is_dir() and depth == 0:
                pending.append((Path(entry.path), 1))
            else:
                listing.append((entry.path, status.st_size, status.st_mtime_ns))
    if source.is_file():
        listing.append((str(source), source.stat().st_size, source.stat().st_mtime_ns))
    content = json.dumps([str(source), sorted(listing)])
    return hashlib.sha256(content.encode("ascii")).hexdigest()[:24]
