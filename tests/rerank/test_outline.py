"""Outlines: exact pixels, a slow twin, borders, tiny masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.rerank.outline import RED, WHITE, grow, line_width, outline, shrink_mask


def letters(picture: np.ndarray) -> list[str]:
    """R red, W white, . anything else."""
    names = {RED: "R", WHITE: "W"}
    return ["".join(names.get(tuple(map(int, pixel)), ".") for pixel in row) for row in picture]


def grey(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), 90, np.uint8)


def test_a_region_is_framed_and_not_painted_over() -> None:
    mask = np.zeros((11, 12), bool)
    mask[4:6, 5:8] = True
    picture = grey(11, 12)
    drawn = outline(picture, mask)
    assert letters(drawn) == [
        "............",
        "..WWWWWWWWW.",
        "..WRRRRRRRW.",
        "..WRRRRRRRW.",
        "..WRR...RRW.",
        "..WRR...RRW.",
        "..WRRRRRRRW.",
        "..WRRRRRRRW.",
        "..WWWWWWWWW.",
        "............",
        "............",
    ]
    assert (drawn[mask] == 90).all()
    assert (picture == 90).all()  # the frame itself is not changed


def test_a_region_at_the_border_is_closed_along_it() -> None:
    mask = np.zeros((9, 10), bool)
    mask[:5, :5] = True
    assert letters(outline(grey(9, 10), mask)) == [
        "RRRRRRRW..",
        "RRRRRRRW..",
        "RR...RRW..",
        "RR...RRW..",
        "RR...RRW..",
        "RRRRRRRW..",
        "RRRRRRRW..",
        "WWWWWWWW..",
        "..........",
    ]


def test_all_of_the_picture() -> None:
    assert letters(outline(grey(6, 7), np.ones((6, 7), bool))) == [
        "RRRRRRR",
        "RRRRRRR",
        "RR...RR",
        "RR...RR",
        "RRRRRRR",
        "RRRRRRR",
    ]
    assert letters(outline(grey(1, 2), np.ones((1, 2), bool))) == ["RR"]


def test_one_pixel_is_seen_in_a_large_picture() -> None:
    mask = np.zeros((720, 1280), bool)
    mask[300, 400] = True
    drawn = outline(grey(720, 1280), mask)
    assert line_width(720, 1280) == 9
    assert (drawn == RED).all(-1).sum() == 19 * 19 - 1
    assert (drawn == WHITE).all(-1).sum() == 27 * 27 - 19 * 19


def test_nothing_inside_draws_nothing() -> None:
    assert letters(outline(grey(3, 3), np.zeros((3, 3), bool))) == ["..."] * 3


def test_a_mask_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        outline(grey(4, 5), np.ones((5, 4), bool))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1), st.floats(0, 0.4))
def test_grown_masks_equal_the_slow_twin(height: int, width: int, by: int, seed: int, share: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    inside = list(zip(*np.nonzero(mask), strict=True))
    slow = [
        [any(max(abs(row - r), abs(column - c)) <= by for r, c in inside) for column in range(width)]
        for row in range(height)
    ]
    assert grow(mask, by).tolist() == slow


@given(st.data(), st.integers(0, 2**32 - 1), st.floats(0, 0.3))
def test_smaller_masks_equal_the_slow_twin(data: st.DataObject, seed: int, share: float) -> None:
    rows, columns = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    height, width = data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns))
    mask = np.random.default_rng(seed).random((rows, columns)) < share
    slow = np.zeros((height, width), bool)
    for i in range(height):
        for j in range(width):
            place = mask[
                i * rows // height : (i + 1) * rows // height, j * columns // width : (j + 1) * columns // width
            ]
            slow[i, j] = place.any()
    found = shrink_mask(mask, height, width)
    assert found.tolist() == slow.tolist()
    assert found.any() == mask.any()


def test_masks_do_not_grow() -> None:
    with pytest.raises(ValueError, match="4 x 3 is more than 3 x 3"):
        shrink_mask(np.ones((3, 3), bool), 3, 4)
