"""What must hold for every metric: nothing but the order of the scores matters, and other programs agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.metrics.aggregate import evaluate_partition
from muvr_train.metrics.functional import micro_average_precision, ranking_metrics
from tests.reference import metrics as slow

KS = (1, 2, 5, 30)
POLICIES = ("average", "optimistic", "pessimistic")
STRICTLY_INCREASING = {
    "line": lambda x: 2.5 * x - 7,
    "cube": lambda x: x**3,
    "exp": lambda x: np.exp(x / 8),
    "arctan": np.arctan,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x / 8)),
    "float32": lambda x: x.astype(np.float32) / 3,
}


@st.composite
def partitions(draw, values=20):
    """Whole-numbered scores [Q, N] with ties, relevance, numbers of positives, and which queries are counted."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.integers(-values, values, (rows, columns)).astype(np.float64)
    relevance = rng.choice([1, 0, -1], (rows, columns), p=[0.25, 0.65, 0.1]).astype(np.int8)
    counted = rng.random(rows) < 0.8
    counted[rng.integers(rows)] = True
    return scores, relevance, (relevance == 1).sum(axis=1) + rng.integers(0, 3, rows), counted


def assert_same(one, other, rows=slice(None), digits=1e-13):
    assert one.counts == other.counts
    assert one.exceeding == other.exceeding
    assert list(one.metrics) == list(other.metrics)
    for name, value in one.metrics.items():
        assert other.metrics[name] == pytest.approx(value, abs=digits), name
    for name, values in one.per_query.items():
        np.testing.assert_array_equal(values[rows], other.per_query[name], err_msg=name)


@given(partitions(), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_order_of_queries_and_of_the_database_changes_nothing(partition, ties, random):
    scores, relevance, n_positive, counted = partition
    rows, columns = (np.array(random.sample(range(size), size)) for size in scores.shape)
    mixed = np.ix_(rows, columns)
    whole = evaluate_partition(*partition, KS, ties)
    assert_same(
        whole, evaluate_partition(scores[mixed], relevance[mixed], n_positive[rows], counted[rows], KS, ties), rows
    )


@given(partitions(), st.sampled_from(POLICIES), st.sampled_from(sorted(STRICTLY_INCREASING)))
def test_strictly_increasing_transforms_change_nothing(partition, ties, name):
    scores, *rest = partition
    mapped = STRICTLY_INCREASING[name](scores)
    assert len(np.unique(mapped)) == len(np.unique(scores)), "the transform made or broke a tie"
    assert_same(evaluate_partition(scores, *rest, KS, ties), evaluate_partition(mapped, *rest, KS, ties), digits=0)


@given(partitions(), st.sampled_from(POLICIES), st.integers(1, 5))
def test_queries_may_come_in_chunks(partition, ties, size):
    scores, relevance, n_positive, counted = partition
    whole = evaluate_partition(*partition, KS, ties)
    chunks = [slice(start, start + size) for start in range(0, len(scores), size)]
    parts = [ranking_metrics(scores[chunk], relevance[chunk], n_positive[chunk], KS, ties) for chunk in chunks]
    for name, values in whole.per_query.items():
        np.testing.assert_array_equal(values, np.concatenate([part[name] for part in parts]), err_msg=name)
        expected = values[counted].mean()
        assert whole.metrics["mAP" if name == "AP" else name] == pytest.approx(expected, abs=1e-13)


@given(partitions(), st.sampled_from(POLICIES))
def test_unjudged_items_are_as_if_they_were_not_there(partition, ties):
    scores, relevance, n_positive, _ = partition
    whole = ranking_metrics(scores, relevance, n_positive, KS, ties)
    for row, judged in enumerate(relevance >= 0):
        alone = ranking_metrics(scores[[row]][:, judged], relevance[[row]][:, judged], n_positive[[row]], KS, ties)
        for name, values in whole.items():
            assert alone[name][0] == values[row], name


@settings(max_examples=40)
@given(partitions(values=3), st.sampled_from(POLICIES))
def test_partition_equals_the_slow_twin(partition, ties):
    scores, relevance, n_positive, counted = (values[:3] for values in partition)
    scores, relevance = scores[:, :7], relevance[:, :7]
    n_positive = np.maximum(n_positive, (relevance == 1).sum(axis=1))
    counted[0] = True
    part = evaluate_partition(scores, relevance, n_positive, counted, KS, ties)
    rows = [
        slow.metrics(row.tolist(), labels.tolist(), int(number), KS, ties)
        for row, labels, number in zip(scores, relevance, n_positive, strict=True)
    ]
    for name, values in part.per_query.items():
        np.testing.assert_allclose(values, [row[name] for row in rows], atol=1e-12, err_msg=name)
    pooled = slow.pooled_average_precision(scores, relevance, int(n_positive.sum()), ties)
    assert part.metrics["uAP"] == pytest.approx(pooled, abs=1e-12)


@settings(max_examples=40)
@given(partitions(), st.sampled_from(POLICIES))
def test_scikit_learn_agrees_where_no_scores_tie(partition, ties):
    from sklearn.metrics import average_precision_score, ndcg_score

    scores, relevance, _, _ = partition
    rng = np.random.default_rng(int(scores.sum()) % 1000)
    scores = rng.permutation(scores.size).reshape(scores.shape).astype(np.float64)
    rows = ranking_metrics(scores, relevance, None, KS, ties)
    judged = relevance >= 0
    for row, kept in enumerate(judged):
        labels, values = relevance[row, kept], scores[row, kept]
        if labels.any():
            assert rows["AP"][row] == pytest.approx(average_precision_score(labels, values), abs=1e-12)
        if labels.any() and len(labels) > 1:
            assert rows["nDCG"][row] == pytest.approx(ndcg_score(labels[None], values[None]), abs=1e-12)
    if relevance[judged].any():
        pooled = average_precision_score(relevance[judged], scores[judged])
        assert micro_average_precision(scores, relevance, None, ties) == pytest.approx(pooled, abs=1e-12)
