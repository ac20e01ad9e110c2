"""Pictures to network input: resize with anti-aliasing, crop."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.errors import ConfigError

FITS = ("crop", "squash")


def check_fit(fit: str) -> None:
    """Raise a ConfigError unless `fit` is known."""
    if fit not in FITS:
        raise ConfigError(f"encoder.fit must be one of {', '.join(FITS)}, got {fit!r}")


def fit_frames(
    frames: NDArray[np.uint8], size: int, fit: str = "crop", crop: float = 1.0, interpolation: str = "bilinear"
) -> Tensor:
    """Bring frames to a square.

    Args:
        frames: uint8 [T, H, W, 3].
        size: edge of the result in pixels.
        fit: "crop" scales the short edge to size / crop and keeps the centre; "squash" keeps the whole picture and
            changes its aspect ratio.
        crop: share of the short edge that "crop" keeps, in (0, 1].
        interpolation: "bilinear" or "bicubic", both anti-aliased.

    Returns:
        uint8 [T, 3, size, size], channels last in memory.
    """
    check_fit(fit)
    x = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2)
    height, width = x.shape[2:]
    if fit == "squash":
        target = (size, size)
    else:
        scaled = int(size / crop)
        short = min(height, width)
        target = (max(size, round(height * scaled / short)), max(size, round(width * scaled / short)))
    if target != (height, width):
        x = F.interpolate(x, target, mode=interpolation, antialias=True, align_corners=False)
    top, left = (target[0] - size) // 2, (target[1] - size) // 2
    return x[:, :, top : top + size, left : left + size].contiguous(memory_format=torch.channels_last)
