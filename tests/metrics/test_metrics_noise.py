"""The annotation noise check against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from muvr_train.metrics.functional import ranking_metrics
from muvr_train.metrics.noise import _add, _remove, changed_pairs, noisy_map
from muvr_train.metrics.trapezoids import trapezoid_average_precision


def partition(seed=0, queries=12, videos=200):
    rng = np.random.default_rng(seed)
    relevance = rng.choice([1, 0, -1], (queries, videos), p=[0.2, 0.75, 0.05]).astype(np.int8)
    scores = rng.standard_normal((queries, videos)).astype(np.float32) + 2 * (relevance == 1)
    return scores, relevance, (relevance == 1).sum(1)


def mean_ap(scores, relevance, n_positive):
    return ranking_metrics(scores, relevance, n_positive, ())["AP"].mean()


def test_removed_pairs_leave_the_ranking():
    relevance = np.array([[1, 0, 1, -1], [0, 1, 0, 0]], dtype=np.int8)
    n_positive = np.array([3, 1])  # row 0 has one positive without features
    labels, divisors = _remove(relevance, n_positive, np.array([1, 2, 3]))
    # pairs in order: row 0: columns 0, 2, the one without features; row 1: column 1
    assert labels.tolist() == [[1, 0, -1, -1], [0, -1, 0, 0]]
    assert divisors.tolist() == [1, 0]
    assert relevance[0, 2] == 1  # the input is as it was


def test_added_pairs_become_positives():
    relevance = np.array([[1, 0, 0, -1], [0, 1, 0, 0]], dtype=np.int8)
    labels, divisors = _add(relevance, np.array([1, 1]), np.array([1, 2, 4]))
    # non-matches in order: row 0: columns 1, 2; row 1: columns 0, 2, 3
    assert labels.tolist() == [[1, 0, 1, -1], [1, 1, 0, 1]]
    assert divisors.tolist() == [2, 3]


def test_number_of_changed_pairs():
    assert changed_pairs(np.array([30, 70]), 0.05) == 5
    assert changed_pairs(np.array([1, 1]), 0.05) == 1


@pytest.mark.parametrize("kind", ["noise_remove", "noise_add"])
def test_values_are_seeded_vary_and_stay_near_the_clean_value(kind):
    data = partition()
    clean = mean_ap(*data)
    values = noisy_map(*data, kind)
    assert values.shape == (5,)
    assert len(set(values.tolist())) == 5
    np.testing.assert_array_equal(values, noisy_map(*data, kind))
    assert (values != noisy_map(*data, kind, seed=1)).all()
    assert np.abs(values - clean).max() < 0.08 * clean


def test_added_ones_cost_more_than_dropped_ones():
    data = partition(queries=40, videos=1000)
    clean = mean_ap(*data)
    removed, added = (noisy_map(*data, kind).mean() for kind in ("noise_remove", "noise_add"))
    assert clean - removed < 0.01
    assert added < removed
    assert added < clean - 0.01


def test_a_perfect_ranking_stays_perfect_without_some_positives():
    relevance = np.zeros((4, 30), dtype=np.int8)
    relevance[:, :8] = 1
    scores = np.tile(-np.arange(30.0), (4, 1))
    assert noisy_map(scores, relevance, np.full(4, 8), "noise_remove", 0.25).tolist() == [1.0] * 5


def test_a_query_that_loses_all_positives_leaves_the_mean_and_an_empty_list_counts_as_zero():
    scores = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    relevance = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0]], dtype=np.int8)
    values = noisy_map(scores, relevance, np.array([1, 1, 0]), "noise_remove", 0.5)
    assert values.tolist() == [0.5] * 5  # one perfect query is left beside the empty one


@pytest.mark.parametrize("kind", ["noise_remove", "noise_add"])
def test_average_precision_is_that_of_the_partition(kind):
    scores, relevance, n_positive = partition()
    change, pool = (_remove, n_positive.sum()) if kind == "noise_remove" else (_add, (relevance == 0).sum())
    drawn = np.random.default_rng([0, 0]).choice(int(pool), changed_pairs(n_positive, 0.05), replace=False)
    labels, divisors = change(relevance, n_positive, drawn)
    rows = zip(scores, labels, divisors.tolist(), strict=True)
    expected = np.mean([trapezoid_average_precision(*row) for row in rows])
    found = noisy_map(scores, relevance, n_positive, kind, trapezoids=True)
    assert found[0] == pytest.approx(expected, abs=1e-12)
    assert abs(found[0] - noisy_map(scores, relevance, n_positive, kind)[0]) > 1e-4


def test_where_nothing_can_be_changed_there_are_no_values():
    scores, relevance = np.zeros((2, 3)), np.zeros((2, 3), dtype=np.int8)
    assert len(noisy_map(scores, relevance, np.zeros(2, dtype=int), "noise_add")) == 0
    relevance[0, 0] = 1
    assert len(noisy_map(scores, relevance, np.array([1, 0]), "noise_remove")) == 0
    assert len(noisy_map(scores[:1], relevance[:1], np.array([1]), "noise_add")) == 5
