"""Questions of MUVR-QA: the released files come back byte for byte, and broken lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train.benchmarks.muvr_qa import QaRow, read_qa, write_qa
from muvr_train.errors import DataError

PARTITIONS = ("news", "others", "instance", "region", "dance")


@pytest.mark.parametrize("partition", PARTITIONS)
def test_released_questions_are_written_as_they_were_read(shared: Path, tmp_path: Path, partition: str) -> None:
    released = shared / "data" / "muvr_qa" / f"{partition}.jsonl"
    rows = read_qa(released)
    assert [row.label for row in rows] == [1, 0] * 20
    assert all(true.query == false.query for true, false in zip(rows[::2], rows[1::2], strict=True))
    write_qa(tmp_path / "again.jsonl", rows)
    assert (tmp_path / "again.jsonl").read_bytes() == released.read_bytes()


def test_any_text_comes_back(tmp_path: Path) -> None:
    rows = [QaRow("日\u2028本", 'a"b\\', 1, "line\nbreak", "+é"), QaRow("q", "t", 0, "")]
    write_qa(tmp_path / "a.jsonl", rows)
    assert read_qa(tmp_path / "a.jsonl") == rows
    write_qa(tmp_path / "a.jsonl", [])
    assert read_qa(tmp_path / "a.jsonl") == []


GOOD = '{"Query": "a", "Target": "b", "Label": 1, "prompt_en": "c"}'


def test_a_tag_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    assert read_qa(tmp_path / "a.jsonl") == [QaRow("a", "b", 1, "c")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "a.jsonl:2 is not JSON"),
        ("[]", "a.jsonl:2: a question has Query, Target"),
        (GOOD.replace('"b"', "3"), "a.jsonl:2: a question has"),
        (GOOD.replace("Target", "target"), "a.jsonl:2: a question has"),
        (GOOD.replace("1", "2"), "a.jsonl:2: a question has .*Label"),
        (GOOD.replace("}", ', "Tag": 3}'), "a.jsonl:2: Tag must be a text, got 3"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "a.jsonl").write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(DataError, match=says):
        read_qa(tmp_path / "a.jsonl")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\x00")
    for name in ("a.jsonl", "b.jsonl"):
        with pytest.raises(DataError, match=name):
            read_qa(tmp_path / name)
