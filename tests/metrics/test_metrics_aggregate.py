"""Averages over queries and partitions, and the official program's numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.errors import DataError
from muvr_train.metrics.aggregate import evaluate_partition, mean_over_partitions
from muvr_train.search.judged import relevance_matrix
from tests.reference import metrics as slow

KS = {"per_topic": (200, 500, 1000, 2000), "per_topic_small_k": (1, 5, 10, 50, 100)}


@pytest.fixture(scope="module")
def golden(shared):
    folder = shared / "golden" / "muvr_small"
    with np.load(folder / "scores.npz") as scores:
        return (
            read_muvr(folder / "annotations"),
            json.loads((folder / "golden.json").read_text()),
            {key: scores[key] for key in scores.files},
        )


def evaluate(benchmark, scores, mode, name, ks):
    """Evaluate one partition on the official scores: what has none of them has no features."""
    partition = benchmark[name]
    videos = [f"{name}/{video}" for video in scores[f"{name}/targets"]]
    rows = {f"{name}/{query}": row for row, query in enumerate(scores[f"{name}/queries"])}
    columns = [column for column, video in enumerate(videos) if video in set(partition.database)]
    queries = [query for query in partition.query_ids if query in rows]
    v, t = scores[f"{name}/v"], scores[f"{name}/t"]
    chosen = {"v": v, "t": t, "tv": (v.astype(np.float64) + t) / 2}[mode]
    judgements = [benchmark.judgement_by_query[query] for query in queries]
    relevance = relevance_matrix(queries, [row.positives for row in judgements], [videos[c] for c in columns])
    return queries, evaluate_partition(
        chosen[np.ix_([rows[query] for query in queries], columns)],
        relevance,
        np.array([len(row.positives) for row in judgements]),
        np.array([row.counted for row in judgements]),
        ks,
    )


def ours(name):
    return {"R-Precision": "R-precision"}.get(name, name)


@pytest.mark.parametrize(
    ("section", "mode"), [("toyclip", "v"), ("toyclip", "t"), ("toyclip", "tv"), ("toyclip_split_test", "tv")]
)
@pytest.mark.parametrize("kind", ["per_topic", "per_topic_small_k"])
def test_official_numbers(golden, section, mode, kind):
    benchmark, official, scores = golden
    if section == "toyclip_split_test":
        benchmark = apply_splits(benchmark, "annotation").select("test", "split")
    expected = official[section][mode]
    parts = []
    for name in official["meta"]["topics"]:
        queries, part = evaluate(benchmark, scores, mode, name, KS[kind])
        parts.append(part)
        assert len(expected[kind][name]) == 4 + 3 * len(KS[kind])
        for metric, value in expected[kind][name].items():
            assert part.metrics[ours(metric)] == pytest.approx(value, abs=1e-9), (name, metric)
        found = dict(zip(queries, part.per_query["AP"], strict=True))
        counted = {f"{name}/{query}": value for query, value in expected["average_precision"][name].items()}
        assert counted.keys() == {query for query in found if benchmark.judgement_by_query[query].counted}
        for query, value in counted.items():
            assert found[query] == pytest.approx(value, abs=1e-9)
        assert part.counts["ties"] == 0
    mean = mean_over_partitions(parts)
    if kind == "per_topic":
        for metric, value in expected["average"].items():
            assert mean.metrics[ours(metric)] == pytest.approx(value, abs=1e-9), metric


def test_official_counts(golden):
    benchmark, official, scores = golden
    for name, counts in official["meta"]["counts"].items():
        _, part = evaluate(benchmark, scores, "v", name, (200, 500))
        assert len(benchmark[name].database) == counts["database"]
        assert len(benchmark[name].queries) == counts["queries"]
        assert part.counts["database"] == counts["database_with_features"]
        assert part.counts["queries"] == counts["queries_with_features"]
        assert part.exceeding == (500,)


def random_partition(seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (4, 7)).astype(np.float32)
    relevance = rng.choice([1, 0, -1], (4, 7), p=[0.3, 0.6, 0.1])
    relevance[3] = np.minimum(relevance[3], 0)
    return scores, relevance, (relevance == 1).sum(1)


def test_means_are_over_counted_queries_and_pooled_over_all():
    scores, relevance, found = random_partition()
    n_positive = found + np.array([1, 0, 2, 0])
    counted = np.array([True, True, True, False])
    part = evaluate_partition(scores, relevance, n_positive, counted, (2, 50))
    rows = [
        slow.metrics(row.tolist(), labels.tolist(), int(number), (2, 50), "average")
        for row, labels, number in zip(scores, relevance, n_positive, strict=True)
    ]
    for name, value in part.metrics.items():
        if name != "uAP":
            expected = np.mean([row["AP" if name == "mAP" else name] for row in rows[:3]])
            assert value == pytest.approx(expected, abs=1e-12), name
    flat = scores.ravel() + np.linspace(0, 0.1, scores.size, dtype=np.float32)  # no ties: one order
    untied = flat.reshape(scores.shape)
    pooled = slow.metrics(flat.tolist(), relevance.ravel().tolist(), int(n_positive.sum()), (), "average")["AP"]
    assert evaluate_partition(untied, relevance, n_positive, counted).metrics["uAP"] == pytest.approx(pooled, abs=1e-12)
    assert part.exceeding == (50,)
    assert part.counts["counted_queries"] == 3
    assert part.counts["positives"] == n_positive.sum()


def test_ties_are_pairs_of_a_positive_and_another_within_a_query():
    scores, relevance, found = random_partition()
    part = evaluate_partition(scores, relevance, found)
    per_row = [slow.tied_pairs(row.tolist(), labels.tolist()) for row, labels in zip(scores, relevance, strict=True)]
    assert part.counts["ties"] == sum(per_row) > 0
    assert part.counts["pooled_ties"] == slow.tied_pairs(scores.ravel().tolist(), relevance.ravel().tolist())


def test_mean_is_plain_over_partitions_of_any_size():
    big = evaluate_partition(np.eye(5), np.eye(5, dtype=int), np.ones(5), ks=(1, 9))
    small = evaluate_partition(np.array([[0.0, 1.0]]), np.array([[1, 0]]), np.ones(1), ks=(1, 9))
    mean = mean_over_partitions([big, small])
    assert mean.metrics["mAP"] == pytest.approx((1 + 0.5) / 2)
    assert mean.counts["queries"] == 6
    assert mean.exceeding == (9,)
    other = evaluate_partition(np.eye(2), np.eye(2, dtype=int), np.ones(2), ks=(1,))
    with pytest.raises(ValueError, match="same metrics"):
        mean_over_partitions([big, other])
    with pytest.raises(ValueError, match="same metrics"):
        mean_over_partitions([])


def test_relevance_follows_the_official_rule():
    columns = ["p/a", "p/b", "p/q", "p/c"]
    matrix = relevance_matrix(["p/q", "p/r"], [{"p/b": "copy", "p/q": "match", "p/gone": "copy"}, {}], columns)
    assert matrix.tolist() == [[0, 1, -1, 0], [0, 0, 0, 0]]


def test_no_counted_query_and_misfits_are_refused():
    scores, relevance = np.eye(2), np.eye(2, dtype=int)
    with pytest.raises(DataError, match="none of the 2 queries"):
        evaluate_partition(scores, relevance, np.ones(2), np.zeros(2, dtype=bool))
    with pytest.raises(DataError, match="none of the 0 queries"):
        evaluate_partition(scores[:0], relevance[:0], np.ones(0))
    with pytest.raises(ValueError, match="n_positive"):
        evaluate_partition(scores, relevance, np.ones(3))
