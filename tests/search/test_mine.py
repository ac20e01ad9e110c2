"""Mining by the scores of a source: which queries get lists, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.search.held import HeldScores
from muvr_train.search.mining import count_new, mine
from muvr_train.search.scores import ScoreMatrix
from tests.data.test_batches import make_benchmark


def source(queries: tuple[str, ...], value: float | None = None) -> HeldScores:
    database = make_benchmark().partitions[0].database
    scores = np.random.default_rng(0).random((len(queries), len(database))).astype(np.float32)
    if value is not None:
        scores[0, 0] = value
    return HeldScores({"v": {"p": ScoreMatrix(queries, database, scores)}})


def test_every_scored_query_gets_its_hardest_non_matches() -> None:
    benchmark = make_benchmark()
    asked = tuple(query.id for query in benchmark.queries)
    scored = source(asked)
    mined = mine(scored, benchmark, "v", 4)
    matrix = scored.matrices["v"]["p"]
    values = []
    for query, listed in mined.lists.items():
        row = dict(zip(matrix.database, matrix.scores[asked.index(query)].tolist(), strict=True))
        allowed = sorted((v for v in row if benchmark.relevance(query, v) == 0), key=lambda video: -row[video])
        assert listed == allowed[:4]
        values += [row[video] for video in listed]
    assert set(mined.lists) == set(asked)
    assert mined.mean_score == pytest.approx(float(np.mean(values)))
    assert mined.without == 0


def test_a_query_that_cannot_be_scored_has_no_list() -> None:
    """One without a video (or without any part of the mode) has no row."""
    mined = mine(source(("p/q00", "p/q10")), make_benchmark(), "v", 3)
    assert set(mined.lists) == {"p/q00", "p/q10"}
    assert mined.without == len(make_benchmark().queries) - 2


def test_nothing_is_mined_where_nothing_is_known() -> None:
    mined = mine(HeldScores({"v": {}}), make_benchmark(), "v", 3)
    assert mined.lists == {}
    assert math.isnan(mined.mean_score)


def test_nan_is_refused() -> None:
    with pytest.raises(DataError, match=r"(?i)nan"):
        mine(source(("p/q00", "p/q10"), math.nan), make_benchmark(), "v", 3)


def test_new_pairs_are_counted() -> None:
    assert count_new({"q": ["a", "b"], "r": ["a"]}, {"q": ["b"], "s": ["x"]}) == 2
    assert count_new({}, {"q": ["b"]}) == 0
