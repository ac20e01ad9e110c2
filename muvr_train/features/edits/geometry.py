"""Edits of where things are in the picture. Lengths are fractions of it, so they mean the same at every resolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from muvr_train.features.edits.arrays import Frames, through_tensor

TINY = 4
"""Pixels of the short side below which a picture cannot be tilted, and stays as it is."""


def crop(frames: Frames, top: float, left: float, height: float, width: float) -> Frames:
    """Cut out a rectangle, at least 1 x 1 pixel."""
    rows, columns = frames.shape[1:3]
    high, wide = max(1, round(height * rows)), max(1, round(width * columns))
    y, x = min(round(top * rows), rows - high), min(round(left * columns), columns - wide)
    return frames[:, y : y + high, x : x + wide]


def flip(frames: Frames) -> Frames:
    """Mirror left and right."""
    return frames[:, :, ::-1]


def turn(frames: Frames, quarters: int) -> Frames:
    """Turn by so many quarters, counter-clockwise, as videos from phones often lie."""
    return np.rot90(frames, quarters, axes=(1, 2))


def rotate(frames: Frames, degrees: float, fill: bool) -> Frames:
    """Rotate about the centre, clockwise; the corners are black, or (`fill`) cut off by zooming in."""
    rows, columns = frames.shape[1:3]
    if min(rows, columns) < TINY:
        return frames
    angle = math.radians(abs(degrees))
    aspect = (max(rows, columns) - 1) / (min(rows, columns) - 1)  # between the centres of the outermost pixels
    zoom = math.cos(angle) + aspect * math.sin(angle) + 1e-3 if fill else 1.0
    bilinear = InterpolationMode.BILINEAR
    return through_tensor(frames, lambda x: tv.affine(x, degrees, [0, 0], zoom, [0.0, 0.0], bilinear))


def stretch(frames: Frames, height: float, width: float) -> Frames:
    """Scale height and width by factors of their own, which changes the aspect ratio."""
    rows, columns = frames.shape[1:3]
    size = [max(1, round(height * rows)), max(1, round(width * columns))]
    return through_tensor(frames, lambda x: tv.resize(x, size, antialias=True))


def perspective(frames: Frames, corners: Sequence[float]) -> Frames:
    """Move the corners inwards, as if a screen were filmed from the side; around them it is black.

    Args:
        frames: the video.
        corners: fractions of width and height (x, y) for upper left, upper right, lower right and lower left.
    """
    rows, columns = frames.shape[1:3]
    if min(rows, columns) < TINY:
        return frames
    right, bottom = columns - 1, rows - 1
    before = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
    inwards = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    moves = [(corners[2 * n] * right, corners[2 * n + 1] * bottom) for n in range(4)]
    after = [
        [round(x + sx * dx), round(y + sy * dy)]
        for (x, y), (sx, sy), (dx, dy) in zip(before, inwards, moves, strict=True)
    ]
    return through_tensor(frames, lambda x: tv.perspective(x, before, after, fill=[0.0]))


def letterbox(frames: Frames, share: float, sides: bool, paper: Sequence[int]) -> Frames:
    """Put bars above and below, or (`sides`) left and right; each is `share` of the picture it is added to."""
    rows, columns = frames.shape[1:3]
    bars = [round(share * columns), 0] if sides else [0, round(share * rows)]
    return through_tensor(frames, lambda x: tv.pad(x, bars, fill=[float(value) for value in paper]))
