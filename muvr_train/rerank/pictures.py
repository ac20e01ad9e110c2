"""Image files to pixels, and pixels to fewer pixels."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from muvr_train.errors import DataError
from muvr_train.rerank.types import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 1
"""Raise it whenever the same file gives other pixels: it is part of every key."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""Without those that call other programs or hold documents."""
MOST_PIXELS = 89_000_000
"""A file of a few kilobytes may promise a picture that fills the memory."""


def read_picture(path: Path) -> Pixels:
    """Read an image file to uint8 [H, W, 3] RGB: upright as its EXIF data say, on white where it is clear.

    Of an animation the first picture, of 16 bits per channel the higher 8.

    Raises:
        DataError: there is no such file, it is broken, no image of `FORMATS`, or has more than `MOST_PIXELS` pixels.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not path.is_file():
        raise DataError(f"{path}: no such image file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes)")
    try:
        with Image.open(path, formats=FORMATS) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise DataError(f"{path}: {picture.width} x {picture.height} pixels are too many; make it smaller")
            return _rgb(ImageOps.exif_transpose(picture))
    except UnidentifiedImageError as error:
        raise DataError(f"{path}: is no image of the formats {', '.join(FORMATS)}, or its head is damaged") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: the image cannot be read ({error})") from error


def _rgb(picture: Image) -> Pixels:
    from PIL import Image

    if picture.mode == "I" or picture.mode.startswith("I;16"):
        grey = (np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        clear = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", clear.size, (255, 255, 255, 255)), clear)
    return np.array(picture.convert("RGB"))


def shrink(pixels: Pixels, longest: int | None) -> Pixels:
    """Scale a picture uint8 [H, W, 3] down (bicubic, anti-aliased) so that its long side has `longest` pixels.

    One that is smaller stays as it is; so do all for None.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    if longest is None or max(height, width) <= longest:
        return pixels
    size = (max(1, round(width * longest / max(height, width))), max(1, round(height * longest / max(height, width))))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
