"""Mask files: PNG of every kind, run-length codes against a slow twin, which masks belong to whom, and faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from muvr_train.benchmarks.types import Benchmark, Partition, Query
from muvr_train.errors import DataError
from muvr_train.features.masks import decode_rle, find_masks, fit_mask, list_masks, read_png
from tests.reference.rle import compress, encode_counts

SHAPE = np.array([[0, 1, 0], [0, 1, 1]], bool)
COUNTS = [2, 2, 1, 1]  # column by column: 00 | 11 | 01


def benchmark(*queries: Query) -> Benchmark:
    return Benchmark("toy", (Partition("all", queries, (), ()),))


def query(name: str, mask: str | None = None) -> Query:
    return Query(name, "all", "all/t", mask=mask)


def save(path: Path, picture: Any = SHAPE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)
    return path


def test_worked_codes() -> None:
    size = {"size": [2, 3]}
    assert decode_rle({**size, "counts": COUNTS}, "x").tolist() == SHAPE.tolist()
    assert compress(COUNTS) == "221O"  # the fourth: 1 - 2 = -1, that is 31, "O"
    assert decode_rle({**size, "counts": "221O"}, "x").tolist() == SHAPE.tolist()
    assert decode_rle({**size, "counts": "6"}, "x").sum() == 0
    assert decode_rle({**size, "counts": "06"}, "x").all()
    assert compress([16, 1000]) == "`0Xo0"  # 16 and 31 need one more group, or they would be negative
    square = np.zeros((30, 40), bool)
    square[5:21, 7:33] = square[2, 3] = True
    golden = "l21j3?dL0000000000000000000000000000000000000000000000000]6"  # by pycocotools 2
    assert np.array_equal(decode_rle({"size": [30, 40], "counts": golden}, "x"), square)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_codes_equal_the_slow_twin(height: int, width: int, seed: int, share: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    counts = encode_counts(mask)
    for form in (counts, compress(counts)):
        found = decode_rle({"size": [height, width], "counts": form}, "x")
        assert found.dtype == bool
        assert np.array_equal(found, mask)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ({"counts": [6]}, r"'size' must be \[height, width\], got None"),
        ({"size": [2, 0], "counts": [0]}, "'size' must be"),
        ({"size": [2, 3], "counts": [2, 3]}, "give 5 pixels, 'size' 2 x 3 = 6"),
        ({"size": [2, 3], "counts": [7, -1]}, "a list of lengths from 0"),
        ({"size": [2, 3], "counts": "2 2"}, "holds ' '"),
        ({"size": [2, 3], "counts": "22Q"}, "ends in the middle"),
        ({"size": [2, 3]}, r"must be \{'size'"),
        ([1, 2], r"must be \{'size'"),
    ],
)
def test_broken_codes(code: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"q\.json \(frame 3\).*{message}"):
        decode_rle(code, "q.json (frame 3)")


def test_png_of_every_kind(tmp_path: Path) -> None:
    grey = SHAPE.astype(np.uint8)
    palette = Image.fromarray(grey * 3).convert("P")
    palette.putpalette([9, 9, 9] * 256)  # labels count, not colours
    clear = np.zeros((2, 3, 4), np.uint8)
    clear[..., 0] = 7
    clear[SHAPE, 3] = 255
    rgb = np.zeros((2, 3, 3), np.uint8)
    rgb[SHAPE, 2] = 1
    kinds = {"bit": SHAPE, "grey": grey, "white": grey * 255, "deep": grey.astype(np.uint16) * 300, "rgb": rgb}
    for name, values in {**kinds, "clear": clear}.items():
        save(tmp_path / f"{name}.png", values)
    palette.save(tmp_path / "palette.png")
    for name in (*kinds, "clear", "palette"):
        assert read_png(tmp_path / f"{name}.png").tolist() == SHAPE.tolist(), name


def test_what_is_no_png(tmp_path: Path) -> None:
    Image.new("L", (3, 2)).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").rename(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    whole = save(tmp_path / "c.png", np.random.default_rng(0).integers(0, 255, (60, 60), np.uint8)).read_bytes()
    (tmp_path / "c.png").write_bytes(whole[:-900])
    for name, message in {
        "a": "no PNG file but JPEG",
        "b": "cannot be read as PNG",
        "c": "cannot be read as PNG",
    }.items():
        with pytest.raises(DataError, match=rf"{name}\.png: {message}|{name}\.png: is {message}"):
            read_png(tmp_path / f"{name}.png")


def test_masks_of_a_folder_by_number_and_by_time(tmp_path: Path) -> None:
    for name in ("12", "0003", "frame_0100", "0.5s", ".hidden"):
        save(tmp_path / f"{name}.png")
    found = {mask.path.stem: (mask.frame, mask.seconds, mask.for_all) for mask in list_masks(tmp_path)}
    assert found == {
        "12": (12, None, False),
        "0003": (3, None, False),
        "frame_0100": (100, None, False),
        "0.5s": (None, 0.5, False),
    }
    save(tmp_path / "left.png")
    with pytest.raises(DataError, match=r"left\.png: the name tells no frame"):
        list_masks(tmp_path)
    (tmp_path / "left.png").rename(tmp_path / "left.jpg")
    with pytest.raises(DataError, match=r"left\.jpg: is no PNG file"):
        list_masks(tmp_path)


def test_forms_of_json(tmp_path: Path) -> None:
    code = {"size": [2, 3], "counts": COUNTS}
    file = tmp_path / "q.json"
    expected = {"frames": {"5": code, "0": code}, "list": [code, None, None, None, None, code]}
    for content in expected.values():
        file.write_text(json.dumps(content))
        assert [mask.frame for mask in list_masks(file)] == [0, 5]
        assert all(np.array_equal(mask.read(), SHAPE) for mask in list_masks(file))
    file.write_text(json.dumps(code))
    assert [mask.for_all for mask in list_masks(file)] == [True]
    for content, message in {
        "{": "no JSON file",
        '"x"': "got str",
        "{}": "holds no mask",
        '{"a": 1}': "got 'a'",
    }.items():
        file.write_text(content)
        with pytest.raises(DataError, match=rf"q\.json.*{message}"):
            list_masks(file)


def test_who_has_masks(tmp_path: Path) -> None:
    save(tmp_path / "news" / "ü.1" / "3.png")
    save(tmp_path / "geng" / "b.png")
    save(tmp_path / "drawn" / "c" / "1.png")
    (tmp_path / "news" / "d.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("masks")
    asked = [query("news/ü.1"), query("others/b"), query("c", "drawn/c"), query("news/d"), query("news/e")]
    found = find_masks(tmp_path, benchmark(*asked))
    assert {name: path.relative_to(tmp_path).as_posix() for name, path in found.items()} == {
        "news/ü.1": "news/ü.1",
        "others/b": "geng/b.png",
        "c": "drawn/c",
        "news/d": "news/d.json",
    }
    with pytest.raises(
        DataError, match=r"2 files belong to no query: drawn/c/1\.png, geng/b\.png.*the queries are news/"
    ):
        find_masks(tmp_path, benchmark(query("news/ü.1"), query("news/d")))
    save(tmp_path / "news" / "d.png")
    with pytest.raises(DataError, match=r"query news/d has several masks.*d\.png.*d\.json"):
        find_masks(tmp_path, benchmark(*asked))


def test_folders_of_masks_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder"):
        find_masks(tmp_path / "x", benchmark(query("q")))
    with pytest.raises(DataError, match="no query has a mask"):
        find_masks(tmp_path, benchmark(query("q")))
    with pytest.raises(DataError, match=r"the mask of query q is not there: .*m\.png"):
        find_masks(tmp_path, benchmark(query("q", "m.png")))


def test_a_mask_of_the_same_shape_is_brought_to_the_size_of_the_frame() -> None:
    assert fit_mask(SHAPE, 2, 3, "m") is SHAPE
    assert np.array_equal(fit_mask(SHAPE, 4, 6, "m"), SHAPE.repeat(2, axis=0).repeat(2, axis=1))
    assert np.array_equal(fit_mask(SHAPE.repeat(3, axis=0).repeat(3, axis=1), 2, 3, "m"), SHAPE)
    assert fit_mask(np.ones((180, 321), bool), 360, 640, "m").all()  # rounded
    with pytest.raises(DataError, match=r"m\.png: the mask is 3 x 2 pixels, the frame 20 x 30, which is another shape"):
        fit_mask(SHAPE, 30, 20, "m.png")
