"""Scores at hand as a source: every partition has its own matrix, and what is not there is not asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.evaluation import evaluate_scores
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
