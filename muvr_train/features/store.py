"""The feature store: cached features of videos and texts, read through memory maps.

A store is a folder with `manifest.json` (how the features were made), `index.json` (which id lies where) and shards
`<stream>-00000.safetensors`. Streams: "video" (the frame features), "fine" (a second region grid that texts look at),
"text" (query prompts), "tags" (keys from `tag_key`), "view1", "view2" ... (edited views of videos).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.index import INDEX, MANIFEST, Stream, open_streams
from muvr_train.features.reader import PADDING, Reader, Rows, as_float, send
from muvr_train.features.shards import Array, Shard, read_json
from muvr_train.types import StoreDims, TextTokens, Tokens

RESIDENCIES = ("mmap", "ram", "gpu")


def tag_key(query_id: str, tag: str) -> str:
    """The key of a tag's vector in the stream "tags"; one tag may have another vector for every query.

    >>> tag_key("news/12", "aerial view")
    '["news/12", "aerial view"]'
    """
    return json.dumps([query_id, tag], ensure_ascii=False)


class FeatureStore:
    """A read-only feature store. Picklable; every process maps the files for itself, so any worker may read.

    Args:
        path: the store's folder.
        residency: "mmap" leaves the features on disk (the operating system caches them), "ram" copies a stream into
            memory and "gpu" onto `device` as one tensor, both when the stream is first read in batches. A pickled copy
            loads again in its process, so use "ram" and "gpu" without workers.
        device: where "gpu" puts the features and the batches; the other residencies return CPU tensors.

    Raises:
        DataError: no store at `path`, or one whose index or shards are missing, broken or truncated.
        ConfigError: unknown residency.
    """

    def __init__(self, path: Path | str, residency: str = "mmap", device: str = "cpu") -> None:
        if residency not in RESIDENCIES:
            raise ConfigError(f"residency must be one of {', '.join(RESIDENCIES)}, got {residency!r}")
        self.path = Path(path).absolute()
        self.residency = residency
        self.device = device
        if not self.path.is_dir():
            raise DataError(f"There is no feature store at {self.path}: no such folder")
        self.manifest: dict[str, Any] = read_json(self.path / MANIFEST, "the store's manifest")
        if not (self.path / INDEX).exists():
            raise DataError(
                f"The feature store {self.path} is empty: its writer stopped before the first shard was complete. "
                "Run the extraction or import again, it continues."
            )
        self._streams = open_streams(self.path)
        self._reader = Reader(self._streams, residency, device)
        numbered = [name for name in self._streams if re.fullmatch(r"view\d+", name)]
        self._views = sorted(numbered, key=lambda name: int(name[4:]))

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[str, str, str]]:
        return type(self), (str(self.path), self.residency, self.device)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(stream.ids)} x {stream.shape}" for name, stream in self._streams.items())
        return f"FeatureStore({str(self.path)!r}: {sizes})"

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that hold something."""
        return tuple(self._streams)

    @property
    def dims(self) -> StoreDims:
        """Feature sizes and region counts, as a model needs them.

        Raises:
            DataError: the store holds no video features.
        """
        regions, dim = self.shape("video")
        fine = self._streams["fine"].shape if "fine" in self._streams else (None, None)
        text_dim = self._streams["text"].shape[1] if "text" in self._streams else None
        return StoreDims(regions, dim, text_dim, *fine)

    def ids(self, stream: str = "video") -> list[str]:
        """The ids of a stream in stored order; empty where the stream does not exist."""
        return list(self._streams[stream].ids) if stream in self._streams else []

    def has(self, id: str, stream: str = "video") -> bool:  # noqa: A002 (ids are called ids everywhere)
        """Whether the stream holds the id."""
        return stream in self._streams and id in self._streams[stream].where

    def shape(self, stream: str = "video") -> tuple[int, int]:
        """Regions and feature size (R, D) of a stream; (1, D_text) for texts and tags."""
        return self._stream(stream).shape

    def length(self, id: str, stream: str = "video") -> int:  # noqa: A002
        """The number of frames T of a video (of tokens L of a text)."""
        return int(self._stream(stream).length[self._positions([id], stream)[0]])

    def views(self, id: str) -> list[str]:  # noqa: A002
        """The streams that hold an edited view of the video: those of "view1", "view2" ... that contain the id."""
        return [name for name in self._views if id in self._streams[name].where]

    def array(self, id: str, stream: str = "video") -> Array:  # noqa: A002
        """The features [T, R, D] of one id in the stored dtype: a read-only view of the memory map.

        numpy has no bfloat16: features stored so are returned as a float32 copy, which holds the same values.
        """
        opened = self._stream(stream)
        shard, rows = self._rows(opened, self._positions([id], stream)[0])
        if shard.dtype == "bfloat16":
            return as_float(shard.raw[rows], shard.dtype).numpy()
        return shard.raw[rows]

    def tensors(self, ids: Sequence[str], stream: str = "video") -> list[Tensor]:
        """The features of several ids, each float32 [T, R, D], unpadded (on `device` where resident there)."""
        opened = self._stream(stream)
        positions = self._positions(ids, stream)
        spans = [np.arange(opened.length[position]) + opened.first[position] for position in positions]
        return [self._reader.take(stream, rows) for rows in spans]

    def tokens(self, ids: Sequence[str], stream: str = "video") -> Tokens:
        """One padded float32 batch: x [B, T, R, D] with zeros where mask [B, T] is False; [0, 1, R, D] for no id.

        Args:
            ids: what to read, in this order; repeats are allowed.
            stream: where to read it.

        Raises:
            DataError: ids that the stream does not hold, named.
        """
        opened = self._stream(stream)
        positions = self._positions(ids, stream)
        first, lengths = opened.first[positions], opened.length[positions]
        run = opened.common_length
        if run and len(ids):
            x = self._reader.take(stream, first, run).view(len(ids), run, *opened.shape)
            return Tokens(x, torch.ones((len(ids), run), dtype=torch.bool, device=x.device))
        steps = np.arange(lengths.max(initial=1))
        real = steps < lengths[:, None]
        rows = np.where(real, first[:, None] + steps, PADDING)
        return _padded(self._reader.take(stream, rows.ravel()), real)

    def gather(self, clips: Sequence[tuple[str, str]], clip: Rows, frame: Rows) -> Tokens:
        """One padded float32 batch put together frame by frame, as `tokens` gives it.

        Args:
            clips: what frames are taken from, (stream, id) each; all of one shape (R, D).
            clip: int [B, T], the place in `clips` of each frame; -1 where there is none.
            frame: int [B, T], the number of each frame in its clip.

        Raises:
            DataError: ids that a stream does not hold, or streams of different shapes.
            IndexError: a frame beyond a clip's length.
        """
        names = list(dict.fromkeys(stream for stream, _ in clips))
        shapes = {self.shape(name) for name in names}
        if len(shapes) > 1:
            raise DataError(f"{self.path}: the streams {', '.join(names)} differ in regions and feature size: {shapes}")
        first, length = (np.zeros(len(clips) + 1, dtype=np.int64) for _ in range(2))  # the last one: padding
        kind = np.zeros(len(clips) + 1, dtype=np.int64)
        for number, name in enumerate(names):
            places = [place for place, (stream, _) in enumerate(clips) if stream == name]
            positions = self._positions([clips[place][1] for place in places], name)
            first[places], length[places] = self._streams[name].first[positions], self._streams[name].length[positions]
            kind[places] = number
        real = clip >= 0
        if not ((frame < length[clip]) & (frame >= 0) | ~real).all():
            raise IndexError("a frame number lies beyond its clip")
        rows, kinds = np.where(real, first[clip] + frame, PADDING).ravel(), np.where(real, kind[clip], -1).ravel()
        if len(names) == 1:
            return _padded(self._reader.take(names[0], rows), real)
        x = torch.zeros((rows.size, *shapes.pop()), device=self._reader.device)
        for number, name in enumerate(names):
            chosen = np.flatnonzero(kinds == number)
            x.index_copy_(0, send(chosen, x.device), self._reader.take(name, rows[chosen]))
        return _padded(x, real)

    def texts(self, ids: Sequence[str]) -> TextTokens:
        """Query texts as one padded batch, float32 [Q, L, D_text]."""
        tokens = self.tokens(ids, "text")
        return TextTokens(tokens.x[:, :, 0], tokens.mask)

    def _stream(self, stream: str) -> Stream:
        if stream not in self._streams:
            present = ", ".join(self._streams) or "none"
            raise DataError(f"The feature store {self.path} has no stream {stream!r}; it has: {present}")
        return self._streams[stream]

    def _positions(self, ids: Sequence[str], stream: str) -> npt.NDArray[np.int64]:
        where = self._stream(stream).where
        found = [where.get(id_, -1) for id_ in ids]
        if -1 in found:
            missing = [id_ for id_, position in zip(ids, found, strict=True) if position < 0]
            raise DataError(
                f"{len(missing)} of {len(ids)} ids are missing in stream {stream!r} of the feature store {self.path}: "
                f"{shorten(missing)}"
            )
        return np.array(found, dtype=np.int64)

    def _rows(self, opened: Stream, position: np.int64) -> tuple[Shard, slice]:
        start = int(opened.start[position])
        return opened.shards[int(opened.shard[position])], slice(start, start + int(opened.length[position]))


def _padded(x: Tensor, real: npt.NDArray[np.bool_]) -> Tokens:
    """Frames [B * T, R, D] as a batch with zeros where `real` [B, T] is False."""
    if not real.all():
        x.index_fill_(0, send(np.flatnonzero(~real), x.device), 0.0)
    return Tokens(x.view(*real.shape, *x.shape[1:]), send(real, x.device))
