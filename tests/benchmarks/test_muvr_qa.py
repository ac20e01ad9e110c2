"""Questions of MUVR-QA: the released files come back byte for byte, and broken lines are named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from muvr_train.benchmarks.muvr_qa import QaRow, pair_rows, question_id, read_qa, read_questions, write_qa
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


def test_released_pairs_are_found_in_any_order_of_rows(shared: Path, tmp_path: Path) -> None:
    released = read_questions(shared / "data" / "muvr_qa")
    assert tuple(released) == PARTITIONS
    assert sum(len(rows) for rows in released.values()) == 200
    assert sum(bool(row.tag) for rows in released.values() for row in rows) == 98
    expected = {name: {(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)} for name, rows in released.items()}
    pairs = {name: pair_rows(rows, name) for name, rows in released.items()}
    assert {name: {(pair.true, pair.false) for pair in found} for name, found in pairs.items()} == expected
    assert len({pair.id for found in pairs.values() for pair in found}) == 100
    ids = {question_id(name, row) for name, rows in released.items() for row in rows}
    assert len(ids) == 200
    for seed in range(3):
        for name, rows in released.items():
            random.Random(seed).shuffle(rows)
            write_qa(tmp_path / f"{name}.jsonl", rows)
        again = read_questions(tmp_path)
        shuffled = {name: pair_rows(rows, name) for name, rows in again.items()}
        assert {name: {(pair.true, pair.false) for pair in found} for name, found in shuffled.items()} == expected
        assert {pair.id for found in shuffled.values() for pair in found} == {
            pair.id for found in pairs.values() for pair in found
        }
        assert {question_id(name, row) for name, rows in again.items() for row in rows} == ids
    assert [pair.true for pair in pair_rows(released["news"], "news")] == [
        row for row in released["news"] if row.label == 1
    ]


def test_old_names_own_names_and_folders_above(tmp_path: Path) -> None:
    folder = tmp_path / "annotations" / "QA" / "annotations"
    folder.mkdir(parents=True)
    for name in ("zoo", "animal", "geng", "été", "news"):
        write_qa(folder / f"{name}.jsonl", [QaRow("日", f"{name}1", 1, ""), QaRow("日", f"{name}0", 0, "")])
    write_qa(folder / "empty.jsonl", [])
    (folder / ".hidden.jsonl").write_text("{")
    for path in (tmp_path, tmp_path / "annotations", folder):
        assert tuple(read_questions(path)) == ("news", "others", "instance", "zoo", "été")
    assert tuple(read_questions(folder / "geng.jsonl")) == ("others",)
    write_qa(folder / "others.jsonl", [QaRow("q", "t", 1, "")])
    with pytest.raises(DataError, match=r"geng.jsonl and .*others.jsonl are both partition others"):
        read_questions(tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist"):
        read_questions(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"holds no \.jsonl file"):
        read_questions(tmp_path)
    write_qa(tmp_path / "news.jsonl", [])
    with pytest.raises(DataError, match=r"holds no question: its files news\.jsonl are empty"):
        read_questions(tmp_path)


def rows_of(*content: str) -> list[QaRow]:
    """Rows written as `query+tag>target=label`."""
    rows = []
    for text in content:
        name, _, rest = text.partition(">")
        target, _, label = rest.partition("=")
        query, plus, tag = name.partition("+")
        rows.append(QaRow(query, target, int(label), "text", plus + tag))
    return rows


def test_several_pairs_of_one_query_and_tag() -> None:
    rows = rows_of("q>d=0", "q>b=1", "q+t>z=0", "q>c=0", "q+t>y=1", "q>a=1", "q+u>a=1", "q+u>c=0")
    expected = {("a", "c", ""), ("b", "d", ""), ("y", "z", "+t"), ("a", "c", "+u")}
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        pairs = pair_rows(rows, "p")
        assert {(pair.true.target, pair.false.target, pair.true.tag) for pair in pairs} == expected
        assert len({pair.id for pair in pairs}) == 4
    assert pair_rows([], "p") == []


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            rows_of("q>a=1"),
            r"partition p: query q without tag has 1 true \(Label 1\) and 0 false .* target a \(Label 1\)",
        ),
        (rows_of("q>a=1", "q+t>b=0"), "query q without tag has 1 true"),
        (rows_of("q>a=1", "q>b=0", "r+t>c=0"), r"query r with tag '\+t' has 0 true .* and 1 false"),
        (rows_of("q>a=1", "q>b=0", "q>c=0"), "has 1 true .* and 2 false"),
        (rows_of("q>a=1", "q>a=0"), "target a is both true and false"),
        (rows_of("q>a=1", "q>a=1", "q>b=0", "q>c=0"), "target a stands twice"),
    ],
)
def test_rows_without_partner_are_named(rows: list[QaRow], says: str) -> None:
    with pytest.raises(DataError, match=says):
        pair_rows(rows, "p")


def test_a_broken_pair_is_named_with_file_and_row(shared: Path, tmp_path: Path) -> None:
    lines = (shared / "data" / "muvr_qa" / "dance.jsonl").read_text().split("\n")
    (tmp_path / "dance.jsonl").write_text("\n".join(lines[:6] + lines[7:]))
    with pytest.raises(DataError, match=r"has 0 true .* and 1 false .*/dance\.jsonl:7\b"):
        read_questions(tmp_path)


@pytest.mark.parametrize("name", ["all", "tagged", "untagged"])
def test_names_of_rows_are_no_partitions(tmp_path: Path, name: str) -> None:
    write_qa(tmp_path / f"{name}.jsonl", rows_of("q>a=1", "q>b=0"))
    with pytest.raises(DataError, match=f"{name} is the name of a row of the results"):
        read_questions(tmp_path)
