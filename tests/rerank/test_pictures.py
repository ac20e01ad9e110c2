"""Image files as people have them: every mode and format, turned, animated, broken, too large."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.errors import DataError
from muvr_train.rerank.pictures import read_picture, shrink

COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 9, 9]], [[255, 255, 255], [0, 0, 0]]], np.uint8)


def save(path: Path, picture: Image.Image, form: str = "PNG", **options: Any) -> Path:
    picture.save(path, form, **options)
    return path


def test_plain_png_and_webp_are_exact(tmp_path: Path) -> None:
    picture = Image.fromarray(COLOURS)
    for path in (save(tmp_path / "ä 图.png", picture), save(tmp_path / "b", picture, "WEBP", lossless=True)):
        found = read_picture(path)
        assert found.dtype == np.uint8
        assert found.tolist() == COLOURS.tolist()
        assert found.flags.writeable


@pytest.mark.parametrize(("orientation", "turned"), [(1, 0), (6, 3), (3, 2), (8, 1)])
def test_exif_orientation(tmp_path: Path, orientation: int, turned: int) -> None:
    big = np.kron(COLOURS, np.ones((16, 16, 1), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.jpg", Image.fromarray(big), "JPEG", quality=95, subsampling=0, exif=exif)
    difference = np.abs(read_picture(path).astype(int) - np.rot90(big, turned))
    assert difference.max() < 30


def test_grey_of_8_and_16_bits_and_black_and_white(tmp_path: Path) -> None:
    eight = np.array([[0, 7], [200, 255]], np.uint8)
    for name, picture in (
        ("8", Image.fromarray(eight)),
        ("16", Image.fromarray(eight.astype(np.uint16) * 256 + 131)),
    ):
        assert read_picture(save(tmp_path / name, picture)).tolist() == np.repeat(eight[..., None], 3, 2).tolist()
    bits = Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert("1")
    assert read_picture(save(tmp_path / "1", bits))[..., 0].tolist() == [[0, 255], [255, 0]]


def test_what_is_clear_is_white(tmp_path: Path) -> None:
    clear = np.array([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 0, 0, 51]]], np.uint8)
    wanted = [[[255, 0, 0], [255, 255, 255], [204, 204, 204]]]
    assert read_picture(save(tmp_path / "rgba", Image.fromarray(clear))).tolist() == wanted
    grey = Image.new("LA", (1, 1), (40, 0))
    assert read_picture(save(tmp_path / "la", grey)).tolist() == [[[255, 255, 255]]]
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    assert read_picture(save(tmp_path / "p", palette)).tolist() == [[[10, 20, 30], [40, 50, 60]]]
    assert read_picture(save(tmp_path / "pt", palette, transparency=1)).tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_cmyk_and_animations(tmp_path: Path) -> None:
    red = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    assert np.abs(read_picture(save(tmp_path / "c.jpg", red, "JPEG", quality=95)).astype(int) - (255, 0, 0)).max() < 8
    first, second = Image.new("RGB", (4, 4), (1, 2, 3)), Image.new("RGB", (4, 4), (200, 2, 3))
    path = save(tmp_path / "a.gif", first, "GIF", save_all=True, append_images=[second])
    assert read_picture(path).tolist() == [[[1, 2, 3]] * 4] * 4


def png(width: int, height: int) -> bytes:
    """A sound PNG file head that promises a picture of this size, and next to no data."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore:Image size")
def test_broken_files_are_named(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(whole, "PNG")
    files = {
        "empty.png": (b"", "empty"),
        "text.png": (b"version https://git-lfs.github.com/spec/v1\n", "no image"),
        "cut.png": (whole.getvalue()[:2000], "cannot be read"),
        "head.jpg": (b"\xff\xd8\xff\xe0", "no image|cannot be read"),
        "short.png": (png(50, 50), "cannot be read"),
        "large.png": (png(12_000, 12_000), "12000 x 12000 pixels are too many"),
        "bomb.png": (png(60_000, 60_000), "cannot be read"),
        "script.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image"),
    }
    for name, (content, why) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: .*({why})"):
            read_picture(tmp_path / name)
    with pytest.raises(DataError, match=r"none\.png: no such image file"):
        read_picture(tmp_path / "none.png")


def test_pictures_shrink_by_their_long_side_and_never_grow() -> None:
    picture = np.zeros((30, 60, 3), np.uint8)
    picture[:, 30:] = 255
    assert shrink(picture, None) is picture
    assert shrink(picture, 60) is picture
    small = shrink(picture, 20)
    assert small.shape == (10, 20, 3)
    assert (small[:, :8] == 0).all()
    assert (small[:, 12:] == 255).all()
    assert shrink(np.zeros((1000, 3, 3), np.uint8), 10).shape == (10, 1, 3)
    assert shrink(picture.transpose(1, 0, 2), 20).shape == (20, 10, 3)
