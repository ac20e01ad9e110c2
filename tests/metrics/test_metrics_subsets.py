"""Metrics of some of the positives against a new ranking without the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.metrics.aggregate import evaluate_partition, mean_over_partitions
from muvr_train.metrics.subsets import evaluate_subset

POLICIES = ("average", "optimistic", "pessimistic")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(POLICIES), st.sampled_from([2, 5, 10**6]), st.booleans())
def test_equal_to_ranking_anew(seed, ties, levels, pooled):
    rng = np.random.default_rng(seed)
    queries, videos = int(rng.integers(1, 6)), int(rng.integers(1, 15))
    scores = rng.integers(0, levels, (queries, videos)).astype(np.float32)
    relevance = rng.choice([1, 0, -1], (queries, videos), p=[0.4, 0.5, 0.1]).astype(np.int8)
    rows, columns = np.nonzero(relevance == 1)
    kept = rng.random(len(rows)) < 0.5
    without = relevance.copy()
    without[rows[~kept], columns[~kept]] = -1
    n_positive = (without == 1).sum(1) + rng.integers(0, 2, queries)
    counted = rng.random(queries) < 0.7
    counted[0] = True
    whole = evaluate_partition(scores, relevance, (relevance == 1).sum(1), ks=(1, 3), ties=ties, pooled=pooled)
    found = evaluate_subset(scores, relevance, whole, kept, n_positive, counted, (1, 3), ties)
    expected = evaluate_partition(scores, without, n_positive, counted, (1, 3), ties, pooled)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-14)
    assert found.counts == expected.counts
    assert found.exceeding == expected.exceeding
    for name, values in expected.per_query.items():
        np.testing.assert_allclose(found.per_query[name], values, rtol=0, atol=1e-14)


def test_a_mean_has_no_rankings():
    scores, relevance = np.eye(2), np.eye(2, dtype=int)
    mean = mean_over_partitions([evaluate_partition(scores, relevance, np.ones(2))])
    with pytest.raises(ValueError, match="no rankings"):
        evaluate_subset(scores, relevance, mean, np.array([True, False]), np.ones(2), np.ones(2, bool), (1,))
