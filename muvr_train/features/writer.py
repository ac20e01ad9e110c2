"""Writing a feature store: resumable, atomic, one writer at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.entries import FeatureError, to_raw
from muvr_train.features.index import FORMAT, INDEX, MANIFEST, check_stream_name, open_streams
from muvr_train.features.lock import LOCK, StoreLock
from muvr_train.features.manifest import check_same_features, version
from muvr_train.features.shards import DTYPES, Array, read_json, write_json, write_shard

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
        lock: of the store, where it is held already; the writer releases it.

    Raises:
        DataError: the folder holds something else, a store with another manifest (the differing keys are shown), a
            broken store, or one that another process is writing.
    """

    def __init__(
        self,
        path: Path | str,
        manifest: Mapping[str, Any],
        dtype: str | None = None,
        shard_mib: float = 256,
        lock: StoreLock | None = None,
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
        self._lock = StoreLock(self.path) if lock is None else lock
        try:
            self._open({**manifest, "dtype": dtype or "source"})
        except BaseException:
            self._lock.release()
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
            FeatureError: no frames, not a floating-point [T, R, D], other R or D than the stream's, values that
                are not finite (or not within the range of `dtype`).
            DataError: an id that is there already, or a disk that cannot be written.
        """
        check_stream_name(stream)
        what = f"the features of {id!r} (stream {stream!r})"
        if id in self._done.get(stream, ()):
            raise DataError(f"{id!r} is already in stream {stream!r} of {self.path}")
        raw, dtype = to_raw(array, self.dtype, what)
        regions, dim = self._shapes.get(stream, raw.shape[1:])
        if raw.shape[1:] != (regions, dim):
            raise FeatureError(
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
        if not self.is_open:
            return
        try:
            self.flush()
            if compact:
                self._compact()
        finally:
            self._lock.release()

    @property
    def is_open(self) -> bool:
        """Whether it has neither been closed nor abandoned."""
        return self._lock.held

    def abandon(self) -> None:
        """Let others write; what was not flushed is lost."""
        self._lock.release()

    def _open(self, manifest: dict[str, Any]) -> None:
        self.manifest = {**manifest, "created_by": f"muvr-train {version()}"}
        stored = check_place(self.path, self.manifest)
        for temporary in self.path.glob("*.tmp"):
            temporary.unlink()
        if stored is None:
            write_json(self.path / MANIFEST, self.manifest)
            return
        self.manifest = stored
        if (self.path / INDEX).is_file():
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


def check_place(path: Path, manifest: Mapping[str, Any], unknown: Collection[str] = ()) -> dict[str, Any] | None:
    """Refuse a folder in which no features with this manifest can be stored; nothing is changed.

    Args:
        path: the store's folder.
        manifest: how the features are made, and the store's `dtype`.
        unknown: keys that are not known yet.

    Returns:
        The manifest of the store that is there, or None.

    Raises:
        DataError: the folder holds something else, or a store that was made differently.
    """
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    present = [name for name in names if name not in BESIDE and not name.endswith(".tmp")]
    if MANIFEST in present:
        stored = read_json(path / MANIFEST, "the store's manifest")
        what = f"The store {path} holds features that were made differently (choose another folder)"
        known = {key: value for key, value in stored.items() if key not in unknown}
        check_same_features(known, manifest, what, same_job=True)
        return stored
    if present:
        raise DataError(
            f"{path} is not empty and no feature store; it holds {shorten(present, 3)}. Choose another folder."
        )
    return None


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
