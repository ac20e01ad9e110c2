"""Run-length codes of COCO the slow way: pixel by pixel, bit by bit."""

from __future__ import annotations

import numpy as np


def encode_counts(mask: np.ndarray) -> list[int]:
    """Lengths of the runs of a mask [height, width], column by column, outside first."""
    counts, inside, run = [], False, 0
    for column in range(mask.shape[1]):
        for row in range(mask.shape[0]):
            if bool(mask[row, column]) != inside:
                counts.append(run)
                inside, run = not inside, 0
            run += 1
    return [*counts, run]


def compress(counts: list[int]) -> str:
    """The text of COCO for lengths."""
    text = ""
    for place, count in enumerate(counts):
        value = count - counts[place - 2] if place > 2 else count
        while True:
            low, value = value % 32, value // 32  # towards minus infinity
            last = (value == 0 and low < 16) or (value == -1 and low >= 16)
            text += chr(48 + low + (0 if last else 32))
            if last:
                break
    return text
