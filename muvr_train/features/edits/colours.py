"""Edits of colours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torchvision.transforms.v2 import functional as tv

from muvr_train.features.edits.arrays import Frames, through_tensor

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def brightness(frames: Frames, factor: float) -> Frames:
    """Scale all values; 0 is black."""
    return through_tensor(frames, lambda x: tv.adjust_brightness(x, factor))


def contrast(frames: Frames, factor: float) -> Frames:
    """Scale the distance of all values from each frame's mean luma."""
    return through_tensor(frames, lambda x: tv.adjust_contrast(x, factor))


def saturation(frames: Frames, factor: float) -> Frames:
    """Scale the distance of colours from grey; 0 is grey."""
    return through_tensor(frames, lambda x: tv.adjust_saturation(x, factor))


def gamma(frames: Frames, power: float) -> Frames:
    """Raise values in [0, 1] to a power; below 1 the shadows become lighter."""
    return through_tensor(frames, lambda x: tv.adjust_gamma(x, power))


def grey(frames: Frames) -> Frames:
    """Make all colours grey."""
    return through_tensor(frames, lambda x: tv.rgb_to_grayscale(x, 3))


def invert(frames: Frames) -> Frames:
    """Show the negative."""
    return through_tensor(frames, tv.invert)


def warmth(frames: Frames, shift: float) -> Frames:
    """Make red stronger and blue weaker by a share in [-1, 1]."""
    values, out = np.arange(256), frames.copy()
    for channel, factor in ((0, 1 + shift), (2, 1 - shift)):
        out[..., channel] = (factor * values).round().clip(0, 255).astype(np.uint8)[out[..., channel]]
    return out


def hue(frames: Frames, degrees: float) -> Frames:
    """Turn the colours about the grey axis, keeping the luminance (the matrix of CSS's `hue-rotate`).

    torchvision's `adjust_hue`, through HSV, takes five times as long.
    """
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    luminance = np.array([0.213, 0.715, 0.072])
    across = np.array([[-0.213, -0.715, 0.928], [0.143, 0.140, -0.283], [-0.787, 0.715, 0.072]])
    matrix = (luminance + cos * (np.eye(3) - luminance) + sin * across).astype(np.float32)
    turned: NDArrayAny = frames.reshape(-1, 3).astype(np.float32) @ matrix.T
    return turned.round().clip(0, 255).astype(np.uint8).reshape(frames.shape)


def colour(frames: Frames, brightness: float, contrast: float, saturation: float, warmth: float = 0.0) -> Frames:
    """Scale saturation (about each pixel's luma), contrast (about each frame's mean luma), then brightness.

    1 leaves each as it is; `warmth` in [-1, 1] makes red stronger and blue weaker.
    """
    x: NDArrayAny = frames.astype(np.float32)
    grey = (x @ LUMA)[..., None]
    x = grey + saturation * (x - grey)
    mean = grey.mean(axis=(1, 2), keepdims=True)
    x = brightness * (mean + contrast * (x - mean))
    x *= np.array([1 + warmth, 1, 1 - warmth], dtype=np.float32)
    return np.asarray(x.round().clip(0, 255), dtype=np.uint8)


NDArrayAny = np.ndarray[Any, Any]
