"""A query's region drawn into its frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muvr_train.rerank.types import Pixels

COLOUR = "red"
"""What prompts call the line; its white border keeps it apart from red surroundings."""
RED, WHITE = (255, 0, 0), (255, 255, 255)
SHARE, LEAST = 0.012, 2
"""Width of the line: this part of the picture's short side, and at least so many pixels; its border has half of it."""

Mask = NDArray[np.bool_]


def line_width(height: int, width: int) -> int:
    """Pixels of the line in a picture of this size."""
    return max(LEAST, round(SHARE * min(height, width)))


def outline(pixels: Pixels, mask: Mask) -> Pixels:
    """Draw a red line with a white border around a region.

    The line lies outside the region and hides nothing of it; only where the region comes near the edge of the picture,
    it runs along that edge, over the region, so that it is closed. Distances are those of a king on a chessboard. A
    mask without a pixel draws nothing.

    Args:
        pixels: uint8 [H, W, 3]; they are not changed.
        mask: bool [H, W], True inside.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: the mask has another size.
    """
    if mask.shape != pixels.shape[:2]:
        raise ValueError(f"a mask {mask.shape} does not fit to a picture {pixels.shape[:2]}")
    line = line_width(*mask.shape)
    inner = grow(mask, line)
    edge = np.ones_like(mask)
    edge[line:-line, line:-line] = False
    drawn = pixels.copy()
    drawn[grow(mask, line + max(1, line // 2)) & ~inner] = WHITE
    drawn[(inner & ~mask) | (mask & edge)] = RED
    return drawn


def grow(mask: Mask, by: int) -> Mask:
    """The pixels at most `by` steps of a king away from the mask, bool [H, W]."""
    for axis in (0, 1):
        padding = [(by + 1, by) if side == axis else (0, 0) for side in (0, 1)]
        count = np.cumsum(np.pad(mask, padding), axis=axis, dtype=np.int32)
        last, first = (
            np.moveaxis(count, axis, 0)[part] for part in (slice(2 * by + 1, None), slice(None, -2 * by - 1))
        )
        mask = np.moveaxis(last > first, 0, axis)
    return mask


def shrink_mask(mask: Mask, height: int, width: int) -> Mask:
    """A smaller mask, bool [height, width]: a pixel is inside where any pixel of its place is.

    Nothing vanishes, however small it is.

    Raises:
        ValueError: it would have to grow.
    """
    rows, columns = mask.shape
    if height > rows or width > columns:
        raise ValueError(f"{width} x {height} is more than {columns} x {rows}")
    by_row = np.logical_or.reduceat(mask, np.arange(height) * rows // height, axis=0)
    return np.asarray(np.logical_or.reduceat(by_row, np.arange(width) * columns // width, axis=1))
