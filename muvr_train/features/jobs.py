"""What a decoder process runs: small, picklable jobs that give frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from muvr_train.features.decode import BACKENDS, Frames, stream_frames
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import VideoStatus


class Sink(Protocol):
    """Takes what a job makes."""

    def emit(self, stream: str, frames: Frames) -> None:
        """Take the next frames uint8 [t, H, W, 3] of a stream."""

    def restart(self) -> None:
        """Forget all frames of this job so far: a reader gave up half-way and another one begins anew."""

    def beat(self) -> None:
        """Say that the job is alive; a job that is silent for too long is killed."""


class Job(Protocol):
    """Makes the frames of one video.

    Attributes:
        id: the video's key in the store.
        path: the file that messages name.
        streams: what it gives: "video", "view1", ...
    """

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def path(self) -> Path: ...  # noqa: D102
    @property
    def streams(self) -> tuple[str, ...]: ...  # noqa: D102

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Give the frames to the sink.

        Raises:
            DecodeError: there are none, and why.
        """


@dataclass(frozen=True)
class PlainJob:
    """The sampled frames of a video file, as they are."""

    id: str
    path: Path
    sampler: FrameSampler
    streams: tuple[str, ...] = ("video",)

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Decode the file."""
        made = stream_frames(
            self.path,
            self.sampler,
            lambda frames: sink.emit("video", frames),
            sink.restart,
            sink.beat,
            backends,
        )
        used = len(made.indices)
        return VideoStatus(
            self.id, str(self.path), made.status, made.reason, made.declared, made.found, used, made.backend
        )
