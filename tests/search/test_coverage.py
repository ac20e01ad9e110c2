"""Score files beside a benchmark: exchanged ids, unknown expressions, and files that hold other parts of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError
from muvr_train.search.coverage import differing, refuse_swapped, unknown_expressions
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import ScoreBlock, ScoreFile
from tests.tagged import make_tagged

QUERIES = [f"news/q{number}" for number in range(4)]
VIDEOS = [f"news/é{number}" for number in range(10)]
NEWS = Partition(
    "news",
    tuple(Query(query, "news", "news/t") for query in QUERIES),
    tuple(Judgement(query, {VIDEOS[0]: "match"}) for query in QUERIES),
    (*VIDEOS, *QUERIES),  # queries are searched too
)
BENCHMARK = Benchmark("table", (NEWS,))


def file_of(queries: Any, database: Any, expressions: tuple[str, ...] | None = None, name: str = "") -> FileScores:
    scores = np.zeros((len(queries), len(database)), np.float32)
    block = ScoreBlock(tuple(queries), tuple(database), scores, expressions)
    return FileScores(ScoreFile(Path("mine.npz"), "v", {name: block}))


@pytest.mark.parametrize("name", ["", "news"])
@pytest.mark.parametrize("bare", [False, True])
def test_exchanged_ids_of_queries_that_are_searched_too(bare: bool, name: str) -> None:
    rows, columns = ([one.removeprefix("news/") if bare else one for one in ids] for ids in (NEWS.database, QUERIES))
    with pytest.raises(DataError, match=r"swapped: query_ids are database videos of news\. Save scores\.T"):
        refuse_swapped(file_of(rows, columns, name=name), BENCHMARK)
    refuse_swapped(file_of(columns, rows, name=name), BENCHMARK)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (NEWS.database, NEWS.database),  # all against all
        (NEWS.database, VIDEOS),  # without the queries' own columns
        (QUERIES, QUERIES),
        (QUERIES[:1], VIDEOS[:2]),
        (QUERIES[:1], QUERIES[1:]),
        (["x"], ["y"]),
    ],
)
def test_files_that_are_the_right_way_round(rows: Any, columns: Any) -> None:
    refuse_swapped(file_of(rows, columns), BENCHMARK)


def test_unknown_expressions_of_known_queries(tmp_path: Path) -> None:
    benchmark = read_muvr(make_tagged(tmp_path)[0], filters=True)
    part = benchmark.partitions[0]
    known = part.filters[0]
    queries, texts = (known.query, known.query, "news/nobody"), (str(known.expression), "+nöthing", "+night")
    assert unknown_expressions(file_of(queries, part.database, texts), benchmark) == [f"{known.query} '+nöthing'"]
    assert unknown_expressions(file_of((known.query,), part.database), benchmark) == []


def test_files_of_other_parts_of_a_benchmark() -> None:
    other = replace(NEWS, name="dance", queries=(), judgements=())
    both = Benchmark("table", (NEWS, other))
    whole, shuffled = file_of(QUERIES, VIDEOS), file_of(QUERIES[::-1], [*VIDEOS[::-1], "more"])
    assert differing([whole], both) == differing([whole, shuffled], both) == {}
    less, else_ = file_of(QUERIES[1:], VIDEOS), file_of(QUERIES, [*VIDEOS[1:], QUERIES[0]])
    assert differing([whole, less], BENCHMARK) == {"news": [(4, 10), (3, 10)]}
    assert differing([whole, else_], BENCHMARK) == {"news": [(4, 10), (4, 10)]}, "as many, but others"
