"""Which files are meant by the videos of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train.errors import DataError
from muvr_train.features.cached import find_extracted, store_name
from muvr_train.features.extract import extraction_manifest
from muvr_train.features.listing import match_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.writer import StoreWriter
from tests.features.test_extract import Means

FILES = ("top.mp4", "one/clip.mp4", "two/clip.mov", "two/ü [x].MP4", "a.b.mkv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "videos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "videos"


def match(folder: Path, **wanted: str | None) -> tuple[dict[str, str], dict[str, str]]:
    found, absent = match_videos(folder, wanted)
    return {name: path.relative_to(folder).as_posix() for name, path in found}, absent


@pytest.mark.parametrize(
    ("video", "file"),
    [
        ("top", "top.mp4"),
        ("top.mp4", "top.mp4"),
        ("one/clip", "one/clip.mp4"),
        ("two/clip.mov", "two/clip.mov"),
        ("clip.mov", "two/clip.mov"),
        ("ü [x]", "two/ü [x].MP4"),
        ("two/ü [x]", "two/ü [x].MP4"),
        ("a.b", "a.b.mkv"),
    ],
)
def test_a_video_is_a_path_or_the_name_of_a_file(video: str, file: str, folder: Path) -> None:
    assert match(folder, **{video: None}) == ({video: file}, {})


def test_a_given_file_decides(folder: Path) -> None:
    assert match(folder, top="one/clip.mp4", other="two/clip.mov") == (
        {"top": "one/clip.mp4", "other": "two/clip.mov"},
        {},
    )
    assert match(folder, x=str(folder / "top.mp4")) == ({"x": "top.mp4"}, {})


def test_what_is_not_there_or_not_clear_is_told(folder: Path) -> None:
    found, absent = match(folder, clip=None, nothing=None, top="gone.mp4", a=None)
    assert found == {}
    assert absent == {
        "clip": "several files of this name: one/clip.mp4, two/clip.mov",
        "nothing": "no file nothing",
        "top": "no file gone.mp4",
        "a": "no file a",
    }
    with pytest.raises(DataError, match="there is no such folder"):
        match_videos(folder / "none", {"a": None})


def test_extracted_folders_are_found_without_an_encoder(folder: Path, tmp_path: Path) -> None:
    items, _ = match_videos(folder, {"top": None, "one/clip": None})
    assert find_extracted(folder, items, tmp_path) == []
    encoder = Means()
    store = tmp_path / "features" / store_name(folder, encoder, items=items)
    with StoreWriter(store, extraction_manifest(encoder, FrameSampler()), "float16"):
        pass
    assert find_extracted(folder, items, tmp_path) == [store]
    assert find_extracted(folder, items[:1], tmp_path) == []
    (folder / "top.mp4").write_bytes(b"another")
    assert find_extracted(folder, items, tmp_path) == []
