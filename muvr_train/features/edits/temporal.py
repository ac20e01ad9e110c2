"""Edits of time: which frames are shown, in which order. None of them leaves a video without frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muvr_train.features.edits.arrays import Frames
from muvr_train.features.sampling import uniform


def speed(frames: Frames, factor: float) -> Frames:
    """Play faster (factor > 1 leaves frames out) or slower (factor < 1 repeats them)."""
    count = max(1, round(len(frames) / factor))
    chosen: Frames = frames[np.minimum((np.arange(count) * factor).astype(int), len(frames) - 1)]
    return chosen


def shuffle(frames: Frames, pieces: int, order: Sequence[int]) -> Frames:
    """Cut into so many pieces and show those that `order` names, in its order; pieces without frames are left out."""
    parts = np.array_split(frames, pieces)
    chosen = [parts[number] for number in order if len(parts[number])]
    return np.concatenate(chosen) if chosen else frames


def reverse(frames: Frames) -> Frames:
    """Play backwards."""
    return frames[::-1]


def pause(frames: Frames, at: float, length: float) -> Frames:
    """Stop at a place in [0, 1] and go on after `length` times the length of the video."""
    place = min(int(at * len(frames)), len(frames) - 1)
    return np.repeat(frames, np.where(np.arange(len(frames)) == place, 1 + round(length * len(frames)), 1), axis=0)


def trim(frames: Frames, start: float, stop: float) -> Frames:
    """Keep the part (start, stop), fractions of the video; at least one frame."""
    first = min(int(start * len(frames)), len(frames) - 1)
    return frames[first : max(first + 1, round(stop * len(frames)))]


def take(frames: Frames, start: float, stop: float, count: int) -> Frames:
    """Take at most `count` frames, evenly and each once, from the part (start, stop) of a video; at least one."""
    part = trim(frames, start, stop)
    chosen: Frames = part[uniform(len(part), count)]
    return chosen


def thin(frames: Frames, share: float) -> Frames:
    """Keep this share of the frames, evenly; at least one."""
    return take(frames, 0.0, 1.0, max(1, round(share * len(frames))))
