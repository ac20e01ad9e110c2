"""Images as data URIs: what arrives is what was sent, within the bounds."""

from __future__ import annotations

import base64
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError
from muvr_train.rerank.images import ImageSettings, encode_images, flat_parts
from muvr_train.rerank.types import AnswerError, Clip, Picture, Pixels
from tests.rerank.local_server import COLOURS, colour_of, decoded

PNG = ImageSettings(image_format="png", max_side=None, max_image_mb=None, max_request_mb=None)


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def plain(name: str, height: int = 20, width: int = 30) -> Pixels:
    return np.full((height, width, 3), COLOURS[name], np.uint8)


def test_png_arrives_bit_for_bit() -> None:
    images = [noise(5, 7), noise(64, 48, 1), noise(1, 1, 2)]
    encoded = encode_images(images, PNG)
    assert encoded.shrunk == 0
    for image, uri in zip(images, encoded.uris, strict=True):
        np.testing.assert_array_equal(decoded(uri), image)


def test_jpeg_keeps_size_order_and_rgb() -> None:
    images = [plain("red", 20, 30), plain("blue", 31, 17), plain("green", 8, 8)]
    received = [decoded(uri) for uri in encode_images(images, ImageSettings()).uris]
    assert [image.shape for image in received] == [image.shape for image in images]
    assert [colour_of(image) for image in received] == ["red", "blue", "green"]
    assert all(np.abs(a.astype(int) - b).max() <= 3 for a, b in zip(images, received, strict=True))


def test_a_thin_outline_keeps_its_colour_in_jpeg() -> None:
    image = plain("green", 64, 64)
    image[:, 31] = (255, 0, 0)
    received = decoded(encode_images([image], ImageSettings()).uris[0])
    assert received[:, 31, 0].min() > 200
    assert received[:, 31, 1].max() < 60


def test_views_and_flips_arrive_upright() -> None:
    image = noise(12, 10)
    views = [image[::-1], image[:, ::2], np.asfortranarray(image)]
    for view, uri in zip(views, encode_images(views, PNG).uris, strict=True):
        np.testing.assert_array_equal(decoded(uri), view)


@pytest.mark.parametrize(
    ("size", "side", "expected"),
    [((400, 800), 200, (100, 200)), ((800, 400), 200, (200, 100)), ((30, 20), 200, (30, 20)), ((1, 900), 90, (1, 90))],
)
def test_the_longest_side_is_bounded_and_nothing_grows(
    size: tuple[int, int], side: int, expected: tuple[int, int]
) -> None:
    encoded = encode_images([noise(*size)], ImageSettings(max_side=side))
    assert decoded(encoded.uris[0]).shape[:2] == expected
    assert encoded.shrunk == 0  # as was asked


def test_quality_makes_the_difference() -> None:
    fine, coarse = (encode_images([noise(64, 64)], ImageSettings(image_quality=q)).uris[0] for q in (95, 30))
    assert len(coarse) < len(fine) / 2


def test_one_large_image_gets_coarser_before_it_gets_smaller() -> None:
    large, small = noise(200, 300), noise(20, 30)
    free = encode_images([large, small], ImageSettings())
    bound = len(free.uris[0]) * 0.7
    bounded = encode_images([large, small], ImageSettings(max_image_mb=bound / 1e6))
    assert bounded.shrunk == 1
    assert bounded.uris[1] == free.uris[1]
    assert len(bounded.uris[0]) <= bound
    assert decoded(bounded.uris[0]).shape == large.shape
    tight = encode_images([large, small], ImageSettings(max_image_mb=bound / 20 / 1e6))
    assert len(tight.uris[0]) <= bound / 20
    height, width, _ = decoded(tight.uris[0]).shape
    assert 64 <= width < 300
    assert abs(height / width - 2 / 3) < 0.02


def test_frames_of_a_request_shrink_together() -> None:
    frames = [noise(90, 160, seed) for seed in range(6)]
    whole = sum(map(len, encode_images(frames, ImageSettings()).uris))
    settings = ImageSettings(max_request_mb=whole / 4 / 1e6)
    encoded = encode_images(frames, settings, other_bytes=1000)
    assert encoded.shrunk == 6
    assert sum(map(len, encoded.uris)) + 1000 <= whole / 4
    assert len({decoded(uri).shape for uri in encoded.uris}) == 1
    assert encode_images(frames, settings, other_bytes=1000) == encoded


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), max_size=4),
    st.sampled_from(["jpeg", "png"]),
    st.floats(0.003, 0.1),
)
def test_bounds_hold_wherever_they_can(sizes: list[tuple[int, int]], image_format: str, bound: float) -> None:
    images = [noise(*size) for size in sizes]
    settings = ImageSettings(image_format, max_image_mb=bound / 2, max_request_mb=bound)
    smallest = [len(uri) for uri in encode_images(images, ImageSettings(image_format, 50, max_side=64)).uris]
    if max(smallest, default=0) > bound / 2 * 1e6 or sum(smallest) > bound * 1e6:
        with pytest.raises(AnswerError, match=r"max_image_mb|max_request_mb"):
            encode_images(images, settings)
        return
    encoded = encode_images(images, settings)
    assert len(encoded.uris) == len(images)
    assert all(len(uri) <= bound / 2 * 1e6 for uri in encoded.uris)
    assert sum(map(len, encoded.uris)) <= bound * 1e6


def test_what_cannot_fit_names_the_bound() -> None:
    with pytest.raises(AnswerError, match=r"3 images do not fit into answerer.max_request_mb=0.001.*fewer frames"):
        encode_images([noise(90, 90)] * 3, ImageSettings(max_request_mb=0.001))
    with pytest.raises(AnswerError, match=r"answerer.max_image_mb=0.0001"):
        encode_images([noise(90, 90)], ImageSettings("png", max_image_mb=0.0001))


def test_huge_images_get_within_the_usual_bounds() -> None:
    encoded = encode_images([noise(3000, 5000)], ImageSettings(max_image_mb=2))
    assert len(encoded.uris[0]) <= 2e6
    assert base64.b64decode(encoded.uris[0].partition(",")[2])[:2] == b"\xff\xd8"


def test_many_large_images_are_encoded_one_after_another() -> None:
    code = """if True:
        import resource
        import numpy as np
        from muvr_train.rerank.images import ImageSettings, encode_images
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        image = np.zeros((1080, 1920, 3), np.uint8)
        encode_images([image], ImageSettings())
        before = peak()
        encode_images([image] * 32, ImageSettings())
        print((peak() - before) // 1024)
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 60  # MiB; a copy of one is 8, of all 32 it is 253


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)],
)
def test_other_arrays_are_no_images(pixels: Pixels) -> None:
    with pytest.raises(AnswerError, match=r"uint8 \[height, width, 3\]"):
        encode_images([pixels], PNG)


def test_parts_are_flattened_in_order() -> None:
    a, b, c = (plain(name) for name in ("red", "green", "blue"))
    parts = ("Look.", Picture(a), Clip((b, c), (0.04, 12.5)), "Well?")
    flat = flat_parts(parts)
    assert [part if isinstance(part, str) else colour_of(part) for part in flat] == [
        "Look.", "red", "green", "blue", "Well?",
    ]  # fmt: skip
    timed = flat_parts(parts, frame_times=True)
    assert [part for part in timed if isinstance(part, str)] == ["Look.", "[0.0 s]", "[12.5 s]", "Well?"]
    assert timed[2] == "[0.0 s]"
    assert timed[3] is b
    assert flat_parts([Clip((a, b))], frame_times=True) == [a, b]
    assert flat_parts([Clip(())]) == []
    with pytest.raises(AnswerError, match="2 frames, but 1 times"):
        flat_parts([Clip((a, b), (1.0,))])


def test_no_images_need_no_room() -> None:
    assert encode_images([], ImageSettings(max_request_mb=0.000001), other_bytes=500).uris == ()


@pytest.mark.parametrize(
    "wrong",
    [{"image_format": "webp"}, {"image_quality": 0}, {"image_quality": 101}, {"image_quality": 90.5}, {"max_side": 0},
     {"max_image_mb": -1}, {"max_request_mb": float("nan")}],
)  # fmt: skip
def test_impossible_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"answerer.{next(iter(wrong))} must be"):
        ImageSettings(**wrong)  # type: ignore[arg-type]
