"""Resampled metrics against a slow twin that really draws queries, and the intervals' edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.metrics import bootstrap
from muvr_train.metrics.aggregate import evaluate_partition
from muvr_train.metrics.bootstrap import (
    draw_topics,
    harmonic_difference,
    interval,
    resample_partition,
    resampled_means,
    resampled_uap,
)
from muvr_train.metrics.functional import micro_average_precision
from tests.reference import bootstrap as slow

POLICIES = ("average", "optimistic", "pessimistic")


def partition(seed, queries=7, videos=13, topics=3, levels=5):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (queries, videos)).astype(np.float32) / 7
    relevance = rng.choice([1, 0, -1], (queries, videos), p=[0.3, 0.6, 0.1]).astype(np.int8)
    n_positive = (relevance == 1).sum(1) + rng.integers(0, 3, queries)
    row_topics = [f"t{rng.integers(topics)}" for _ in range(queries)]
    return scores, relevance, n_positive, row_topics


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(POLICIES), st.sampled_from([3, 10**6]))
def test_resampled_uap_equals_really_drawing(seed, ties, levels):
    scores, relevance, n_positive, row_topics = partition(seed, levels=levels)
    draws = draw_topics(row_topics, 12, seed % 5)
    fast = resampled_uap(scores, relevance, n_positive, draws, ties)
    np.testing.assert_allclose(fast, slow.uap(scores, relevance, n_positive, draws, ties), rtol=0, atol=1e-12)


@pytest.mark.parametrize("ties", POLICIES)
def test_block_size_changes_nothing(ties, monkeypatch):
    scores, relevance, n_positive, row_topics = partition(3, queries=20, videos=60, topics=6, levels=400)
    draws = draw_topics(row_topics, 30)
    whole = resampled_uap(scores, relevance, n_positive, draws, ties)
    monkeypatch.setattr(bootstrap, "BLOCK", 90)  # three values at a time
    np.testing.assert_allclose(resampled_uap(scores, relevance, n_positive, draws, ties), whole, rtol=0, atol=1e-13)


def test_every_resampled_metric_equals_really_drawing():
    scores, relevance, n_positive, row_topics = partition(1)
    counted = np.array([True, True, False, True, True, True, False])
    draws = draw_topics(row_topics, 25)
    per_query = evaluate_partition(scores, relevance, n_positive, counted, (2, 5)).per_query
    resampled = resample_partition(scores, relevance, n_positive, counted, per_query, draws)
    assert list(resampled) == ["mAP", "recall@2", "recall@5", "uAP"]
    for name in ("mAP", "recall@2", "recall@5"):
        column = "AP" if name == "mAP" else name
        expected = slow.mean(column, scores, relevance, n_positive, counted, (2, 5), draws, "average")
        np.testing.assert_allclose(resampled[name], expected, rtol=0, atol=1e-12)
    without = resample_partition(scores, relevance, n_positive, counted, per_query, draws, pooled=False)
    assert list(without) == ["mAP", "recall@2", "recall@5"]


def test_drawing_every_topic_once_gives_the_metric_itself():
    scores, relevance, n_positive, row_topics = partition(2)
    draws = draw_topics(row_topics, 1)
    draws.weights[:] = 1
    value = micro_average_precision(scores, relevance, int(n_positive.sum()))
    assert resampled_uap(scores, relevance, n_positive, draws)[0] == pytest.approx(value, abs=1e-12)


def test_order_of_queries_and_videos_changes_nothing():
    scores, relevance, n_positive, row_topics = partition(5)
    rows, columns = np.random.default_rng(0).permutation(7), np.random.default_rng(1).permutation(13)
    first = resampled_uap(scores, relevance, n_positive, draw_topics(row_topics, 20))
    draws = draw_topics([row_topics[row] for row in rows], 20)
    other = resampled_uap(scores[rows][:, columns], relevance[rows][:, columns], n_positive[rows], draws)
    np.testing.assert_allclose(first, other, rtol=0, atol=1e-13)


def test_draws_are_of_whole_topics_seeded_and_the_same_for_the_same_topics():
    draws = draw_topics(["b", "a", "b", "ä"], 200, seed=3)
    assert draws.topics == ("a", "b", "ä")
    assert draws.row_topic.tolist() == [1, 0, 1, 2]
    assert (draws.weights.sum(axis=0) == 3).all()
    assert draws.weights.mean() == pytest.approx(1, abs=0.2)
    np.testing.assert_array_equal(draws.weights, draw_topics(["ä", "a", "b"], 200, seed=3).weights)
    assert (draws.weights != draw_topics(["ä", "a", "b"], 200, seed=4).weights).any()
    assert (draws.weights != draw_topics(["x", "a", "b"], 200, seed=3).weights).any()


def test_intervals_by_hand():
    # two topics, AP 0 and 1: a resample has mean 0, 1/2 or 1
    draws = draw_topics(["a", "b"], 2000)
    means = resampled_means(np.array([[0.0, 1.0]]), np.array([True, True]), draws)[0]
    assert set(means.tolist()) == {0.0, 0.5, 1.0}
    assert np.mean(means == 0.5) == pytest.approx(0.5, abs=0.05)
    assert interval(means) == [0.0, 1.0]
    assert interval(np.arange(101.0)) == pytest.approx([2.5, 97.5])
    assert interval(np.array([np.nan, 1.0, 1.0])) == [1.0, 1.0]


def test_one_topic_has_no_resamples():
    scores, relevance, n_positive, _ = partition(4)
    counted = np.ones(7, dtype=bool)
    per_query = evaluate_partition(scores, relevance, n_positive, counted).per_query
    assert resample_partition(scores, relevance, n_positive, counted, per_query, draw_topics(["a"] * 7, 10)) == {}
    topics, counted = ["a"] * 6 + ["b"], np.array([True] * 6 + [False])  # topic b has no counted query
    assert resample_partition(scores, relevance, n_positive, counted, per_query, draw_topics(topics, 10)) == {}


def test_resamples_without_a_counted_query_are_undefined():
    draws = draw_topics(["a", "b", "c"], 300)
    means = resampled_means(np.array([[0.25, 0.75, 0.5]]), np.array([True, True, False]), draws)[0]
    only_c = draws.weights[2] == 3
    assert only_c.any()
    assert np.isnan(means[only_c]).all()
    assert np.isfinite(means[~only_c]).all()
    assert interval(means) == [0.25, 0.75]


def test_resamples_without_a_positive_are_undefined():
    scores, relevance = np.array([[0.9, 0.8], [0.7, 0.6]]), np.array([[0, 1], [0, 0]], dtype=np.int8)
    draws = draw_topics(["a", "b"], 50)
    values = resampled_uap(scores, relevance, np.array([1, 0]), draws)
    np.testing.assert_array_equal(np.isnan(values), draws.weights[0] == 0)
    assert np.isnan(values).any()
    assert values[draws.weights[0] == 1] == pytest.approx(1 / 2)
    nowhere = resampled_uap(scores, np.zeros((2, 2), dtype=np.int8), np.zeros(2, dtype=int), draws)
    assert np.isnan(nowhere).all()
    assert interval(nowhere) is None


@pytest.mark.parametrize(("start", "size"), [(0, 0), (0, 3), (10, 70), (63, 1), (64, 5), (10**6, 3), (5, 10**6)])
def test_harmonic_differences(start, size):
    expected = math.fsum(1 / i for i in range(start + 1, start + size + 1))
    found = harmonic_difference(np.array([float(start)]), np.array([float(size)]))[0]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
