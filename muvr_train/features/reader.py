"""Rows of a store's streams, gathered from where they reside: a whole batch at once, as float32."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from muvr_train.features.index import Stream
from muvr_train.features.shards import DTYPES, Array

Rows = npt.NDArray[np.int64]
PADDING = -2
"""As a row number: nothing is needed there (-1 would stand beside row 0)."""
_TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_KEPT_BUFFER = 2**26  # bytes
_SHORT_RUN = 4  # rows: where runs of neighbouring rows are shorter on average, numpy gathers row by row


class Reader:
    """Gathers rows of streams; several threads may read at the same time.

    Rows of a stream are numbered through all its shards: those of entry i begin at `stream.first[i]`.

    Args:
        streams: the opened streams by name.
        residency: "mmap" reads the memory maps; "ram" and "gpu" copy a stream into one tensor when it is first read.
        device: where that tensor is for "gpu"; all else is on the CPU.
    """

    def __init__(self, streams: Mapping[str, Stream], residency: str, device: str) -> None:
        self.streams = streams
        self.resident = residency != "mmap"
        self.device = torch.device(device if residency == "gpu" else "cpu")
        self._flat: dict[str, Tensor] = {}
        self._loading = threading.Lock()
        self._buffers: dict[str, Array] = {}

    def take(self, name: str, rows: Rows, run: int = 1) -> Tensor:
        """Copy rows of a stream.

        Args:
            name: of the stream.
            rows: row numbers, or `PADDING`.
            run: rows from each row number on; above 1 it must be the length of all entries of the stream.

        Returns:
            float32 [len(rows) * run, R, D] on the device; padded places hold anything.
        """
        stream = self.streams[name]
        shape, count = stream.shape, len(rows) * run
        if self.resident:
            flat = self._resident(name)
            index = send(np.maximum(rows, 0) // run, flat.device)
            return flat.view(-1, run, *shape).index_select(0, index).flatten(0, 1).float()
        width, dtype = shape[0] * shape[1], stream.dtype
        if dtype == "float32":
            values = torch.empty((count, width))
            _copy(stream, rows, run, values.numpy())
            return values.view(count, *shape)
        buffer = self._buffers.pop(dtype, None)  # popped: another thread that reads meanwhile makes its own
        if buffer is None or len(buffer) < count * width:
            buffer = np.empty(count * width, dtype=DTYPES[dtype][1])
        raw = buffer[: count * width].reshape(count, width)
        _copy(stream, rows, run, raw)
        values = _as_stored(raw, dtype).float()  # through a kept buffer: 1.5 times faster
        if buffer.nbytes <= _KEPT_BUFFER:
            self._buffers[dtype] = buffer
        return values.view(count, *shape)

    def _resident(self, name: str) -> Tensor:
        """A whole stream as one tensor [all rows, R, D] in the stored dtype."""
        with self._loading:
            if name not in self._flat:
                stream = self.streams[name]
                size = (int(stream.bases[-1]), *stream.shape)
                flat = torch.empty(size, dtype=_TORCH[stream.dtype], device=self.device)
                for begin, shard in zip(stream.bases.tolist(), stream.shards, strict=False):
                    flat[begin : begin + len(shard.raw)] = _as_stored(np.array(shard.raw), shard.dtype).to(self.device)
                self._flat[name] = flat
            return self._flat[name]


def send(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Put an array onto a device without waiting for what the device has to do before."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def as_float(raw: Array, dtype: str) -> Tensor:
    """Raw values as a float32 tensor that owns its memory."""
    return _as_stored(raw if raw.flags.writeable else np.array(raw), dtype).float()


def _as_stored(raw: Array, dtype: str) -> Tensor:
    return torch.from_numpy(raw).view(_TORCH[dtype])


def _copy(stream: Stream, rows: Rows, run: int, out: Array) -> None:
    """Copy rows out of a stream's memory maps to `out` [len(rows) * run, R * D], raw or (mixed dtypes) as float32."""
    blocks = [shard.raw.reshape(len(shard.raw), -1) for shard in stream.shards]
    if len(blocks) == 1:
        block, target = blocks[0].reshape(-1, run * out.shape[1]), out.reshape(-1, run * out.shape[1])
        block.take(rows // run, axis=0, out=target, mode="clip")
        return
    number = stream.bases.searchsorted(rows, side="right") - 1
    borders = np.diff(number) != 0
    jumps = borders | (np.diff(rows) != 1) | (run > 1)
    in_runs = run > 1 or np.count_nonzero(jumps) * _SHORT_RUN < len(rows)
    cuts = np.flatnonzero(jumps if in_runs else borders) + 1
    for begin, stop in pairwise([0, *cuts.tolist(), len(rows)] if len(rows) else []):
        place = int(number[begin])
        if place < 0:  # padding
            continue
        block, own = blocks[place], rows[begin:stop] - stream.bases[place]
        taken = block[own[0] : own[-1] + run] if in_runs else block[own]
        mixed = stream.shards[place].dtype != stream.dtype
        out[begin * run : stop * run] = as_float(taken, stream.shards[place].dtype).numpy() if mixed else taken
