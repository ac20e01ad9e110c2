"""Score tables in parquet: long and wide, in any order, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.search import score_parquet
from muvr_train.search.score_files import ScoreBlock, read_scores

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
LONG = {"query": ["b", "a", "a", "b"], "database": ["x", "y", "x", "y"], "score": [0.1, 0.2, 0.3, 0.4]}


def read(path: Path, columns: dict[str, Any], **options: Any) -> ScoreBlock:
    pq.write_table(pa.table(columns), path / "s.parquet", **options)
    file = read_scores(path / "s.parquet")
    assert file.mode == "scores"
    return file.blocks[""]


def cell(block: ScoreBlock, query: str, video: str) -> float:
    return float(block.scores[block.queries.index(query), block.database.index(video)])


@pytest.mark.parametrize("names", [("query", "database", "score"), ("query_id", "database_id", "scores")])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_long(tmp_path: Path, names: tuple[str, ...], coded: bool, rows: int) -> None:
    columns = {name: pa.array(LONG[old]) for name, old in zip(names, LONG, strict=True)}
    if coded:
        columns = {n: column.dictionary_encode() if n != names[2] else column for n, column in columns.items()}
    block = read(tmp_path, {**columns, "other": [1, 2, 3, 4]}, row_group_size=rows)
    assert set(block.queries) == {"a", "b"}
    assert block.scores.dtype == np.float64
    assert [cell(block, q, v) for q, v in zip(LONG["query"], LONG["database"], strict=True)] == LONG["score"]


def test_long_keeps_float32_and_number_ids(tmp_path: Path) -> None:
    block = read(tmp_path, {**LONG, "query": [2, 1, 1, 2], "score": pa.array(LONG["score"], pa.float32())})
    assert set(block.queries) == {"1", "2"}
    assert block.scores.dtype == np.float32
    assert cell(block, "1", "x") == np.float32(0.3)


def test_a_pair_without_a_line_is_nan(tmp_path: Path) -> None:
    block = read(tmp_path, {name: column[:3] for name, column in LONG.items()})
    assert np.isnan(cell(block, "b", "y"))
    assert np.isfinite(block.scores).sum() == 3


@pytest.mark.parametrize("first", ["query_id", "name", "__index_level_0__"])
def test_wide(tmp_path: Path, first: str) -> None:
    columns = {first: ["a", "b"], "news/x": [0.1, 0.2], "y": [3, 4]}
    if first != "name":  # these are known wherever they stand
        columns = dict(reversed(columns.items()))
    block = read(tmp_path, columns)
    assert block.queries == ("a", "b")
    assert set(block.database) == {"news/x", "y"}
    assert [cell(block, q, v) for q in "ab" for v in ("news/x", "y")] == [0.1, 3, 0.2, 4]


WRONG = [
    ({**LONG, "database": ["x", "x", "x", "y"]}, "query a and database video x stands twice"),
    ({**LONG, "query": ["a", None, "a", "b"]}, "column query has 1 empty cells"),
    ({**LONG, "score": ["0.1", "0.2", "0.3", "0.4"]}, "scores must be float32"),
    ({"query": ["a"], "score": [0.1]}, None),
    ({"a": ["x"]}, "a long table has the columns query, database and score"),
    ({"a": ["x"], "b": ["y"]}, "b holds no numbers"),
    ({"a": [0.5], "b": [1.0]}, "column a must be texts"),
    ({"a": ["x", "x"], "b": [1.0, 2.0]}, "stand twice: x"),
    ({name: column[:0] for name, column in LONG.items()}, "no query id"),
]


@pytest.mark.parametrize(("columns", "says"), WRONG)
def test_wrong_tables(tmp_path: Path, columns: dict[str, Any], says: str | None) -> None:
    if says is None:  # a wide table whose one video is called "score" is possible
        assert read(tmp_path, columns).database == ("score",)
        return
    if not columns["query" if "query" in columns else "a"]:
        columns = {
            "query": pa.array([], pa.string()),
            "database": pa.array([], pa.string()),
            "score": pa.array([], pa.float64()),
        }
    with pytest.raises(DataError, match=says) as caught:
        read(tmp_path, columns)
    assert str(caught.value).startswith(str(tmp_path / "s.parquet"))


@pytest.mark.parametrize("rows", [1, 4])
def test_a_pair_twice_in_two_groups(tmp_path: Path, rows: int) -> None:
    twice = {name: [*column, column[1]] for name, column in LONG.items()}
    with pytest.raises(DataError, match="query a and database video y stands twice"):
        read(tmp_path, twice, row_group_size=rows)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"muvr-train\[parquet\]"):
        score_parquet.read_parquet(tmp_path / "s.parquet")
