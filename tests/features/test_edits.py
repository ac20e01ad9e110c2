"""Pixel edits, against values worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.benchmarks.copies_edits import draw_channel, mild_edits, strong_edits
from muvr_train.errors import ConfigError
from muvr_train.features.edits import colours, geometry, overlays, quality, temporal
from muvr_train.features.edits.apply import apply_edit

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 256, (6, 20, 40, 3), dtype=np.uint8)


def flat(count: int, *colour: int) -> np.ndarray:
    return np.tile(np.array(colour, dtype=np.uint8), (count, 20, 40, 1))


def test_crop_cuts_the_named_rectangle() -> None:
    got = geometry.crop(FRAMES, top=0.1, left=0.25, height=0.5, width=0.25)
    np.testing.assert_array_equal(got, FRAMES[:, 2:12, 10:20])
    assert geometry.crop(FRAMES, 0.99, 0.99, 0.001, 0.001).shape == (6, 1, 1, 3)


def test_flip_twice_is_nothing() -> None:
    np.testing.assert_array_equal(geometry.flip(FRAMES)[:, :, 0], FRAMES[:, :, -1])
    np.testing.assert_array_equal(geometry.flip(geometry.flip(FRAMES)), FRAMES)


def test_colour_by_hand() -> None:
    np.testing.assert_array_equal(colours.colour(FRAMES, 1, 1, 1), FRAMES)
    grey = colours.colour(flat(1, 100, 50, 200), 1, 1, 0)  # luma 29.9 + 29.35 + 22.8
    np.testing.assert_array_equal(grey, flat(1, 82, 82, 82))
    np.testing.assert_array_equal(colours.colour(flat(1, 100, 50, 200), 1.5, 1, 1), flat(1, 150, 75, 255))
    two = flat(1, 100, 100, 100)
    two[:, :, 20:] = 200  # mean 150
    got = colours.colour(two, 1, 0.5, 1)
    assert got[0, 0, 0, 0] == 125
    assert got[0, 0, -1, 0] == 175
    np.testing.assert_array_equal(colours.colour(flat(1, 100, 100, 100), 1, 1, 1, 0.2), flat(1, 120, 100, 80))


def test_blur_keeps_the_mean_and_lowers_the_contrast() -> None:
    got = quality.blur(FRAMES, 0.1)
    assert got.std() < 0.5 * FRAMES.std()
    assert abs(got.mean() - FRAMES.mean()) < 3
    np.testing.assert_array_equal(quality.blur(flat(2, 9, 8, 7), 0.3), flat(2, 9, 8, 7))


def test_compression_loses_more_at_low_quality() -> None:
    smooth = np.broadcast_to(np.linspace(0, 255, 40).astype(np.uint8)[None, None, :, None], (2, 20, 40, 3))
    loss = {q: np.abs(quality.compress(smooth, q).astype(int) - smooth).mean() for q in (5, 90)}
    assert 0 < loss[90] < loss[5]


def test_overlays_change_their_place_only_and_all_frames_alike() -> None:
    bar = overlays.text_bar(FRAMES, "LIVE", top=1.0, height=0.2, ink=[255, 0, 0], paper=[0, 0, 255])
    np.testing.assert_array_equal(bar[:, :16], FRAMES[:, :16])
    assert (bar[:, 16:] == bar[:1, 16:]).all()
    assert set(np.unique(bar[0, 16:, :, 1])) == {0}
    assert bar[0, 16:, :, 0].max() > 100  # the ink
    mark = overlays.logo(FRAMES, sides=4, left=0.5, top=0.0, size=0.5, ink=[1, 2, 3], paper=[250, 251, 252])
    np.testing.assert_array_equal(mark[:, 10:], FRAMES[:, 10:])
    np.testing.assert_array_equal(mark[:, :, :20], FRAMES[:, :, :20])
    np.testing.assert_array_equal(mark[:, 5, 25], np.tile([1, 2, 3], (6, 1)))


def test_inset_shows_host_and_video() -> None:
    got = overlays.inset(flat(4, 9, 9, 9), flat(2, 200, 0, 0), scale=0.5, left=1.0, top=0.0)
    np.testing.assert_array_equal(got[:, :10, 20:], np.full((4, 10, 20, 3), 9))
    np.testing.assert_array_equal(got[:, 10:], np.tile(np.array([200, 0, 0], np.uint8), (4, 10, 40, 1)))
    hosts = np.concatenate([flat(1, 1, 1, 1), flat(1, 2, 2, 2)])
    assert overlays.inset(flat(4, 9, 9, 9), hosts, 0.5, 1.0, 0.0)[:, -1, 0, 0].tolist() == [1, 1, 2, 2]


def test_pad_darkens_its_own_background() -> None:
    got = overlays.pad(flat(1, 100, 60, 40), 0.5, 0.1)
    assert got[0, 0, 0].tolist() == [50, 30, 20]
    assert got[0, 10, 20].tolist() == [100, 60, 40]


def test_temporal_edits_name_their_frames() -> None:
    def order(frames: np.ndarray) -> list[int]:
        return frames[:, 0, 0, 0].tolist()

    counted = np.arange(8, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    assert order(temporal.speed(counted, 2.0)) == [0, 2, 4, 6]
    assert order(temporal.speed(counted, 0.5)) == [n // 2 for n in range(16)]
    assert order(temporal.speed(counted[:1], 2.0)) == [0]
    assert order(temporal.shuffle(counted, 4, [3, 0])) == [6, 7, 0, 1]
    assert order(temporal.shuffle(counted[:2], 4, [3])) == [0, 1]  # nothing would be left: as it was
    assert order(temporal.take(counted, 0.25, 0.75, 2)) == [3, 5]
    assert order(temporal.take(counted, 0.25, 0.75, 99)) == [2, 3, 4, 5]
    assert order(temporal.take(counted, 0.99, 1.0, 4)) == [7]


def test_title_cards_are_told_apart_by_name_only() -> None:
    first, again, other = (overlays.title_card(name, 2) for name in ("test0", "test0", "test1"))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (2, 144, 256, 3)
    assert np.abs(first.astype(int) - other).mean() > 10


def test_unknown_edit() -> None:
    with pytest.raises(ConfigError, match="no edit 'melt'; known: crop, flip"):
        apply_edit(FRAMES, "melt")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 1, 1), (1, 3, 40), (2, 40, 3), (5, 20, 36)]))
def test_drawn_edits_work_on_every_shape_and_never_change_their_input(seed: int, shape: tuple[int, int, int]) -> None:
    rng = random.Random(seed)
    frames = np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)
    frames.flags.writeable = False
    got = frames
    for edit in (*strong_edits(rng, shape[0]), *mild_edits(rng), *draw_channel(rng)):
        got = apply_edit(got, edit.name, **edit.settings)
    assert got.dtype == np.uint8
    assert got.ndim == 4
    assert min(got.shape) >= 1
