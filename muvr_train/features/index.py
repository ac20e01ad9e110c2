"""The index of a feature store: which id lies in which shard, checked against the shards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from muvr_train.errors import DataError
from muvr_train.features.shards import Shard, open_shard, read_json

FORMAT = 1
MANIFEST = "manifest.json"
INDEX = "index.json"
_STREAM = re.compile(r"[a-z][a-z0-9_]*")


@dataclass
class Stream:
    """One stream, opened: entry i of `ids` is rows start[i] : start[i] + length[i] of shard[i]."""

    shape: tuple[int, int]
    ids: list[str]
    shards: list[Shard]
    where: dict[str, int]
    shard: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]

    @cached_property
    def bases(self) -> npt.NDArray[np.int64]:
        """Of each shard, the rows that lie in those before it; and the sum of all."""
        return np.cumsum([0, *(len(shard.raw) for shard in self.shards)], dtype=np.int64)

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """The first row of each entry, counted through all shards."""
        return self.bases[self.shard] + self.start

    @cached_property
    def dtype(self) -> str:
        """The dtype of all shards; float32, which holds the values of the others, where they differ."""
        dtypes = {shard.dtype for shard in self.shards}
        return dtypes.pop() if len(dtypes) == 1 else "float32"

    @cached_property
    def common_length(self) -> int:
        """The number of rows T that all entries have, 0 where they differ."""
        lengths = {shard.common_length for shard in self.shards}
        return lengths.pop() if len(lengths) == 1 else 0


def check_stream_name(stream: str) -> None:
    """Raise a DataError where a stream's name could not be the beginning of a shard's file name."""
    if _STREAM.fullmatch(stream) is None:
        raise DataError(
            f"A stream is named by small letters, digits and _ (such as video, text, view1), got {stream!r}"
        )


def open_streams(path: Path) -> dict[str, Stream]:
    """Read a store's index and open every shard in it.

    Raises:
        DataError: the index or a shard is broken, or they do not fit together.
    """
    file = path / INDEX
    index = read_json(file, "the store's index")
    if index.get("format") != FORMAT:
        raise DataError(f"{file} has format {index.get('format')!r}; this version of muvr-train reads format {FORMAT}")
    try:
        listed = {
            str(name): (tuple(entry["shape"]), [(str(shard["file"]), list(shard["ids"])) for shard in entry["shards"]])
            for name, entry in index["streams"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is damaged ({error!r}). Delete the store folder and build it again.") from error
    return {name: _open_stream(path, name, shape, shards) for name, (shape, shards) in listed.items()}


def _open_stream(path: Path, name: str, shape: tuple[int, ...], listed: list[tuple[str, list[str]]]) -> Stream:
    check_stream_name(name)
    for file, _ in listed:
        if re.fullmatch(re.escape(name) + r"-\d{5,}\.safetensors", file) is None:
            raise DataError(f"{path / INDEX} names a shard {file!r}, which is no shard of stream {name!r}")
    shards = [open_shard(path / file, len(ids)) for file, ids in listed]
    for (file, _), shard in zip(listed, shards, strict=True):
        if shard.raw.shape[1:] != shape:
            raise DataError(
                f"{path / file} holds [T, R, D] features with (R, D) = {shard.raw.shape[1:]}, the index says {shape}"
            )
    ids = [id_ for _, part in listed for id_ in part]
    where = {id_: position for position, id_ in enumerate(ids)}
    if len(where) != len(ids) or not all(type(id_) is str for id_ in ids):
        raise DataError(f"{path / INDEX} lists an id of stream {name!r} twice, or one that is no text")
    counts = [len(part) for _, part in listed]
    none = [np.zeros(0, dtype=np.int64)]
    start = np.concatenate(none + [shard.offsets[:n] for shard, n in zip(shards, counts, strict=True)])
    stop = np.concatenate(none + [shard.offsets[1 : n + 1] for shard, n in zip(shards, counts, strict=True)])
    number = np.repeat(np.arange(len(shards), dtype=np.int64), counts)
    return Stream((shape[0], shape[1]), ids, shards, where, number, start, stop - start)
