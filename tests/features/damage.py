"""Damaged copies of videos, and whether what is read from them is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import av
import numpy as np
from numpy.typing import NDArray

from muvr_train.features.decode import BACKENDS, Frames, stream_frames
from muvr_train.features.jobs import Sink
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import VideoStatus

KINDS = ("cut", "flips", "few flips", "zeros")
STEP = 4  # every 4th pixel of every 4th row is compared
TOLERANCE = 2.0  # mean absolute difference of pixels (0 to 255) that two decoders may have


def damage(data: bytes, rng: Random) -> tuple[str, bytes]:
    """Cut off at 10 to 95 %, flip 1 % of the bytes, flip three, or zero a run of 1 or 5 %."""
    kind, bad = rng.choice(KINDS), bytearray(data)
    if kind == "cut":
        return kind, bytes(bad[: int(len(bad) * rng.uniform(0.1, 0.95))])
    if kind == "zeros":
        length = len(bad) // rng.choice([20, 100])
        start = rng.randrange(len(bad) // 20, len(bad) - length)
        bad[start : start + length] = bytes(length)
        return kind, bytes(bad)
    places = range(len(bad)) if kind == "flips" else range(len(bad) // 10, len(bad))
    for _ in range(len(bad) // 100 if kind == "flips" else 3):
        bad[rng.choice(places)] ^= 1 << rng.randrange(8)
    return kind, bytes(bad)


@dataclass(frozen=True)
class CheckedJob:
    """Emits small pictures of the sampled frames, and their times as bytes of float64."""

    id: str
    path: Path
    sampler: FrameSampler
    streams: tuple[str, ...] = ("video",)

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        made = stream_frames(
            self.path,
            self.sampler,
            lambda frames: sink.emit("video", np.ascontiguousarray(frames[:, ::STEP, ::STEP])),
            sink.restart,
            sink.beat,
            backends,
        )
        sink.emit("times", np.frombuffer(np.array(made.times).tobytes(), np.uint8)[None])
        used = len(made.indices)
        return VideoStatus(
            self.id, str(self.path), made.status, made.reason, made.declared, made.found, used, made.backend
        )


def intact(path: Path) -> dict[float, NDArray[np.uint8]]:
    """Every frame by its time in seconds, rounded to milliseconds, as PyAV decodes the sound file."""
    with av.open(str(path)) as container:
        return {
            round(float(frame.time), 3): np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))[
                ::STEP, ::STEP
            ]
            for frame in container.decode(video=0)
        }


def wrong_times(frames: dict[str, Frames], right: dict[float, NDArray[np.uint8]]) -> list[float]:
    """The times of the frames of a `CheckedJob` that are not those of the sound file; -1 where a frame stands twice."""
    times = [round(float(time), 3) for time in frames["times"].view(np.float64).ravel()]
    wrong = [] if len(set(times)) == len(times) else [-1.0]
    for time, picture in zip(times, frames["video"], strict=True):
        expected = right.get(time)
        same = expected is not None and expected.shape == picture.shape
        if not same or np.abs(picture.astype(int) - expected).mean() > TOLERANCE:  # type: ignore[operator]
            wrong.append(time)
    return wrong


def unreported_times(path: Path) -> set[float]:
    """The times of frames that come out before any error of their group of pictures: no reader can know better.

    A slow twin of what the readers do, by another way: FFmpeg stops at every error instead of mending pictures.
    """
    times: set[float] = set()
    sound: dict[int | None, bool] = {}  # by time stamp: whether nothing was wrong when the packet was decoded
    clean = True
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.options = {"err_detect": "explode"}
        stream.codec_context.thread_count = 1
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return times
                clean = clean or packet.is_keyframe
                sound[packet.pts] = False
                frames = packet.decode()
                clean = clean and not any(frame.is_corrupt for frame in frames)
                sound[packet.pts] = clean
                times |= {round(float(frame.time), 3) for frame in frames if sound.get(frame.pts)}
            except av.FFmpegError:
                clean = False
