"""Pictures to network input: resize with anti-aliasing, crop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class FitFrames:
    """`fit_frames` as a picklable object: uint8 [T, H, W, 3] to uint8 [T, size, size, 3]."""

    size: int
    fit: str = "crop"
    crop: float = 1.0
    interpolation: str = "bilinear"

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resize and crop."""
        if not len(frames):
            return np.empty((0, self.size, self.size, 3), np.uint8)
        return np.asarray(fit_frames(frames, self.size, self.fit, self.crop, self.interpolation).permute(0, 2, 3, 1))


RESIZE_MODES = ("shortest", "longest", "squash")


@dataclass(frozen=True)
class PillowFrames:
    """Resizing and cropping with Pillow, pixel by pixel what open_clip's transform for inference does.

    Args:
        size: height and width of the result in pixels.
        mode: "shortest" fills the picture and keeps its centre, "longest" keeps all of it and pads, "squash" changes
            the aspect ratio.
        interpolation: "bilinear"; anything else is bicubic.
        fill: value of the padding.
    """

    size: tuple[int, int]
    mode: str = "shortest"
    interpolation: str = "bicubic"
    fill: int = 0

    @classmethod
    def from_open_clip(cls, cfg: Mapping[str, Any]) -> PillowFrames:
        """Read the preprocessing configuration of an open_clip model."""
        size = cfg["size"]
        pair = (int(size), int(size)) if isinstance(size, (int, float)) else (int(size[0]), int(size[-1]))
        return cls(pair, cfg["resize_mode"], cfg["interpolation"], int(cfg["fill_color"]))

    def __post_init__(self) -> None:
        """Refuse what there is not."""
        if self.mode not in RESIZE_MODES:
            raise ConfigError(f"resize mode {self.mode!r} is none of {', '.join(RESIZE_MODES)}")

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bring frames uint8 [T, H, W, 3] to uint8 [T, height, width, 3]."""
        from PIL import Image

        out = np.full((len(frames), *self.size, 3), self.fill, np.uint8)
        if not len(frames):
            return out
        height, width = scaled = self._scaled(*frames.shape[1:3])
        # open_clip always takes bicubic where it crops to another shape than a square
        bilinear = self.interpolation == "bilinear" and (self.mode != "shortest" or self.size[0] == self.size[1])
        method = Image.Resampling.BILINEAR if bilinear else Image.Resampling.BICUBIC
        (top, out_top), (left, out_left) = (_place(have, want) for have, want in zip(scaled, self.size, strict=True))
        rows, columns = min(height, self.size[0]), min(width, self.size[1])
        for frame, target in zip(frames, out, strict=True):
            picture = Image.fromarray(frame)
            if (picture.height, picture.width) != scaled:
                picture = picture.resize((width, height), method)
            target[out_top : out_top + rows, out_left : out_left + columns] = np.asarray(picture)[
                top : top + rows, left : left + columns
            ]
        return out

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after resizing, before cropping or padding."""
        if self.mode == "squash":
            return self.size
        if self.mode == "shortest" and self.size[0] == self.size[1]:
            edge = self.size[0]
            return (edge, int(edge * width / height)) if height <= width else (int(edge * height / width), edge)
        ratios = height / self.size[0], width / self.size[1]
        ratio = max(ratios) if self.mode == "longest" else min(ratios)
        return max(1, round(height / ratio)), max(1, round(width / ratio))


def _place(have: int, want: int) -> tuple[int, int]:
    """Where a centred crop begins in the picture, and where the picture begins in a padded result."""
    return max(0, round((have - want) / 2)), max(0, (want - have) // 2)
