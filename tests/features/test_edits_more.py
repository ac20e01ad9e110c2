"""The edits of views, against values worked out by hand; every edit on every shape."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.errors import ConfigError
from muvr_train.features.edits import colours, geometry, overlays, quality, temporal
from muvr_train.features.edits.apply import APPLIED, apply_edit
from muvr_train.features.edits.arrays import stamp
from muvr_train.features.edits.draw import EDITS, FAMILIES, HOSTS, draw_edit

FRAMES = np.random.default_rng(0).integers(0, 256, (6, 20, 40, 3), dtype=np.uint8)
HOST = np.random.default_rng(1).integers(0, 256, (4, 16, 12, 3), dtype=np.uint8)


def flat(count: int, *colour: int, rows: int = 20, columns: int = 40) -> np.ndarray:
    return np.tile(np.array(colour, dtype=np.uint8), (count, rows, columns, 1))


def apply_drawn(frames: np.ndarray, name: str, seed: int, strength: float, host: np.ndarray = HOST) -> np.ndarray:
    edit = draw_edit(name, Random(seed), strength, "other")
    if edit is None:
        return frames
    settings: dict[str, Any] = dict(edit.settings)
    if name in HOSTS:
        assert settings.pop("host") == "other"
        settings["host"] = temporal.take(host, settings.pop("host_start"), settings.pop("host_stop"), len(frames))
    return apply_edit(frames, edit.name, **settings)


def test_turns_and_rotations() -> None:
    np.testing.assert_array_equal(geometry.turn(FRAMES, 1)[:, 0], FRAMES[:, :, -1])  # the right edge comes to the top
    np.testing.assert_array_equal(geometry.turn(FRAMES, 2), FRAMES[:, ::-1, ::-1])
    square = FRAMES[:, :, :20]
    quarter = geometry.rotate(square, 90.0, fill=False)  # clockwise: the left edge comes to the top
    assert np.abs(quarter[:, 0, 1:-1].astype(int) - square[:, 1:-1, 0][:, ::-1]).max() <= 1
    tilted = geometry.rotate(flat(1, 200, 200, 200), 20.0, fill=False)
    assert tilted[0, 0, 0].tolist() == [0, 0, 0]
    assert tilted[0, 10, 20].tolist() == [200, 200, 200]
    assert (geometry.rotate(flat(1, 200, 200, 200), 20.0, fill=True) == 200).all()


def test_stretch_and_letterbox() -> None:
    assert geometry.stretch(FRAMES, 0.5, 1.0).shape == (6, 10, 40, 3)
    assert geometry.stretch(FRAMES, 1.0, 0.001).shape == (6, 20, 1, 3)
    two = np.concatenate([flat(1, 10, 10, 10, columns=1), flat(1, 30, 30, 30, columns=1)], axis=2)
    assert geometry.stretch(two, 1.0, 0.5)[0, 0, 0].tolist() == [20, 20, 20]  # anti-aliased: the mean
    boxed = geometry.letterbox(FRAMES, 0.1, sides=False, paper=[1, 2, 3])
    assert boxed.shape == (6, 24, 40, 3)
    np.testing.assert_array_equal(boxed[:, 2:22], FRAMES)
    assert boxed[:, :2].reshape(-1, 3).tolist() == [[1, 2, 3]] * (6 * 2 * 40)
    sides = geometry.letterbox(FRAMES, 0.1, sides=True, paper=[0, 0, 0])
    np.testing.assert_array_equal(sides[:, :, 4:44], FRAMES)


def test_perspective_moves_the_named_corner_only() -> None:
    white = flat(1, 255, 255, 255, rows=41, columns=41)
    got = geometry.perspective(white, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])[0, :, :, 0]
    assert got[0, 5] == 0  # the upper left corner has gone to the middle of the upper edge
    assert got[0, 35] == got[40, 0] == got[40, 40] == got[20, 30] == 255
    assert geometry.perspective(white[:, :3], [0.2] * 8).shape == (1, 3, 41, 3)


def test_colours_by_hand() -> None:
    pixel = flat(1, 100, 50, 200)
    assert colours.brightness(pixel, 1.5)[0, 0, 0].tolist() == [150, 75, 255]
    assert colours.warmth(pixel, 0.2)[0, 0, 0].tolist() == [120, 50, 160]
    assert colours.invert(pixel)[0, 0, 0].tolist() == [155, 205, 55]
    assert set(colours.grey(pixel)[0, 0, 0].tolist()) <= {81, 82}  # 29.9 + 29.35 + 22.8 = 82.05
    np.testing.assert_array_equal(colours.saturation(pixel, 0.0), colours.grey(pixel))
    assert np.abs(colours.gamma(pixel, 2.0)[0, 0, 0] - np.array([39, 9, 156])).max() <= 1  # 255 (v / 255)^2
    two = np.concatenate([flat(1, 100, 100, 100), flat(1, 200, 200, 200)], axis=1)  # mean 150
    assert np.abs(colours.contrast(two, 0.5)[0, [0, -1], 0, 0] - np.array([125, 175])).max() <= 1
    np.testing.assert_array_equal(colours.hue(FRAMES, 0.0), FRAMES)
    np.testing.assert_array_equal(colours.hue(flat(1, 90, 90, 90), 50.0), flat(1, 90, 90, 90))
    red = colours.hue(flat(1, 120, 60, 60), 120.0)[0, 0, 0].astype(int)
    assert red.argmax() == 1  # red turns to green
    weights = np.array([0.213, 0.715, 0.072])
    assert abs(red @ weights - np.array([120, 60, 60]) @ weights) < 1  # as light as before


def test_blurs_noise_and_resolution() -> None:
    line = flat(1, 0, 0, 0)
    line[:, :, 20] = 255
    across = quality.motion_blur(line, 0.1, 0.0)[0, 10, :, 0]  # 2 of 20 pixels to each side: a fifth of 255
    assert across[17:24].tolist() == [0, 51, 51, 51, 51, 51, 0]
    np.testing.assert_array_equal(quality.motion_blur(line, 0.0, 0.1), line)
    np.testing.assert_array_equal(quality.sharpen(FRAMES, 1.0), FRAMES)
    assert quality.sharpen(FRAMES, 3.0).std() > FRAMES.std()
    grey = flat(8, 128, 128, 128, rows=60, columns=60)
    noisy = quality.noise(grey, 10.0, seed=3)
    np.testing.assert_array_equal(noisy, quality.noise(grey, 10.0, seed=3))
    assert (noisy != quality.noise(grey, 10.0, seed=4)).any()
    assert abs(noisy.std() - 10) < 0.5
    assert (noisy[0] != noisy[1]).mean() > 0.8  # it moves
    assert quality.noise(flat(1, 255, 0, 255), 30.0, 0).min() == 0  # clipped, not wrapped: red and blue stay high
    assert quality.noise(flat(1, 255, 255, 255), 30.0, 0).min() > 100
    small = quality.low_resolution(FRAMES, 0.1)
    assert small.shape == FRAMES.shape
    assert small.std() < 0.5 * FRAMES.std()


@pytest.mark.parametrize("shape", [(7, 33, 51), (1, 1, 1), (3, 2, 40), (2, 17, 16)])
def test_h264_keeps_number_and_size_of_frames(shape: tuple[int, int, int]) -> None:
    frames = np.full((*shape, 3), 90, dtype=np.uint8)
    got = quality.h264(frames, 40)
    assert got.shape == frames.shape
    assert np.abs(got.astype(int) - 90).max() < 12
    smooth = np.broadcast_to(np.linspace(0, 255, 64).astype(np.uint8)[None, None, :, None], (4, 48, 64, 3))
    loss = [np.abs(quality.h264(smooth, crf).astype(int) - smooth).mean() for crf in (12, 48)]
    assert loss[0] < loss[1]


def test_stamps_blend_and_are_cut_at_the_edges() -> None:
    half = Image.new("RGBA", (10, 10), (255, 0, 0, 128))
    got = stamp(flat(2, 0, 0, 100), half, 35, -5)
    assert got[:, 4, 36].tolist() == [[128, 0, 50]] * 2
    np.testing.assert_array_equal(got[:, 5:], flat(2, 0, 0, 100)[:, 5:])
    np.testing.assert_array_equal(got[:, :, :35], flat(2, 0, 0, 100)[:, :, :35])


def test_captions_watermarks_and_marks_are_seen_in_their_place() -> None:
    dark = flat(2, 10, 10, 10, rows=100, columns=200)
    line = overlays.caption(dark, "LIVE", left=0.5, top=0.0, height=0.2, ink=[255, 255, 255])
    assert line[:, :30].max() == 255
    np.testing.assert_array_equal(line[:, 30:], dark[:, 30:])
    assert overlays.caption(dark, "a very long text " * 9, 0.5, 0.0, 0.2, [255, 255, 255]).shape == dark.shape
    faint = overlays.watermark(dark, "news", 0.1, 0.4, [255, 255, 255])
    assert 60 < faint.max() <= 10 + 0.4 * 245 + 1
    assert (faint != dark).any(axis=(0, 3))[:50].any()
    assert (faint != dark).any(axis=(0, 3))[50:].any()
    for kind in overlays.MARKS:
        mark = overlays.emoji(dark, kind, left=1.0, top=1.0, size=0.5)
        np.testing.assert_array_equal(mark[:, :50], dark[:, :50])
        np.testing.assert_array_equal(mark[:, :, :150], dark[:, :, :150])
        assert (mark != dark).mean() > 0.02


def test_videos_in_videos() -> None:
    own, other = flat(4, 9, 9, 9), flat(2, 200, 0, 0, rows=30, columns=30)
    shown = overlays.guest(own, other, 0.5, left=1.0, top=0.0)
    np.testing.assert_array_equal(shown[:, :10, 20:], flat(4, 200, 0, 0)[:, :10, 20:])
    np.testing.assert_array_equal(shown[:, 10:], own[:, 10:])
    left = overlays.beside(own, other, "left")
    np.testing.assert_array_equal(left, np.concatenate([flat(4, 200, 0, 0), own], axis=2))
    below = overlays.beside(own, other, "bottom")
    np.testing.assert_array_equal(below, np.concatenate([own, flat(4, 200, 0, 0)], axis=1))


def test_temporal_edits_name_their_frames() -> None:
    def order(frames: np.ndarray) -> list[int]:
        return frames[:, 0, 0, 0].tolist()

    counted = np.arange(8, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    assert order(temporal.reverse(counted)) == list(range(7, -1, -1))
    assert order(temporal.pause(counted, 0.25, 0.25)) == [0, 1, 2, 2, 2, 3, 4, 5, 6, 7]
    assert order(temporal.pause(counted, 1.0, 0.13)) == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    assert order(temporal.trim(counted, 0.25, 0.75)) == [2, 3, 4, 5]
    assert order(temporal.trim(counted, 0.99, 0.995)) == [7]
    assert order(temporal.thin(counted, 0.5)) == [1, 3, 5, 7]
    assert order(temporal.thin(counted, 0.001)) == [4]
    assert order(temporal.thin(counted, 1.0)) == list(range(8))


@pytest.mark.parametrize("name", EDITS)
def test_nothing_is_done_at_strength_0_and_something_at_1(name: str) -> None:
    assert draw_edit(name, Random(0), 0.0, "other") is None
    strong = apply_drawn(FRAMES, name, 0, 1.0)
    assert strong.shape != FRAMES.shape or (strong != FRAMES).any()


@pytest.mark.parametrize("name", ["crop", "rotate", "brightness", "warmth", "hue", "gamma", "blur", "noise", "caption"])
def test_a_weaker_edit_changes_less(name: str) -> None:
    smooth = np.broadcast_to(np.linspace(30, 220, 64).astype(np.uint8)[None, None, :, None], (3, 48, 64, 3)).copy()
    smooth[..., 1] //= 2

    def change(strength: float) -> float:
        made = [apply_drawn(smooth, name, seed, strength) for seed in range(6)]
        small = [np.abs(x.mean((1, 2)) - smooth.mean((1, 2))).mean() + np.abs(x.std() - smooth.std()) for x in made]
        lost = [1 - x.shape[1] * x.shape[2] / (48 * 64) for x in made]
        return float(np.mean(small) + 100 * np.mean(lost))

    assert change(0.1) < change(1.0)


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 40), (2, 40, 3), (5, 21, 36)])
def test_every_edit_works_on_every_shape_and_keeps_its_input(name: str, shape: tuple[int, int, int]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    frames.flags.writeable = False
    for host in (HOST, HOST[:1, :1, :1]):
        for seed in range(3):
            got = apply_drawn(frames, name, seed, 1.0, host)
            assert got.dtype == np.uint8
            assert got.ndim == 4
            assert min(got.shape) >= 1
            np.testing.assert_array_equal(got, apply_drawn(frames, name, seed, 1.0, host))


@pytest.mark.parametrize("name", EDITS)
def test_drawn_edits_are_plain_data_that_a_recipe_may_name(name: str) -> None:
    drawn = [draw_edit(name, Random(seed), 0.7, "other") for seed in range(8)]
    for edit in drawn:
        if edit is not None:
            assert json.loads(json.dumps(dict(edit.settings))) == edit.settings
            assert edit.name in APPLIED
    assert drawn == [draw_edit(name, Random(seed), 0.7, "other") for seed in range(8)]
    assert name in ("grey", "reverse", "invert", "flip") or len({repr(edit) for edit in drawn}) > 1


def test_impossible_edits() -> None:
    with pytest.raises(ConfigError, match=r"no edit 'melt'; known: crop"):
        draw_edit("melt", Random(0), 1.0)
    with pytest.raises(ConfigError, match=r"\[0, 1\], got 1.5"):
        draw_edit("crop", Random(0), 1.5)
    with pytest.raises(ConfigError, match="inset needs another video"):
        draw_edit("inset", Random(0), 1.0)
    assert sum(map(len, FAMILIES.values())) == len(EDITS)
