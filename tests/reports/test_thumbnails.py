"""Pictures of a page from real and broken videos."""

from __future__ import annotations

import base64
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.demo.encode import write_video
from muvr_train.errors import DataError
from muvr_train.reports.thumbnails import HEIGHT, heat_map, make_thumbnails, strip
from muvr_train.runner.report import FRAMES, decoded


def opened(uri: str) -> Image.Image:
    kind, _, content = uri.partition(";base64,")
    assert kind in ("data:image/jpeg", "data:image/png")
    return Image.open(io.BytesIO(base64.b64decode(content)))


def gray(video: str) -> Any:
    return [np.full((45, 60, 3), 100, dtype=np.uint8)] * 2


def test_a_strip_of_a_real_video_and_a_broken_one(tmp_path: Path) -> None:
    colours = [(200, 20, 20), (20, 200, 20), (20, 20, 200)]
    frames = [Image.new("RGB", (160, 120), colours[i // 10]) for i in range(30)]
    write_video(tmp_path / "good.mp4", frames)
    (tmp_path / "broken.mp4").write_bytes((tmp_path / "good.mp4").read_bytes()[:200])
    paths = {"a/good": tmp_path / "good.mp4", "a/broken": tmp_path / "broken.mp4"}
    made = make_thumbnails(["a/good", "a/broken", "a/nowhere"], decoded(paths), 30, 10**6)
    assert set(made.images) == {"a/good"}
    assert "broken.mp4" in made.broken["a/broken"]
    assert made.absent == {"a/nowhere"}
    picture = np.asarray(opened(made.images["a/good"]).convert("RGB"), dtype=int)
    assert picture.shape == (HEIGHT, FRAMES * 120, 3)
    for place, colour in enumerate(colours):
        assert np.abs(picture[45, 60 + 120 * place] - colour).max() < 40


def test_frames_may_differ_in_size_and_shape() -> None:
    frames = [np.zeros((90, 30, 3), np.uint8), np.zeros((10, 1000, 3), np.uint8)]
    assert Image.open(io.BytesIO(strip(frames))).size == (30 + 160, 90)


def test_room_is_bounded_and_the_first_come_first() -> None:
    size = len(make_thumbnails(["a"], gray, 30, 10**6).images["a"])
    made = make_thumbnails(["a", "b", "a", "c"], gray, 30, 2 * size)
    assert list(made.images) == ["a", "b"]
    assert made.left_out == {"c"}


def test_a_decoder_that_hangs_costs_only_its_time() -> None:
    forever = threading.Event()

    def pictures(video: str) -> Any:
        if video == "stuck":
            forever.wait(60)
        return gray(video)

    made = make_thumbnails(["stuck", "b", "c"], pictures, 0.5, 10**6)
    forever.set()
    assert set(made.images) == {"b", "c"}
    assert made.left_out == {"stuck"}


def test_a_broken_video_is_counted_and_any_other_fault_is_raised() -> None:
    def pictures(video: str) -> Any:
        raise DataError(f"{video}: no") if video == "a" else KeyError(video)

    assert make_thumbnails(["a"], pictures, 30, 10**6).broken == {"a": "a: no"}
    with pytest.raises(KeyError):
        make_thumbnails(["a", "b"], pictures, 30, 10**6)


def test_a_map_has_a_pixel_per_pair_of_frames() -> None:
    values = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]])
    picture = opened(heat_map(values, 0.0, 1.0))
    assert picture.size == (3, 2)
    assert picture.getpixel((1, 0)) == (253, 231, 36)  # viridis: 1 is yellow, 0 is dark violet
    assert picture.getpixel((0, 0)) == (68, 1, 84)
    red, _, blue = opened(heat_map(-values, -1.0, 1.0)).getpixel((1, 0))  # type: ignore[misc]
    assert blue > red
    assert opened(heat_map(np.zeros((1000, 2)), 0.0, 0.0)).size[1] <= 160
