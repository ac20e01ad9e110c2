"""Points of curves against values worked out by hand and against the metrics."""

from __future__ import annotations

import numpy as np
import pytest

from muvr_train.benchmarks.types import Judgement
from muvr_train.metrics.functional import micro_average_precision, ranking_metrics
from muvr_train.metrics.ranks import Ties, rank_positives, rank_rows
from muvr_train.reports.curves import (
    Curve,
    log_spaced,
    precision_histogram,
    precision_recall,
    recall_over_k,
    thin,
)
from muvr_train.search.judged import JudgedScores


def judged_of(scores: np.ndarray, relevance: np.ndarray, n_positive: np.ndarray | None = None) -> JudgedScores:
    queries, database = relevance.shape
    found = (relevance == 1).sum(axis=1)
    return JudgedScores(
        tuple(Judgement(f"q{i}", {}) for i in range(queries)),
        tuple(f"v{i}" for i in range(database)),
        scores,
        relevance.astype(np.int8),
        found if n_positive is None else n_positive,
        np.ones(queries, dtype=bool),
    )


def random_case(seed: int, ties: bool) -> JudgedScores:
    rng = np.random.default_rng(seed)
    scores = rng.random((12, 90)).astype(np.float32)
    relevance = (rng.random((12, 90)) < 0.1).astype(np.int8)
    relevance[:, 0] = -1
    return judged_of(np.round(scores, 1) if ties else scores, relevance, (relevance == 1).sum(axis=1) + 1)


def pr(judged: JudgedScores, ties: Ties = "average") -> Curve:
    pooled = rank_positives(judged.scores.ravel(), judged.relevance.ravel())
    return precision_recall(pooled, int(judged.n_positive.sum()), ties)


def area(curve: Curve) -> float:
    return float((np.diff(curve.x, prepend=0.0) * curve.y).sum())


def test_the_steps_of_a_ranking_of_four() -> None:
    """Match, no match, match, no match; a third match was never scored."""
    judged = judged_of(np.array([[0.9, 0.8, 0.7, 0.6]]), np.array([[1, 0, 1, 0]]), np.array([3]))
    curve = pr(judged)
    assert curve.x.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert curve.y.tolist() == pytest.approx([1, 2 / 3])


def test_a_tie_is_one_step_of_its_expected_precision() -> None:
    """Of two tied videos one is a match: first with precision 1, or second with precision 1/2."""
    judged = judged_of(np.array([[0.5, 0.5]]), np.array([[1, 0]]))
    assert pr(judged).y.tolist() == [0.75]
    assert pr(judged, "optimistic").y.tolist() == [1.0]
    assert pr(judged, "pessimistic").y.tolist() == [0.5]


@pytest.mark.parametrize("ties", ["average", "optimistic", "pessimistic"])
@pytest.mark.parametrize("tied", [False, True])
def test_the_area_is_uap(tied: bool, ties: Ties) -> None:
    judged = random_case(3, tied)
    uap = micro_average_precision(judged.scores, judged.relevance, int(judged.n_positive.sum()), ties)
    assert area(pr(judged, ties)) == pytest.approx(uap, abs=1e-12)


def test_thinned_curves_keep_exact_points_and_both_ends() -> None:
    curve = pr(random_case(4, False))
    thinned = thin(curve, 20)
    assert len(thinned.x) <= 20
    assert {thinned.x[0], thinned.x[-1]} == {curve.x[0], curve.x[-1]}
    assert set(zip(thinned.x, thinned.y, strict=True)) < set(zip(curve.x, curve.y, strict=True))
    assert np.diff(thinned.x).min() > 0
    assert thin(curve, 5000) is curve


def test_no_positive_gives_an_empty_curve() -> None:
    judged = judged_of(np.array([[0.5, 0.4]]), np.array([[0, 0]]))
    assert len(pr(judged).x) == 0
    groups = rank_rows(judged.scores, judged.relevance)
    assert recall_over_k(groups, judged, "average", [1, 2]).y.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("tied", [False, True])
def test_recall_over_k_is_recall_at_k(tied: bool) -> None:
    judged = random_case(5, tied)
    judged.counted[2] = False
    ks = [1, 3, 17, 89, 200]
    expected = ranking_metrics(judged.scores, judged.relevance, judged.n_positive, ks)
    curve = recall_over_k(rank_rows(judged.scores, judged.relevance), judged, "average", ks)
    assert curve.x.tolist() == ks
    assert curve.y.tolist() == pytest.approx([expected[f"recall@{k}"][judged.counted].mean() for k in ks])


def test_the_ks_of_a_curve() -> None:
    assert log_spaced(1) == [1]
    assert log_spaced(0) == [1]
    ks = log_spaced(225_960)
    assert ks[0] == 1
    assert ks[-1] == 225_960
    assert len(ks) <= 120


def test_the_histogram_counts_counted_queries_of_its_mode() -> None:
    lines = [
        {"mode": "v", "counted": True, "AP": 1.0},
        {"mode": "v", "counted": True, "AP": 1.0000000002},
        {"mode": "v", "counted": True, "AP": 0.0},
        {"mode": "v", "counted": False, "AP": 0.0},
        {"mode": "t", "counted": True, "AP": 0.5},
    ]
    curve = precision_histogram(lines, "v", bins=4)
    assert curve.x.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert curve.y.tolist() == [1, 0, 0, 2]
