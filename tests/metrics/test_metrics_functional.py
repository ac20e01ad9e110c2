"""Ranking metrics against hand-worked values, slow twins and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.errors import ConfigError, DataError
from muvr_train.metrics.functional import average_precision, micro_average_precision, ranking_metrics
from tests.reference import metrics as slow

KS = (1, 2, 3, 5, 9)
POLICIES = ("average", "optimistic", "pessimistic")


@st.composite
def rankings(draw, most=8):
    size = draw(st.integers(1, most))
    relevance = draw(st.lists(st.sampled_from([1, 0, 0, -1]), min_size=size, max_size=size))
    scores = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    missing = draw(st.integers(0, 3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return np.array(scores, dtype=dtype) / 3, np.array(relevance, dtype=np.int8), missing


@settings(max_examples=150, deadline=None)
@given(rankings(), st.sampled_from(POLICIES))
def test_every_metric_equals_the_slow_twin_over_all_orders_of_ties(ranking, ties):
    scores, relevance, missing = ranking
    n_positive = int((relevance == 1).sum()) + missing
    fast = ranking_metrics(scores[None], relevance[None], np.array([n_positive]), KS, ties)
    expected = slow.metrics(scores.tolist(), relevance.tolist(), n_positive, KS, ties)
    assert set(fast) == set(expected)
    for name, value in expected.items():
        assert fast[name][0] == pytest.approx(value, abs=1e-12), name


@settings(max_examples=50, deadline=None)
@given(rankings(), st.sampled_from(POLICIES))
def test_single_and_pooled_average_precision_agree_with_the_rows(ranking, ties):
    scores, relevance, missing = ranking
    n_positive = int((relevance == 1).sum()) + missing
    row = ranking_metrics(scores[None], relevance[None], np.array([n_positive]), KS, ties)["AP"][0]
    assert average_precision(scores, relevance, n_positive, ties) == pytest.approx(row, abs=1e-15)
    halves = scores.reshape(1, -1), relevance.reshape(1, -1)
    assert micro_average_precision(*halves, n_positive, ties) == pytest.approx(row, abs=1e-15)


def test_policies_are_ordered_and_average_lies_between():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (20, 60)).astype(np.float32)
    relevance = (rng.random((20, 60)) < 0.2).astype(np.int8)
    low, mean, high = (ranking_metrics(scores, relevance, None, KS, ties) for ties in ("pessimistic", *POLICIES[:2]))
    for name in mean:
        assert (low[name] <= mean[name] + 1e-12).all()
        assert (mean[name] <= high[name] + 1e-12).all()
    assert (high["AP"] - low["AP"]).min() > 0.1


def test_micro_average_precision_pools_rows():
    scores = np.array([[0.9, 0.1], [0.8, 0.7]])
    relevance = np.array([[1, 1], [0, 1]])
    # pooled order: + - + +
    assert micro_average_precision(scores, relevance) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert micro_average_precision(scores, relevance, 6) == pytest.approx((1 + 2 / 3 + 3 / 4) / 6)


def test_all_tied_average_precision_by_hand():
    # one positive among n at equal scores: mean of 1 / rank = H_n / n
    scores, relevance = np.zeros(5), np.array([0, 0, 1, 0, 0])
    assert average_precision(scores, relevance) == pytest.approx(sum(1 / i for i in range(1, 6)) / 5)
    assert average_precision(scores, relevance, ties="optimistic") == 1
    assert average_precision(scores, relevance, ties="pessimistic") == pytest.approx(1 / 5)


def test_a_large_tie_keeps_its_digits():
    # r of m all tied: E[AP] = (c m + (1 - c) H_m) / m with c = (r - 1) / (m - 1)
    size, positives = 200_000, 300
    relevance = np.zeros(size, dtype=np.int8)
    relevance[:positives] = 1
    slope = (positives - 1) / (size - 1)
    harmonic = math.fsum(1 / i for i in range(1, size + 1))
    value = average_precision(np.zeros(size, dtype=np.float32), relevance)
    assert value == pytest.approx((slope * size + (1 - slope) * harmonic) / size, rel=1e-12)


def test_no_positive_gives_zero_and_only_positives_give_one():
    scores = np.array([[0.1, 0.2, 0.3]])
    none = ranking_metrics(scores, np.array([[0, 0, -1]]), None, (1, 7))
    assert all(values[0] == 0 for values in none.values())
    every = ranking_metrics(scores, np.array([[1, 1, 1]]), None, (1, 7))
    assert {name: values[0] for name, values in every.items() if name != "precision@7"} == {
        "AP": 1,
        "recall@1": pytest.approx(1 / 3),
        "precision@1": 1,
        "hit@1": 1,
        "recall@7": 1,
        "hit@7": 1,
        "MRR": 1,
        "R-precision": 1,
        "nDCG": pytest.approx(1),
    }
    assert every["precision@7"][0] == pytest.approx(3 / 7)


def test_positives_that_are_not_ranked_lower_the_metrics():
    values = ranking_metrics(np.array([[0.9, 0.5]]), np.array([[1, 0]]), np.array([4]), (1, 2))
    assert values["AP"][0] == 0.25
    assert values["recall@2"][0] == 0.25
    assert values["R-precision"][0] == 0.25
    assert values["hit@1"][0] == 1
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, 5))
    assert values["nDCG"][0] == pytest.approx(1 / ideal)


@pytest.mark.parametrize("shape", [(2, 0), (0, 5), (0, 0)])
def test_empty_database_or_no_query(shape):
    values = ranking_metrics(np.zeros(shape), np.zeros(shape, dtype=np.int8), np.full(shape[0], 3), (1, 5))
    assert all(array.shape == (shape[0],) and (array == 0).all() for array in values.values())
    assert micro_average_precision(np.zeros(shape), np.zeros(shape, dtype=np.int8), 3) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_named(bad):
    scores = np.zeros((3, 4), dtype=np.float32)
    scores[1, 2] = bad
    relevance = np.zeros((3, 4), dtype=np.int8)
    with pytest.raises(DataError, match="row 1, column 2"):
        ranking_metrics(scores, relevance)
    with pytest.raises(DataError, match="row 1, column 2"):
        micro_average_precision(scores, relevance)
    relevance[1, 2] = -1
    assert ranking_metrics(scores, relevance)["AP"].tolist() == [0, 0, 0]


def test_arguments_that_do_not_fit_are_refused():
    scores, relevance = np.zeros((1, 2)), np.array([[1, 1]])
    with pytest.raises(ConfigError, match="ties=random"):
        ranking_metrics(scores, relevance, ties="random")
    with pytest.raises(ValueError, match="n_positive is 1"):
        ranking_metrics(scores, relevance, np.array([1]))
    with pytest.raises(ValueError, match="same"):
        ranking_metrics(scores, relevance[:, :1])
    with pytest.raises(ValueError, match="float16"):
        ranking_metrics(scores.astype(np.float16), relevance)
    with pytest.raises(ValueError, match="relevance"):
        ranking_metrics(scores, relevance * 2)
    with pytest.raises(ValueError, match="relevance"):
        ranking_metrics(scores, relevance * 0.5)
