"""Tie policies of the pooled ranking against brute force over every order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.metrics.aggregate import evaluate_partition
from muvr_train.metrics.functional import micro_average_precision
from tests.reference import metrics as slow

POLICIES = ("average", "optimistic", "pessimistic")


@st.composite
def matrices(draw):
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    size = rows * columns
    labels = draw(st.lists(st.sampled_from([1, 0, 0, -1]), min_size=size, max_size=size))
    scores = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    missing = draw(st.integers(0, 2))
    shape = rows, columns
    return np.array(scores, dtype=np.float32).reshape(shape), np.array(labels, dtype=np.int8).reshape(shape), missing


@settings(max_examples=80, deadline=None)
@given(matrices(), st.sampled_from(POLICIES))
def test_pooled_average_precision_equals_brute_force_over_all_orders(matrix, ties):
    scores, relevance, missing = matrix
    divisors = (relevance == 1).sum(axis=1)
    divisors[0] += missing
    total = int(divisors.sum())
    expected = slow.metrics(scores.ravel().tolist(), relevance.ravel().tolist(), total, (), ties)["AP"]
    assert micro_average_precision(scores, relevance, total, ties) == pytest.approx(expected, abs=1e-12)
    found = evaluate_partition(scores, relevance, divisors, ks=(1,), ties=ties)
    assert found.metrics["uAP"] == pytest.approx(expected, abs=1e-12)
    assert found.counts["pooled_ties"] == slow.tied_pairs(scores.ravel().tolist(), relevance.ravel().tolist())
