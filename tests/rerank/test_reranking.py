"""Reranking of scores: hand-worked cases, the slow twin, and what must hold for any scores and answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Judgement
from muvr_train.metrics.aggregate import PartitionMetrics, evaluate_partition
from muvr_train.rerank.reranking import REORDER, by_probability, keep_drop, top_pairs, true_answers
from muvr_train.search.judged import JudgedScores
from tests.reference import reranking as slow

NAN = float("nan")
METHODS = sorted(REORDER)


def judged_of(scores: object, relevance: object, database: tuple[str, ...] | None = None) -> JudgedScores:
    values, labels = np.array(scores, dtype=np.float32), np.array(relevance, dtype=np.int8)
    names = database or tuple(f"v{place}" for place in range(values.shape[1]))
    rows = tuple(Judgement(f"q{row}", {}) for row in range(len(values)))
    n_positive = (labels == 1).sum(axis=1)
    return JudgedScores(rows, names, values, labels, n_positive, np.ones(len(values), dtype=bool))


def metrics_of(judged: JudgedScores, ks: tuple[int, ...] = (1, 2, 3)) -> PartitionMetrics:
    return evaluate_partition(judged.scores, judged.relevance, judged.n_positive, judged.counted, ks=ks)


def order_of(judged: JudgedScores, row: int) -> list[str]:
    found = zip(judged.database, judged.scores[row].tolist(), judged.relevance[row].tolist(), strict=True)
    return slow.ranking({video: score if label >= 0 else None for video, score, label in found})


def answers_of(top: list[NDArray[np.int64]], values: dict[int, list[float]] | None = None) -> list[NDArray[np.float64]]:
    return [np.array((values or {}).get(row, [NAN] * len(columns))) for row, columns in enumerate(top)]


def test_the_top_is_the_best_ranked_without_the_own_video_and_with_ties_by_id() -> None:
    judged = judged_of(
        [[0.9, 0.5, 0.7, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5]],
        [[-1, 0, 1, 0, 0], [0, 0, 0, 0, -1]],
        ("own", "c", "x", "a", "b"),
    )
    assert [[judged.database[column] for column in columns] for columns in top_pairs(judged, 3)] == [
        ["x", "a", "b"],
        ["a", "x", "c"],
    ]
    assert [len(columns) for columns in top_pairs(judged, 100)] == [4, 4]
    assert [columns.tolist() for columns in top_pairs(judged, 1)] == [[2], [3]]


def test_a_query_with_fewer_ranked_videos_and_one_with_none() -> None:
    judged = judged_of([[0.3, 0.2, 0.1], [0.1, 0.2, 0.3]], [[-1, -1, 0], [-1, -1, -1]])
    top = top_pairs(judged, 2)
    assert [columns.tolist() for columns in top] == [[2], []]
    for method in REORDER.values():
        changed = method(judged, top, true_answers(judged, top))
        assert order_of(changed, 0) == ["v2"]
        assert changed.scores[0, 0] == np.float32(0.3)


def test_scores_that_are_not_finite_are_never_asked_about() -> None:
    judged = judged_of([[NAN, -np.inf, 0.5, np.inf, 0.1]], [[0, 0, 0, 0, 1]])
    top = top_pairs(judged, 5)
    assert [columns.tolist() for columns in top] == [[2, 4]]
    for method in REORDER.values():
        changed = method(judged, top, [np.array([0.0, 1.0])])
        assert changed.scores[0, 4] > changed.scores[0, 2]
        np.testing.assert_array_equal(changed.scores[0, [0, 1, 3]], judged.scores[0, [0, 1, 3]])


def test_keep_drop_by_hand() -> None:
    """Two rows of five: the dropped end below all pairs of both rows, in their old order; all else as before."""
    judged = judged_of([[0.9, 0.8, 0.7, 0.6, 0.5], [-0.5, -0.1, 0.2, 0.3, 0.4]], [[0, 1, 0, 1, 0], [0, 1, 0, 0, 0]])
    top = top_pairs(judged, 3)
    changed = keep_drop(judged, top, [np.array([0.0, 1.0, 0.0]), np.array([NAN, 0.0, 1.0])])
    assert order_of(changed, 0) == ["v1", "v3", "v4", "v0", "v2"]
    assert order_of(changed, 1) == ["v4", "v2", "v1", "v0", "v3"]
    low = {changed.scores[0, 0], changed.scores[0, 2], changed.scores[1, 3]}
    assert max(low) < judged.scores.min()
    assert sorted(low, reverse=True) == [changed.scores[0, 0], changed.scores[0, 2], changed.scores[1, 3]]
    values = metrics_of(changed)
    assert values.per_query["AP"].tolist() == pytest.approx([(1 / 1 + 2 / 2) / 2, 1 / 3])
    # pooled: row 0 v1 (hit), v3 (hit), v4; row 1 v4, v2, v1 (hit at rank 6): (1 + 1 + 3/6) / 3
    assert values.metrics["uAP"] == pytest.approx((1 + 1 + 3 / 6) / 3)


def test_keep_drop_below_negative_scores_and_where_all_are_equal() -> None:
    for value in (-1e6, 0.0, 0.25, 3e12):
        judged = judged_of([[value] * 3], [[0, 1, 0]])
        changed = keep_drop(judged, top_pairs(judged, 2), [np.array([0.0, 1.0])])
        assert changed.scores[0, 0] < changed.scores[0, 1] == changed.scores[0, 2] == np.float32(value)


def test_a_probability_of_one_half_drops_nothing() -> None:
    judged = judged_of([[0.9, 0.8]], [[0, 1]])
    top = top_pairs(judged, 2)
    assert order_of(keep_drop(judged, top, [np.array([0.5, 0.7])]), 0) == ["v0", "v1"]


def test_probability_by_hand() -> None:
    """Rank 2 failed and keeps its place; the other three share ranks 1, 3 and 4; rank 5 was not asked."""
    judged = judged_of([[0.9, 0.8, 0.7, 0.6, 0.5]], [[0, 0, 1, 1, 0]])
    changed = by_probability(judged, top_pairs(judged, 4), [np.array([0.2, NAN, 0.2, 0.9])])
    assert order_of(changed, 0) == ["v3", "v1", "v0", "v2", "v4"]
    assert changed.scores[0].tolist() == [float(np.float32(s)) for s in (0.7, 0.8, 0.6, 0.9, 0.5)]
    assert metrics_of(changed).metrics["mAP"] == pytest.approx((1 / 1 + 2 / 4) / 2)


def test_answers_that_differ_part_equal_scores() -> None:
    judged = judged_of([[0.5, 0.5, 0.5, 0.5, 0.5]], [[0, 1, 1, 0, 0]])
    top = top_pairs(judged, 4)
    changed = by_probability(judged, top, [np.array([0.1, 0.9, 0.9, NAN])])
    a, b, c, failed, rest = changed.scores[0]
    assert b == c > a == failed == rest == 0.5
    assert b - a < 1e-15
    assert metrics_of(changed).metrics["mAP"] == pytest.approx(1.0)
    same = by_probability(judged, top, [np.array([0.3, 0.3, 0.3, 0.3])])
    np.testing.assert_array_equal(same.scores, judged.scores)


def test_a_failed_pair_between_equal_scores_hides_no_difference() -> None:
    judged = judged_of([[0.5, 0.5, 0.5]], [[0, 0, 1]])
    first, failed, last = by_probability(judged, top_pairs(judged, 3), [np.array([0.1, NAN, 0.9])]).scores[0, [2, 1, 0]]
    assert first > failed == last


WORLDS = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**31), st.booleans())


def world(sizes: tuple[int, int, int, int, bool]) -> tuple[JudgedScores, int, np.random.Generator]:
    """Scores with or without ties, every relevance there is, and rows without positives."""
    rows, videos, k, seed, tied = sizes
    rng = np.random.default_rng(seed)
    if tied:
        scores = rng.integers(-2, 3, (rows, videos)) / 4
    else:
        scores = rng.permutation(rows * videos).reshape(rows, videos) / (rows * videos) - 0.5
    names = tuple(rng.permutation([f"v{place}" for place in range(videos)]).tolist())
    return judged_of(scores, rng.integers(-1, 2, (rows, videos)), names), k, rng


def draw_answers(rng: np.random.Generator, top: list[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
    return [rng.choice([NAN, 0.0, 0.25, 0.75, 1.0], len(columns)) for columns in top]


@given(WORLDS)
def test_the_slow_twin_gives_the_same_orders(sizes: tuple[int, int, int, int, bool]) -> None:
    judged, k, rng = world((*sizes[:4], False))
    top = top_pairs(judged, k)
    yes = draw_answers(rng, top)
    dropped, sorted_ = keep_drop(judged, top, yes), by_probability(judged, top, yes)
    for row, (columns, answers) in enumerate(zip(top, yes, strict=True)):
        known = {
            judged.database[column]: value
            for column, value in zip(columns.tolist(), answers.tolist(), strict=True)
            if not np.isnan(value)
        }
        order = order_of(judged, row)
        assert [judged.database[column] for column in columns] == order[:k]
        words = {video: "no" if value < 0.5 else "yes" for video, value in known.items()}
        assert order_of(dropped, row) == slow.dropped(order, k, words)
        assert order_of(sorted_, row) == slow.sorted_by(order, k, known)


@pytest.mark.parametrize("method", METHODS)
@given(WORLDS)
def test_where_nothing_is_known_nothing_changes(method: str, sizes: tuple[int, int, int, int, bool]) -> None:
    judged, k, _ = world(sizes)
    top = top_pairs(judged, k)
    for value in (NAN, 1.0):
        changed = REORDER[method](judged, top, [np.full(len(columns), value) for columns in top])
        np.testing.assert_array_equal(changed.scores, judged.scores)


@pytest.mark.parametrize("method", METHODS)
@given(WORLDS)
def test_the_order_of_the_input_does_not_matter(method: str, sizes: tuple[int, int, int, int, bool]) -> None:
    """Answers are of pairs: with rows and columns in another order every pair gets the same score."""
    judged, k, rng = world(sizes)
    top = top_pairs(judged, k)
    yes = draw_answers(rng, top)
    said = {
        (row, judged.database[column]): value
        for row, (columns, answers) in enumerate(zip(top, yes, strict=True))
        for column, value in zip(columns.tolist(), answers.tolist(), strict=True)
    }
    rows, columns = rng.permutation(len(judged.scores)), rng.permutation(len(judged.database))
    turned = replace(
        judged,
        judgements=tuple(judged.judgements[row] for row in rows),
        database=tuple(judged.database[column] for column in columns),
        scores=judged.scores[np.ix_(rows, columns)],
        relevance=judged.relevance[np.ix_(rows, columns)],
    )
    other = top_pairs(turned, k)
    again = [
        np.array([said[rows[row], turned.database[column]] for column in found.tolist()])
        for row, found in enumerate(other)
    ]
    before, after = REORDER[method](judged, top, yes), REORDER[method](turned, other, again)
    np.testing.assert_array_equal(before.scores[np.ix_(rows, columns)], after.scores)


@pytest.mark.parametrize("method", METHODS)
@given(WORLDS)
def test_a_perfect_reranker_is_never_worse(method: str, sizes: tuple[int, int, int, int, bool]) -> None:
    """Whole gallery: average precision 1 for every query with a positive; and no other answers are better."""
    judged, k, rng = world(sizes)
    top = top_pairs(judged, k)
    raw = metrics_of(judged).per_query["AP"]
    bound = metrics_of(REORDER[method](judged, top, true_answers(judged, top))).per_query["AP"]
    other = metrics_of(REORDER[method](judged, top, draw_answers(rng, top))).per_query["AP"]
    assert (bound >= raw - 1e-12).all()
    assert (bound >= other - 1e-12).all()
    every = top_pairs(judged, len(judged.database))
    whole = metrics_of(REORDER[method](judged, every, true_answers(judged, every))).per_query["AP"]
    np.testing.assert_allclose(whole, judged.n_positive > 0, atol=1e-12)


@given(WORLDS)
def test_sorting_the_first_k_keeps_recall_at_k_and_the_set_of_scores(sizes: tuple[int, int, int, int, bool]) -> None:
    judged, k, rng = world((*sizes[:4], False))
    top = top_pairs(judged, k)
    changed = by_probability(judged, top, draw_answers(rng, top))
    np.testing.assert_array_equal(np.sort(changed.scores, axis=1), np.sort(judged.scores, axis=1))
    name = f"recall@{k}"
    before, after = (metrics_of(one, (k,)).per_query[name] for one in (judged, changed))
    np.testing.assert_array_equal(before, after)
    perfect = metrics_of(by_probability(judged, top, true_answers(judged, top)), (k,)).per_query
    assert (perfect["AP"] >= before - 1e-12).all()  # the found matches come first: the paper's bound R@k


@given(WORLDS)
def test_equal_scores_are_raised_by_less_than_they_differ(sizes: tuple[int, int, int, int, bool]) -> None:
    """With ties: no score moves by more than rounding, and pairs with differing answers are apart."""
    judged, k, rng = world((*sizes[:4], True))
    top = top_pairs(judged, k)
    yes = draw_answers(rng, top)
    changed = by_probability(judged, top, yes)
    before, after = np.sort(judged.scores, axis=1), np.sort(changed.scores, axis=1)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-14)
    for row, columns, answers in zip(changed.scores, top, yes, strict=True):
        for i, j in ((i, j) for i in range(len(columns)) for j in range(len(columns))):
            if answers[i] > answers[j]:
                assert row[columns[i]] > row[columns[j]]
