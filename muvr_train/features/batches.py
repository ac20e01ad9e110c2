"""Frames of many videos to batches of one size, and the features of batches back to videos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from muvr_train.features.events import Done, Event, FrameChunk, Void
from muvr_train.features.status import UNDECODABLE, VideoStatus


@dataclass(frozen=True)
class Rows:
    """The next `count` frames of a batch belong to a stream of a job."""

    job: int
    stream: str
    count: int


@dataclass(frozen=True)
class FrameBatch:
    """Frames uint8 [n, 3, h, w] (None where n = 0), and in order what they belong to and which jobs end."""

    frames: Tensor | None
    parts: tuple[Rows | Void | Done, ...]


def batch_frames(events: Iterable[Event], size: int) -> Iterator[FrameBatch]:
    """Cut the frames of all jobs into batches of `size`, across videos; only the last one is smaller.

    Batches depend on the order of the jobs alone, so a repeated extraction gives the same bits.
    """
    frames: list[np.ndarray] = []
    parts: list[Rows | Void | Done] = []
    filled = 0
    for event in events:
        if not isinstance(event, FrameChunk):
            parts.append(event)
            continue
        rest = event.frames
        while len(rest):
            taken = rest[: size - filled]
            rest = rest[len(taken) :]
            frames.append(taken)
            parts.append(Rows(event.job, event.stream, len(taken)))
            filled += len(taken)
            if filled == size:
                yield FrameBatch(_to_tensor(frames), tuple(parts))
                frames, parts, filled = [], [], 0
    if parts:
        yield FrameBatch(_to_tensor(frames) if frames else None, tuple(parts))


def _to_tensor(frames: Sequence[np.ndarray]) -> Tensor:
    """uint8 [n, 3, h, w], channels last in memory."""
    return torch.from_numpy(np.concatenate(frames)).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Finished:
    """A job that has ended: features [T, R, D] per stream of the store, none where it failed."""

    status: VideoStatus
    features: dict[str, Tensor]


class FeatureCollector:
    """Puts the features of batches together again, video by video.

    The encoder's streams keep their names for the jobs' stream "video"; for another one (a view) the encoder's stream
    "video" takes its name, and its other streams are dropped.

    Args:
        dtype: of the store, "float16", "bfloat16" or "float32"; features are converted at once, to save memory.
        streams: those of the encoder that are kept; None: all.
    """

    def __init__(self, dtype: str, streams: Sequence[str] | None = None) -> None:
        self.dtype, self.streams = dtype, streams
        self._parts: dict[str, list[Tensor]] = {}
        self._fault = ""

    def take(self, batch: FrameBatch, features: dict[str, Tensor]) -> Iterator[Finished]:
        """Take the features {encoder's stream: [n, R, D]} of a batch; gives the jobs that end in it."""
        start = 0
        for part in batch.parts:
            if isinstance(part, Rows):
                for name, values in features.items():
                    if self.streams is not None and name not in self.streams:
                        continue
                    if part.stream == "video" or name == "video":
                        self._add(name if part.stream == "video" else part.stream, values[start : start + part.count])
                start += part.count
                continue
            if isinstance(part, Done):
                yield self._finish(part.status)
            self._parts, self._fault = {}, ""

    def _add(self, stream: str, values: Tensor) -> None:
        kept = values.to(getattr(torch, self.dtype))
        if not self._fault and not torch.isfinite(kept).all():
            finite = bool(torch.isfinite(values).all())
            self._fault = (
                f"the features go beyond the range of {self.dtype} (stream {stream}); choose dtype=float32"
                if finite
                else f"the encoder gives values that are not finite (stream {stream})"
            )
        self._parts.setdefault(stream, []).append(kept)

    def _finish(self, status: VideoStatus) -> Finished:
        if status.failed:
            return Finished(status, {})
        if self._fault:
            return Finished(replace(status, status=UNDECODABLE, reason=self._fault, used=0), {})
        return Finished(status, {name: torch.cat(parts) for name, parts in self._parts.items()})
