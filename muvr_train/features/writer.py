"""Writing a feature store: resumable, atomic, one writer at a time."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.index import FORMAT, INDEX, MANIFEST, check_stream_name, open_streams
from muvr_train.features.manifest import check_same_features, version
from muvr_train.features.shards import DTYPES, Array, read_json, write_json, write_shard

LOCK = ".lock"
BESIDE = (LOCK, ".parts", "status.csv", "whitening.safetensors", "views.png")
"""What may lie in the folder before there is a store: left by an extraction that was killed early."""


@dataclass
class _Pending:
    """Entries of one dtype that wait for their shard."""

    ids: list[str] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    size: int = 0


class StoreWriter:
    """Adds features to a store. Use it as a context manager; what was flushed survives a kill, the rest is redone.

    Args:
        path: the store's folder; made if absent, continued if it holds a store with an equal manifest.
        manifest: how the features are made (`make_manifest`); plain data.
        dtype: "float16", "bfloat16" or "float32"; None keeps the dtype of every array (float64 becomes float32).
        shard_mib: size at which a shard is written, in MiB.

    Raises:
        DataError: the folder holds something else, a store with another manifest (the differing keys are shown), a
            broken store, or one that another process is writing.
    """

    def __init__(
        self, path: Path | str, manifest: Mapping[str, Any], dtype: str | None = None, shard_mib: float = 256
    ) -> None:
        if dtype is not None and dtype not in DTYPES:
            raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        self.path = Path(path).absolute()
        self.dtype = dtype
        self._limit = int(shard_mib * 2**20)
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._shapes: dict[str, tuple[int, int]] = {}
        self._done: dict[str, set[str]] = {}
        self._shards: dict[str, list[dict[str, Any]]] = {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = self._take_lock()
        except OSError as error:
            raise DataError(f"The feature store {self.path} cannot be written: {error}") from error
        try:
            self._open({**manifest, "dtype": dtype or "source"})
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(compact=kind is None)

    def done(self, stream: str = "video") -> set[str]:
        """The ids that the stream holds already, including those not yet flushed."""
        return set(self._done.get(stream, ()))

    def has(self, id: str, stream: str = "video") -> bool:  # noqa: A002
        """Whether the stream holds this id already, flushed or not."""
        return id in self._done.get(stream, ())

    def add(self, id: str, array: Array | Tensor, stream: str = "video") -> None:  # noqa: A002
        """Add the features [T, R, D] of one id (numpy array or CPU tensor; copied).

        Raises:
            DataError: an id that is there already, no frames, not a floating-point [T, R, D], other R or D than the
                stream's, values that are not finite (or not within the range of `dtype`).
        """
        check_stream_name(stream)
        what = f"the features of {id!r} (stream {stream!r})"
        if id in self._done.get(stream, ()):
            raise DataError(f"{id!r} is already in stream {stream!r} of {self.path}")
        raw, dtype = _to_raw(array, self.dtype, what)
        regions, dim = self._shapes.get(stream, raw.shape[1:])
        if raw.shape[1:] != (regions, dim):
            raise DataError(
                f"{what} have {raw.shape[1]} regions of size {raw.shape[2]}, the stream has {regions} of size {dim}"
            )
        self._shapes[stream] = regions, dim
        self._done.setdefault(stream, set()).add(id)
        pending = self._pending.setdefault((stream, dtype), _Pending())
        pending.ids.append(id)
        pending.arrays.append(raw)
        pending.size += raw.nbytes
        if pending.size >= self._limit:
            self._write(stream, dtype)

    def flush(self) -> None:
        """Make everything added so far durable. Small shards that this leaves are merged by `close`."""
        for stream, dtype in list(self._pending):
            self._write(stream, dtype)

    def close(self, compact: bool = True) -> None:
        """Flush, merge neighbouring small shards (unless told not to), and let others write. May be called twice."""
        if self._lock < 0:
            return
        try:
            self.flush()
            if compact:
                self._compact()
        finally:
            self._release()

    def _take_lock(self) -> int:
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise DataError(f"Another process is writing the feature store {self.path}") from None
        return lock

    def _release(self) -> None:
        os.close(self._lock)
        self._lock = -1

    def _open(self, manifest: dict[str, Any]) -> None:
        present = sorted(entry.name for entry in self.path.iterdir() if entry.name not in BESIDE)
        for name in present:
            if name.endswith(".tmp"):
                (self.path / name).unlink()
        foreign = [name for name in present if not name.endswith(".tmp")]
        self.manifest = {**manifest, "created_by": f"muvr-train {version()}"}
        if MANIFEST in foreign:
            stored = read_json(self.path / MANIFEST, "the store's manifest")
            what = f"The store {self.path} holds features that were made differently (choose another folder)"
            check_same_features(stored, manifest, what, same_job=True)
            self.manifest = stored
        elif foreign:
            raise DataError(
                f"{self.path} is not empty and no feature store; it holds {shorten(foreign, 3)}. Choose another folder."
            )
        else:
            write_json(self.path / MANIFEST, self.manifest)
        if INDEX in foreign:
            for name, stream in open_streams(self.path).items():
                self._shapes[name] = stream.shape
                self._done[name] = set(stream.ids)
            self._shards = {
                name: entry["shards"] for name, entry in read_json(self.path / INDEX, "")["streams"].items()
            }

    def _write(self, stream: str, dtype: str) -> None:
        pending = self._pending.pop((stream, dtype))
        file = self._next_file(stream)
        write_shard(self.path / file, pending.arrays, dtype)
        self._shards.setdefault(stream, []).append({"file": file, "dtype": dtype, "ids": pending.ids})
        self._write_index()

    def _next_file(self, stream: str) -> str:
        numbers = [int(shard["file"][len(stream) + 1 :].split(".")[0]) for shard in self._shards.get(stream, [])]
        return f"{stream}-{max(numbers, default=-1) + 1:05d}.safetensors"

    def _write_index(self) -> None:
        described = {
            name: {
                "regions": self._shapes[name][0],
                "dim": self._shapes[name][1],
                "dtypes": sorted({shard["dtype"] for shard in shards}),
            }
            for name, shards in self._shards.items()
        }
        if self.manifest.get("streams") != described:
            self.manifest["streams"] = described
            write_json(self.path / MANIFEST, self.manifest)
        streams = {name: {"shape": list(self._shapes[name]), "shards": shards} for name, shards in self._shards.items()}
        write_json(self.path / INDEX, {"format": FORMAT, "streams": streams})

    def _compact(self) -> None:
        """Merge runs of neighbouring shards of one dtype that fit into one shard; ids keep their order."""
        for stream, shards in self._shards.items():
            opened = open_streams(self.path)[stream].shards
            runs = _mergeable(
                [(shard["dtype"], part.raw.nbytes) for shard, part in zip(shards, opened, strict=True)], self._limit
            )
            old = [shards[number]["file"] for run in runs if len(run) > 1 for number in run]
            if not old:
                continue
            for run in runs:
                if len(run) > 1:
                    file = self._next_file(stream)
                    counts = [len(shards[number]["ids"]) for number in run]
                    parts = [part for n, count in zip(run, counts, strict=True) for part in opened[n].entries(count)]
                    write_shard(self.path / file, parts, shards[run[0]]["dtype"])
                    ids = [id_ for number in run for id_ in shards[number]["ids"]]
                    shards.append({"file": file, "dtype": shards[run[0]]["dtype"], "ids": ids})
            merged = iter(shards[len(opened) :])
            self._shards[stream] = [next(merged) if len(run) > 1 else shards[run[0]] for run in runs]
            self._write_index()
            for file in old:
                (self.path / file).unlink()


def _mergeable(shards: list[tuple[str, int]], limit: int) -> list[list[int]]:
    """Group neighbouring shards (dtype, bytes) of one dtype while a group's bytes stay within the limit."""
    runs: list[list[int]] = []
    total = 0
    for number, (dtype, size) in enumerate(shards):
        if runs and shards[runs[-1][0]][0] == dtype and total + size <= limit:
            runs[-1].append(number)
            total += size
        else:
            runs.append([number])
            total = size
    return runs


def _is_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite: either would reach a sum in float64 (20 times faster than testing each)."""
    return math.isfinite(tensor.sum(dtype=torch.float64).item())


def _to_raw(array: Array | Tensor, dtype: str | None, what: str) -> tuple[Array, str]:
    """Check one entry and convert it: raw values [T, R, D] (int16 bits for bfloat16), owned, and their dtype's name."""
    tensor = array.detach().cpu() if isinstance(array, Tensor) else None
    if tensor is None:
        values = np.asarray(array)
        if values.dtype.kind != "f" or values.dtype.itemsize > 8:
            raise DataError(f"{what} must be float16, float32 or float64, got {values.dtype}")
        tensor = torch.from_numpy(np.array(values, dtype=values.dtype.newbyteorder("="), order="C"))
    if not tensor.is_floating_point() or tensor.ndim != 3 or 0 in tensor.shape:
        raise DataError(
            f"{what} must be floating point [T, R, D] with nothing empty, got {tuple(tensor.shape)} {tensor.dtype}"
        )
    if not _is_finite(tensor):
        raise DataError(f"{what} hold values that are not finite (NaN or infinity)")
    name = dtype or str(tensor.dtype).removeprefix("torch.")
    name = "float32" if name == "float64" else name
    if name not in DTYPES:
        raise DataError(f"{what} have dtype {name}, which a store cannot hold; it holds {', '.join(DTYPES)}")
    kept = tensor.to(getattr(torch, name), copy=True).contiguous()
    if kept.dtype != tensor.dtype and not _is_finite(kept):
        raise DataError(f"{what} hold values beyond the range of {name}; choose another dtype")
    return (kept.view(torch.int16) if name == "bfloat16" else kept).numpy(), name
