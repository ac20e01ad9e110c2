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
from muvr_train.features.shards import Array, Shard, read_json
from muvr_train.types import StoreDims, TextTokens, Tokens

RESIDENCIES = ("mmap", "ram", "gpu")
_KEPT_BUFFER = 2**26  # bytes
_TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


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
        self._blocks: dict[str, list[Array]] = {}
        self._buffers: dict[str, Array] = {}
        self._resident: dict[str, tuple[Tensor, Tensor]] = {}

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
        names = [name for name in self._streams if re.fullmatch(r"view\d+", name) and self.has(id, name)]
        return sorted(names, key=lambda name: int(name[4:]))

    def array(self, id: str, stream: str = "video") -> Array:  # noqa: A002
        """The features [T, R, D] of one id in the stored dtype: a read-only view of the memory map.

        numpy has no bfloat16: features stored so are returned as a float32 copy, which holds the same values.
        """
        opened = self._stream(stream)
        shard, rows = self._rows(opened, self._positions([id], stream)[0])
        if shard.dtype == "bfloat16":
            return _as_float(shard.raw[rows], shard.dtype).numpy()
        return shard.raw[rows]

    def tensors(self, ids: Sequence[str], stream: str = "video") -> list[Tensor]:
        """The features of several ids, each float32 [T, R, D], unpadded (on `device` where resident there)."""
        opened = self._stream(stream)
        positions = self._positions(ids, stream)
        if self.residency == "gpu":
            flat, starts = self._on_device(stream)
            begins = starts[torch.from_numpy(positions)].tolist()
            spans = zip(begins, opened.length[positions].tolist(), strict=True)
            return [flat[begin : begin + length].to(torch.float32, copy=True) for begin, length in spans]
        found = [self._rows(opened, position) for position in positions]
        return [_as_float(shard.raw[rows], shard.dtype) for shard, rows in found]

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
        lengths = opened.length[positions]
        steps = np.arange(lengths.max(initial=1))
        mask = torch.from_numpy(steps < lengths[:, None])
        # Padded places repeat a video's last row while reading, so that one gather serves the whole batch.
        frames = np.minimum(steps, lengths[:, None] - 1)
        if self.residency == "gpu":
            flat, starts = self._on_device(stream)
            rows = starts[torch.from_numpy(positions)][:, None] + torch.from_numpy(frames)
            x = flat.index_select(0, rows.flatten().to(flat.device)).float().view(*rows.shape, *opened.shape)
            mask = mask.to(flat.device)
        else:
            x = self._gather(stream, positions, frames)
        if not bool((lengths == len(steps)).all()):
            x.masked_fill_(~mask[..., None, None], 0.0)
        return Tokens(x, mask)

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

    def _gather(self, stream: str, positions: npt.NDArray[np.int64], frames: npt.NDArray[np.int64]) -> Tensor:
        """Read rows start + frames [B, T] of each position, shard by shard, as float32 [B, T, R, D]."""
        opened = self._stream(stream)
        if stream not in self._blocks:
            flat = [shard.raw.reshape(len(shard.raw), -1) for shard in opened.shards]
            self._blocks[stream] = [np.array(block) for block in flat] if self.residency == "ram" else flat
        rows, numbers = opened.start[positions][:, None] + frames, opened.shard[positions]
        if not len(numbers) or (numbers == numbers[0]).all():
            number = int(numbers[0]) if len(numbers) else 0
            taken = self._take(self._blocks[stream][number], rows, opened.shards[number])
            return taken.view(*rows.shape, *opened.shape)
        out = torch.empty((*rows.shape, *opened.shape), dtype=torch.float32)
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            taken = self._take(self._blocks[stream][number], rows[chosen], opened.shards[number])
            out[torch.from_numpy(chosen)] = taken.view(len(chosen), *out.shape[1:])
        return out

    def _take(self, block: Array, rows: npt.NDArray[np.int64], shard: Shard) -> Tensor:
        """Rows [B, T] of a shard's block as float32. Half precision goes through a kept buffer (1.5x faster)."""
        rows, width, dtype = rows.reshape(-1, 1), rows.shape[1], shard.dtype
        if width > 1 and width == shard.common_length:  # whole videos without padding: one copy each
            block, rows = block.reshape(-1, width * block.shape[1]), rows[::width] // width
        rows = rows[:, 0]
        if dtype == "float32":
            return torch.from_numpy(block.take(rows, axis=0))
        need = len(rows) * block.shape[1]
        buffer = self._buffers.pop(dtype, None)  # popped: another thread that reads meanwhile makes its own
        if buffer is None or len(buffer) < need:
            buffer = np.empty(need, dtype=block.dtype)
        raw = block.take(rows, axis=0, out=buffer[:need].reshape(len(rows), block.shape[1]), mode="clip")
        values = _as_stored(raw, dtype).float()
        if buffer.nbytes <= _KEPT_BUFFER:
            self._buffers[dtype] = buffer
        return values

    def _on_device(self, stream: str) -> tuple[Tensor, Tensor]:
        """A whole stream as one tensor [all rows, R, D] on the device, and each entry's first row in it (on CPU)."""
        if stream not in self._resident:
            opened = self._stream(stream)
            dtypes = {shard.dtype for shard in opened.shards}
            dtype = _TORCH[dtypes.pop()] if len(dtypes) == 1 else torch.float32
            total = sum(len(shard.raw) for shard in opened.shards)
            flat = torch.empty((total, *opened.shape), dtype=dtype, device=self.device)
            begins, begin = [], 0
            for shard in opened.shards:
                flat[begin : begin + len(shard.raw)] = _as_stored(np.array(shard.raw), shard.dtype).to(self.device)
                begins.append(begin)
                begin += len(shard.raw)
            starts = torch.from_numpy(np.array(begins, dtype=np.int64)[opened.shard] + opened.start)
            self._resident[stream] = flat, starts
        return self._resident[stream]


def _as_stored(raw: Array, dtype: str) -> Tensor:
    return torch.from_numpy(raw).view(_TORCH[dtype])


def _as_float(raw: Array, dtype: str) -> Tensor:
    """Raw values as a float32 tensor that owns its memory."""
    owned = raw if raw.flags.writeable else np.array(raw)
    return _as_stored(owned, dtype).float()
