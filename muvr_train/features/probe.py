"""What a video file says about its frames, from its packets alone: nothing is decoded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

BEAT_EVERY = 500  # packets
UNTIMED = ("avi",)  # containers that do not store when a frame is shown; FFmpeg then guesses, wrong for reordered ones


class ReaderError(Exception):
    """One reader's reason to give up."""


@dataclass(frozen=True)
class Probe:
    """The packets of a video stream, in the order in which they are decoded.

    Attributes:
        declared: frames that the header promises, 0 where it does not say; not those that an edit list cuts away.
        container: FFmpeg's name of the container.
        codec: FFmpeg's name of the codec.
        size: (height, width) of the stored pictures in pixels.
        times: seconds at which each packet's frame is shown; NaN where the file does not say.
        keys: whether decoding may begin at a packet.
        hidden: whether an edit list hides the packet's frame.
        fault: why the packets end early or are not whole; "" where they are sound.
    """

    declared: int
    container: str
    codec: str
    size: tuple[int, int]
    times: NDArray[np.float64]
    keys: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    fault: str

    @property
    def is_whole(self) -> bool:
        """Whether every packet stands for one frame, and the header agrees."""
        whole = not self.fault and not np.isnan(self.times).any()
        return bool(whole and self.declared in (0, len(self.times)) and len(np.unique(self.times)) == len(self.times))

    @property
    def is_plain(self) -> bool:
        """Whether every packet stands for one frame that is shown, and the header agrees."""
        return bool(self.is_whole and not self.hidden.any())

    @property
    def promised(self) -> int:
        """Frames that the header promises to show, 0 where it does not say."""
        return max(0, self.declared - int(self.hidden.sum()))

    @property
    def has_leading(self) -> bool:
        """Whether a frame is shown before the key frame that its packet follows ("open" groups of pictures)."""
        last = np.maximum.accumulate(np.where(self.keys, np.arange(len(self.keys)), 0))
        return bool((self.times < self.times[last]).any())

    @property
    def shown(self) -> NDArray[np.float64]:
        """The times of the frames that are shown, ascending."""
        return np.sort(self.times[~self.hidden])


def probe_video(path: Path, beat: Callable[[], None]) -> Probe:
    """Read the packets of a file's video stream; 3 % of the time that decoding 15 frames takes.

    Raises:
        ReaderError: the file cannot be opened, or has no video stream.
    """
    times: list[float] = []
    keys: list[bool] = []
    hidden: list[bool] = []
    fault = ""
    try:
        with av.open(os.path.abspath(path)) as container:
            stream = video_stream(container)
            declared, base = max(0, stream.frames), stream.time_base or Fraction(1)
            timed = container.format.name not in UNTIMED
            codec, size = stream.codec_context.name, (stream.codec_context.height, stream.codec_context.width)
            try:
                for packet in container.demux(stream):
                    if not packet.size:
                        continue
                    times.append(seconds(packet.pts if timed else None, base))
                    keys.append(packet.is_keyframe)
                    hidden.append(packet.is_discard)
                    fault = fault or ("a packet is cut off or damaged" if packet.is_corrupt else "")
                    if len(times) % BEAT_EVERY == 0:
                        beat()
            except av.FFmpegError as error:
                fault = fault or brief(error)
            if container.format.name.startswith("mov,") and (planned := len(getattr(stream, "index_entries", ()))):
                declared = min(declared, planned)  # without what an edit list cuts away
    except OPEN_ERRORS as error:
        raise ReaderError(brief(error)) from error
    return Probe(
        declared,
        container.format.name,
        codec,
        size,
        np.array(times),
        np.array(keys, bool),
        np.array(hidden, bool),
        fault,
    )


def seconds(stamp: int | None, base: Fraction) -> float:
    """The time of a stamp in units of `base` seconds, rounded as PyAV rounds the time of a frame; NaN for None."""
    return float("nan") if stamp is None else stamp * base.numerator / base.denominator


OPEN_ERRORS = (av.FFmpegError, ValueError, EOFError, UnicodeError)


def video_stream(container: Any) -> Any:
    """The first video stream that is no cover picture, decoded by one thread.

    Raises:
        ReaderError: there is none.
    """
    for stream in container.streams.video:
        if stream.codec_context is not None and not stream.disposition & Disposition.attached_pic:
            stream.codec_context.thread_count = 1  # an error then belongs to the packet that is being decoded
            return stream
    raise ReaderError("the file has no video stream that can be decoded")


def brief(error: Exception) -> str:
    """The telling part of FFmpeg's message."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__).splitlines()[0][:200]
