"""What decoder processes give, in the order of the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muvr_train.features.jobs import Job
from muvr_train.features.status import VideoStatus


@dataclass(frozen=True)
class FrameChunk:
    """The next frames of job number `job`: uint8 [t, h, w, 3], preprocessed."""

    job: int
    stream: str
    frames: NDArray[np.uint8]


@dataclass(frozen=True)
class Void:
    """All chunks of this job so far count for nothing; it starts again."""

    job: int


@dataclass(frozen=True)
class Done:
    """The job has ended; no more chunks of it come."""

    job: int
    status: VideoStatus


Event = FrameChunk | Void | Done


class EventSource(Protocol):
    """What gives the events of jobs: a `pool.DecodePool`."""

    jobs: Sequence[Job]

    def __iter__(self) -> Iterator[Event]: ...


def decoded(pool: EventSource) -> Iterator[tuple[Job, dict[str, NDArray[np.uint8]], VideoStatus]]:
    """Whole videos: each job with the frames of its streams uint8 [T, h, w, 3] and what became of it."""
    chunks: dict[str, list[Any]] = {}
    for event in pool:
        if isinstance(event, FrameChunk):
            chunks.setdefault(event.stream, []).append(event.frames)
            continue
        if isinstance(event, Done):
            frames = {} if event.status.failed else {name: np.concatenate(parts) for name, parts in chunks.items()}
            yield pool.jobs[event.job], frames, event.status
        chunks = {}
