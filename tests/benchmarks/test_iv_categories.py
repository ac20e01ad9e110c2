"""Categories of IV-Bench's videos: two forms of file, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train.benchmarks.iv_categories import read_categories
from muvr_train.errors import DataError

VIDEOS = ("a", "b,1", "ä", "c")
EXPECTED = {"a": "Sports", "b,1": "Daily Life, news", "ä": "Sports"}


@pytest.mark.parametrize(
    "content",
    [
        'video_id,category\na,Sports\n"b,1","Daily Life, news"\nä, Sports \nother,x\na,Sports\n',
        '\ufeffcategory,length,video_id\nSports,3,a\n"Daily Life, news",4,"b,1"\n\nSports,5,ä\r\n',
        '{"a": "Sports", "b,1": "Daily Life, news",\n "\\u00e4": "Sports", "other": "x"}',
        '\n{"ä": "Sports",\n"b,1": "Daily Life, news", "a": " Sports"}\n',
    ],
)
def test_both_forms(content: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(content, encoding="utf-8")
    assert read_categories(tmp_path / "c", VIDEOS) == EXPECTED


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "c:1 has the columns nothing: give a CSV with the columns video_id and category"),
        ("video,category\na,x\n", "c:1 has the columns video, category: give"),
        ("video_id,category,category\na,x,y\n", "c:1 has the columns"),
        ("video_id,category\na,x\nb\n", "c:3: video 'b' has the category ''"),
        ("video_id,category\n,x\n", "c:2: video '' has the category 'x'"),
        ("video_id,category\na,x\nc,x\na,y\n", "c:4: video a has the category y, in .*c:2 it has x: keep one"),
        ("video_id,category\nz,x\n", "c has none of the 4 videos that are asked about; it has z"),
        ('{"a": "x",\n "c": 3}', "c:2: video 'c' has the category 3"),
        ('{"a": "x",\n "c": null}', "c:2: video 'c' has the category None"),
        ('{"a": "x",\n\n "a": "y"}', "c:3: video a has the category y, in .*c:1 it has x"),
        ('{"a": "x",\n "c" "y"}', "c:2 is not JSON"),
        ('["a"]', "c:1 is no object: give"),
        ('{"a": {"category": "x"}}', "c:1: video 'a' has the category"),
    ],
)
def test_mistakes_are_named_by_file_and_line(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_categories(tmp_path / "c", VIDEOS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "c", tmp_path / "nothing", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            read_categories(path, VIDEOS)
