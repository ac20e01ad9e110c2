"""Scores at hand as a source: every partition has its own matrix, and what is not there is not asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.search.held import HeldScores
from muvr_train.search.scores import ScoreMatrix

PART = Partition("news", (Query("q", "news", "news/t"),), (Judgement("q", {"b": "match"}),), ("a", "b", "c"))


def matrix(*scores: float, database: tuple[str, ...] = PART.database) -> ScoreMatrix:
    return ScoreMatrix(("q",), database, np.array([scores]))


def test_tasks_that_share_queries_have_their_own_matrices() -> None:
    tasks = Benchmark("fivr_5k", (PART, replace(PART, name="more", database=("a", "b", "c", "d"))))
    more = matrix(1.0, 0.0, 2.0, 3.0, database=("a", "b", "c", "d"))
    results = evaluate_scores(HeldScores({"v": {"news": matrix(0.0, 1.0, 0.5), "more": more}}), tasks)
    assert results.metrics("v", "news")["mAP"] == 1.0
    assert results.metrics("v", "more")["mAP"] == pytest.approx(1 / 4)


def test_a_partition_without_scores_in_a_mode_is_left_out_of_it() -> None:
    """A cross-fitted mode t has no matrix where no query of the partition has a text."""
    both = Benchmark("muvr_base", (PART, replace(PART, name="mute")))
    right = matrix(0.0, 1.0, 0.5)
    source = HeldScores({"v": {"news": right, "mute": right}, "t": {"news": right}})
    results = evaluate_scores(source, both)
    assert [(row["mode"], row["partition"]) for row in results.rows] == [
        ("v", "news"),
        ("t", "news"),
        ("v", "mute"),
        ("v", "mean"),
        ("t", "mean"),
    ]
    assert results.notes == ["mute: left out of mode t, because no scored query has a text"]
    unknown = HeldScores({"v": {"news": right}, "t": {}})
    with pytest.raises(DataError, match="1 queries and 3 database videos have no scores"):
        evaluate_scores(unknown, both)
    results = evaluate_scores(unknown, both, Protocol(modes=("v",), on_missing="official"))
    assert [row["partition"] for row in results.rows] == ["news", "mean"]
