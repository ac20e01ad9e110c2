"""Which frames of a video to keep: pure functions on frame counts and time stamps. No frame is ever taken twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError

DEFAULT_FRAMES = 15
TIME_TOLERANCE = 1e-3  # seconds; readers keep time stamps in float32, 0.5 ms wide at two hours


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


@dataclass(frozen=True)
class FrameSampler:
    """Either `frames` per video (segment centres; default 15) or `fps` frames per second of video (by time stamps).

    Raises:
        ConfigError: if both are given, or one is not positive.
    """

    frames: int | None = None
    fps: float | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and self.fps is not None:
            raise ConfigError(f"frames={self.frames} and fps={self.fps} exclude each other; give one of them")
        if self.frames is None and self.fps is None:
            object.__setattr__(self, "frames", DEFAULT_FRAMES)
        if self.frames is not None and (not isinstance(self.frames, int) or self.frames < 1):
            raise ConfigError(f"frames must be a whole number of at least 1, got {self.frames}")
        if self.fps is not None and not 0 < self.fps < float("inf"):
            raise ConfigError(f"fps must be a positive number, got {self.fps}")

    @property
    def needs_times(self) -> bool:
        """Whether `select` looks at time stamps, not only at their number."""
        return self.fps is not None

    def select(self, times: Sequence[float] | NDArray[np.floating]) -> list[int]:
        """Indices to keep out of frames shown at `times` (seconds, display order)."""
        if self.fps is not None:
            return fps(times, self.fps)
        return uniform(len(times), self.frames or DEFAULT_FRAMES)

    def manifest(self) -> dict[str, object]:
        """What the store records."""
        return {"kind": "fps", "fps": self.fps} if self.fps is not None else {"kind": "uniform", "frames": self.frames}
