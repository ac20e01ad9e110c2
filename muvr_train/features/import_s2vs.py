"""Import of cached features in one HDF5 file, a data set per video, as S2VS, DnS and ViSiL keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from muvr_train.errors import DataError
from muvr_train.features.importing import ImportReport, as_float, recorded, with_progress
from muvr_train.features.manifest import make_manifest
from muvr_train.features.shards import Array
from muvr_train.features.writer import StoreWriter


def import_s2vs(
    h5_file: Path | str, out: Path | str, partition: str | None = None, *, float16: bool = False
) -> ImportReport:
    """Import an HDF5 file into a store; an interrupted import continues.

    Args:
        h5_file: a file with one data set [T, R, D] or [T, D] per video; the names of nested groups are joined with "/".
        out: the store to make.
        partition: put before every id as `<partition>/<id>`; None keeps the names as they are.
        float16: store float16; otherwise the dtype of each data set is kept (float64 becomes float32).

    Returns:
        What is stored, and what could not be imported and why; also in the store's failures.csv.

    Raises:
        DataError: not an HDF5 file, one without data sets, or `out` holds something else.
    """
    import h5py

    h5_file = Path(h5_file)
    if not h5_file.is_file():
        raise DataError(f"There is no file {h5_file}")
    manifest = make_manifest("unknown (imported)", source=str(h5_file.resolve()), partition=partition)
    try:
        opened = h5py.File(h5_file, "r")
    except OSError as error:
        raise DataError(f"{h5_file} is no readable HDF5 file: {error}") from error
    with opened as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if not names:
            raise DataError(f"{h5_file} holds no data sets; expected one [T, R, D] or [T, D] per video")
        writer = StoreWriter(out, manifest, "float16" if float16 else None)
        with recorded(writer, h5_file) as report:
            done = writer.done()
            for name in with_progress(names, len(names), "Importing features"):
                key = name if partition is None else f"{partition}/{name}"
                try:
                    if key not in done:
                        writer.add(key, _frames(np.asarray(file[name])))
                except (DataError, ValueError, TypeError, OSError, MemoryError) as error:
                    report.failures.append((key, f"{h5_file}: data set {name!r}: {error}"))
    return report


def _frames(array: Array) -> Array:
    if array.ndim not in (2, 3):
        raise ValueError(f"expected [T, D] or [T, R, D], got {array.shape}")
    return as_float(array if array.ndim == 3 else array[:, None])
