"""Frames to tensors and pictures and back, and stamping pictures onto frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Frames = NDArray[np.uint8]
SMOOTH = Image.Resampling.BILINEAR


def through_tensor(frames: Frames, change: Callable[[Tensor], Tensor]) -> Frames:
    """Apply a function of uint8 [T, 3, H, W] (an operation of torchvision) to frames uint8 [T, H, W, 3]."""
    owned = np.require(frames, requirements=["C", "W"])
    changed: Frames = change(torch.from_numpy(owned).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).contiguous().numpy()
    return changed


def each_picture(frames: Frames, change: Callable[[Image.Image], Image.Image]) -> Frames:
    """Apply a function of pictures to every frame."""
    return np.stack([np.asarray(change(Image.fromarray(frame))) for frame in np.ascontiguousarray(frames)])


def stamp(frames: Frames, picture: Image.Image, left: int, top: int) -> Frames:
    """Lay an RGBA picture over all frames with its upper left corner at a pixel; what lies outside is cut off."""
    rows, columns = frames.shape[1:3]
    drawn = np.asarray(picture)[max(0, -top) : rows - top, max(0, -left) : columns - left].astype(np.int32)
    y, x = max(0, top), max(0, left)
    out = frames.copy()
    below = out[:, y : y + drawn.shape[0], x : x + drawn.shape[1]]
    alpha = drawn[..., 3:]
    below[:] = (below * (255 - alpha) + drawn[..., :3] * alpha + 127) // 255
    return out


def rgb(values: Sequence[int]) -> tuple[int, int, int]:
    """Red, green and blue as Pillow takes them."""
    red, green, blue = values
    return int(red), int(green), int(blue)
