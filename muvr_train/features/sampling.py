"""Which frames of a video to keep: pure functions on frame counts and time stamps. No frame is ever taken twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError

DEFAULT_FRAMES = 15
TIME_TOLERANCE = 7e-4  # seconds; containers round to ms, and at 29.97 fps the frame at 1.001 s is not the one at 1 s


def uniform(n_frames: int, count: int) -> list[int]:
    """The frames in the centres of `count` equal segments of `n_frames` frames, ascending.

    Fewer frames than asked for: each frame once.

    >>> uniform(10, 5), uniform(100, 3), uniform(2, 5)
    ([1, 3, 5, 7, 9], [16, 50, 83], [0, 1])

    Raises:
        ValueError: if `n_frames` < 0 or `count` < 1.
    """
    if n_frames < 0 or count < 1:
        raise ValueError(f"cannot take {count} of {n_frames} frames")
    if n_frames <= count:
        return list(range(n_frames))
    return [(2 * segment + 1) * n_frames // (2 * count) for segment in range(count)]


def fps(times: Sequence[float] | NDArray[np.floating], rate: float) -> list[int]:
    """The frames on display at 0, 1/rate, 2/rate, ... seconds after the first frame, ascending, each at most once.

    Works on time stamps, so it is right for variable frame rates; a video slower than `rate` gives every frame once.

    Args:
        times: seconds at which each frame appears, in display order.
        rate: frames per second to keep, > 0.

    >>> fps([0.0, 0.5, 1.0, 1.5, 2.0], 1.0), fps([0.0, 0.1, 0.2, 3.0], 1.0)
    ([0, 2, 4], [0, 2, 3])

    Raises:
        ValueError: if `rate` is not positive or the time stamps go backwards.
    """
    if not rate > 0:
        raise ValueError(f"rate must be positive, got {rate}")
    stamps = np.asarray(times, dtype=np.float64)
    if stamps.size == 0:
        return []
    if np.any(np.diff(stamps) < 0) or not np.all(np.isfinite(stamps)):
        raise ValueError("time stamps must be finite and ascending")
    elapsed = stamps - stamps[0]
    last = elapsed[-1] - elapsed[-2] if len(elapsed) > 1 else 0.0  # the last frame stays as long as the one before
    count = int(np.ceil((elapsed[-1] + last - TIME_TOLERANCE) * rate))
    targets = np.arange(max(1, count)) / rate
    shown = np.searchsorted(elapsed, targets + TIME_TOLERANCE, side="right") - 1
    return [int(frame) for frame in np.unique(shown)]


def muvr_official(n_frames: int, count: int) -> list[int]:
    """The frames of MUVR's released features: every (n_frames // count)-th from frame 0, the first `count` of them.

    The end of a video is not seen where the division leaves a rest. Fewer frames than asked for: each frame once.

    >>> muvr_official(10, 5), muvr_official(14, 5), muvr_official(3, 5)
    ([0, 2, 4, 6, 8], [0, 2, 4, 6, 8], [0, 1, 2])

    Raises:
        ValueError: if `n_frames` < 0 or `count` < 1.
    """
    if n_frames < 0 or count < 1:
        raise ValueError(f"cannot take {count} of {n_frames} frames")
    return list(range(0, n_frames, max(1, n_frames // count)))[:count]


def every(n_frames: int) -> list[int]:
    """All frames.

    Raises:
        ValueError: if `n_frames` < 0.
    """
    if n_frames < 0:
        raise ValueError(f"cannot take all of {n_frames} frames")
    return list(range(n_frames))


KINDS = ("uniform", "fps", "all", "muvr_official")
COUNTED = ("uniform", "muvr_official")


@dataclass(frozen=True)
class FrameSampler:
    """Which frames of a video are kept.

    Attributes:
        frames: how many (`uniform`, `muvr_official`); default 15.
        fps: frames per second of video, by time stamps (`fps`).
        kind: "uniform" (segment centres), "fps", "all" or "muvr_official"; default: "fps" where `fps` is given, or
            else "uniform".

    Raises:
        ConfigError: settings that contradict each other, or one that is not positive.
    """

    frames: int | None = None
    fps: float | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        kind = self.kind or ("uniform" if self.fps is None else "fps")
        if kind not in KINDS:
            raise ConfigError(f"sampling={kind} is not possible: choose from {', '.join(KINDS)}")
        if self.frames is not None and self.fps is not None:
            raise ConfigError(f"frames={self.frames} and fps={self.fps} exclude each other; give one of them")
        for name, value, kinds in (("frames", self.frames, COUNTED), ("fps", self.fps, ("fps",))):
            if value is not None and kind not in kinds:
                raise ConfigError(f"{name}={value} and sampling={kind} exclude each other; give one of them")
        if kind == "fps" and self.fps is None:
            raise ConfigError("sampling=fps needs fps=RATE, the frames per second of video to keep")
        object.__setattr__(self, "kind", kind)
        if kind in COUNTED and self.frames is None:
            object.__setattr__(self, "frames", DEFAULT_FRAMES)
        if self.frames is not None and (not isinstance(self.frames, int) or self.frames < 1):
            raise ConfigError(f"frames must be a whole number of at least 1, got {self.frames}")
        if self.fps is not None and not 0 < self.fps < float("inf"):
            raise ConfigError(f"fps must be a positive number, got {self.fps}")

    def select(self, times: Sequence[float] | NDArray[np.floating]) -> list[int]:
        """Indices to keep out of frames shown at `times` (seconds, display order)."""
        if self.fps is not None:
            return fps(times, self.fps)
        if self.frames is None:
            return every(len(times))
        return (muvr_official if self.kind == "muvr_official" else uniform)(len(times), self.frames)

    def manifest(self) -> dict[str, object]:
        """What the store records."""
        settings = {"frames": self.frames, "fps": self.fps}
        return {"kind": self.kind, **{name: value for name, value in settings.items() if value is not None}}
