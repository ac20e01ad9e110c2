"""Bootstrap over search topics: how far a metric of a partition could have been otherwise with other topics.

Queries of one topic share their matches, so they are not independent: whole topics are drawn, with replacement, and a
drawn topic brings all its queries. Every partition is resampled by itself (stratified); a resampled mean over
partitions is the mean of their resampled values. Intervals are the percentiles of the resampled values (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.ranks import Counts, Floats, Ties

BLOCK = 1 << 20
"""Numbers per temporary array of a pooled resample: bounds memory, changes no result."""


@dataclass(frozen=True)
class TopicDraws:
    """Resamples of the topics of one partition.

    Attributes:
        topics: T names, sorted.
        row_topic: int64 [R], the topic of each row (query) by its place in `topics`.
        weights: float64 [T, B], how often each topic is in each of B resamples; every column sums to T.
    """

    topics: tuple[str, ...]
    row_topic: Counts
    weights: Floats

    def sums(self, values: NDArray[Any]) -> Floats:
        """Sum per topic: [..., R] -> [..., T]."""
        member = self.row_topic[:, None] == np.arange(len(self.topics))
        return np.asarray(np.asarray(values, dtype=np.float64) @ member)


def draw_topics(row_topics: Sequence[str], resamples: int, seed: int = 0) -> TopicDraws:
    """Draw topics with replacement.

    The draws depend on the seed and on the set of topics only. So two runs on the same queries are resampled alike
    (paired), and so are partitions that share their queries.

    Args:
        row_topics: [R] the topic of each row.
        resamples: B.
        seed: of the draws.
    """
    topics = tuple(sorted(set(row_topics)))
    place = {topic: index for index, topic in enumerate(topics)}
    digest = hashlib.blake2b("\n".join(topics).encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    size = len(topics)
    weights = rng.multinomial(size, np.full(size, 1 / max(size, 1)), size=resamples).T
    row_topic = np.array([place[topic] for topic in row_topics], dtype=np.int64)
    return TopicDraws(topics, row_topic, weights.astype(np.float64))


def resampled_means(values: NDArray[Any], counted: NDArray[np.bool_], draws: TopicDraws) -> Floats:
    """The mean over the counted queries of every resample.

    Args:
        values: [M, R], one line per metric.
        counted: bool [R].
        draws: topics of the R rows.

    Returns:
        float64 [M, B]; NaN where no query of a resample is counted.
    """
    counted = np.asarray(counted, dtype=bool)
    totals = draws.sums(np.where(counted, values, 0.0)) @ draws.weights
    number = draws.sums(counted) @ draws.weights
    return np.divide(totals, number, out=np.full_like(totals, np.nan), where=number > 0)


def resampled_uap(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any],
    draws: TopicDraws,
    ties: Ties = "average",
) -> Floats:
    """The micro average precision of every resample, exactly as if its queries were pooled and ranked anew.

    For every distinct score that a positive has, the items above it and beside it are counted per topic, once. A
    resample weights these counts, so all resamples are one matrix product. A topic that is drawn twice ties with
    itself, and is resolved as `ties` says, like every tie.

    Args:
        scores: [R, N] float32 or float64.
        relevance: [R, N] in {1, 0, -1}.
        n_positive: [R] positives of each row, found or not.
        draws: topics of the R rows.
        ties: Tie policy.

    Returns:
        float64 [B]; NaN where a resample has no positive.
    """
    scores, relevance = np.asarray(scores), np.asarray(relevance)
    members = [draws.row_topic == topic for topic in range(len(draws.topics))]
    judged = [np.sort(scores[rows][relevance[rows] >= 0]) for rows in members]
    matches = [np.sort(scores[rows][relevance[rows] == 1]) for rows in members]
    values = np.unique(scores[relevance == 1])[::-1]
    total, before = np.zeros((2, draws.weights.shape[1]))
    step = max(1, BLOCK // max(draws.weights.shape))
    for first in range(0, len(values), step):
        block = values[first : first + step]
        reach, start = _at_or_above(judged, block), _above(judged, block)
        found = _at_or_above(matches, block) - _above(matches, block)
        size, positives = _weighted(reach - start, draws.weights), _weighted(found, draws.weights)
        ahead = before + np.cumsum(positives, axis=0) - positives
        total += _precision_sums(start @ draws.weights, size, positives, ahead, ties).sum(axis=0)
        before = before + positives.sum(axis=0)
    divisors = draws.sums(n_positive) @ draws.weights
    return np.divide(total, divisors, out=np.full_like(total, np.nan), where=divisors > 0)


def resample_partition(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any],
    counted: NDArray[np.bool_],
    per_query: Mapping[str, Floats],
    draws: TopicDraws,
    ties: Ties = "average",
    pooled: bool = True,
) -> dict[str, Floats]:
    """The resampled mAP, uAP and recall@k of a partition.

    Args:
        scores: [R, N] float32 or float64.
        relevance: [R, N] in {1, 0, -1}.
        n_positive: [R].
        counted: bool [R].
        per_query: name -> [R], of `PartitionMetrics`.
        draws: topics of the R rows.
        ties: Tie policy.
        pooled: With uAP; False where scores of different rows cannot be compared.

    Returns:
        Name -> float64 [B]. Empty where fewer than two topics have a counted query: one topic says nothing about
        others.
    """
    if np.count_nonzero(draws.sums(counted)) < 2:
        return {}
    names = [name for name in per_query if name == "AP" or name.startswith("recall@")]
    means = resampled_means(np.stack([per_query[name] for name in names]), counted, draws)
    resampled = {"mAP" if name == "AP" else name: values for name, values in zip(names, means, strict=True)}
    if pooled:
        resampled["uAP"] = resampled_uap(scores, relevance, n_positive, draws, ties)
    return resampled


def interval(resampled: Floats, level: float = 0.95) -> list[float] | None:
    """The percentile interval [low, high] of resampled values; undefined ones (NaN) are left out, None if all are."""
    known, tail = resampled[~np.isnan(resampled)], 50 * (1 - level)
    return [float(value) for value in np.percentile(known, [tail, 100 - tail])] if len(known) else None


def undefined(resampled: Floats) -> str:
    """Say how many resampled values are undefined and so not in the interval; "" where none is."""
    number = int(np.isnan(resampled).sum())
    return f"{number} of {len(resampled)} resamples have no counted query or no match; left out" if number else ""


def _above(ranked: Sequence[NDArray[Any]], values: NDArray[Any]) -> Floats:
    """Items with a higher score: [G, T] for G values and T ascending arrays."""
    return np.stack([len(row) - np.searchsorted(row, values, side="right") for row in ranked], axis=1).astype(float)


def _at_or_above(ranked: Sequence[NDArray[Any]], values: NDArray[Any]) -> Floats:
    return np.stack([len(row) - np.searchsorted(row, values, side="left") for row in ranked], axis=1).astype(float)


def _weighted(counts: Floats, weights: Floats) -> Floats:
    """`counts @ weights`, where most lines of counts [G, T] are a single 1."""
    alone = counts.sum(axis=1) == 1
    product: Floats = weights[counts.argmax(axis=1)]
    if not alone.all():
        product[~alone] = counts[~alone] @ weights
    return product


def _precision_sums(start: Floats, size: Floats, positives: Floats, before: Floats, ties: Ties) -> Floats:
    """The (expected) sum of precisions in each tie; see `functional.average_precision` for the formula.

    A tie of positives only gives sum_i (b + i) / (s + i) = r + (b - s) (H_{s+r} - H_s), and so does one whose positives
    all stand first (optimistic) or, with s + m - r for s, last (pessimistic).
    """
    others = size - positives
    if ties == "pessimistic":
        start = start + others
    precision = positives + (before - start) * harmonic_difference(start, positives)
    mixed = others.any(axis=1)
    if ties == "average" and mixed.any():
        s, m, r, b = start[mixed], size[mixed], positives[mixed], before[mixed]
        slope = np.where(m > 1, (r - 1) / np.maximum(m - 1, 1), 0.0)
        spread = harmonic_difference(s, m)
        precision[mixed] = r / np.maximum(m, 1) * ((b + 1 - (s + 1) * slope) * spread + m * slope)
    return precision


_NEAR = 64
_HARMONIC = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, _NEAR + 1))])


def harmonic_difference(start: Floats, size: Floats) -> Floats:
    """H_{start + size} - H_start of whole numbers, without the cancellation of a plain difference.

    Beyond 64 by H_n = ln x + 0.5772... + 1 / (24 x^2) - 7 / (960 x^4) + O(x^-6), x = n + 1/2; absolute error < 1e-13.

    >>> bool(abs(harmonic_difference(np.array([2.0]), np.array([2.0]))[0] - (1 / 3 + 1 / 4)) < 1e-15)
    True
    """
    end = start + size
    low, high = np.maximum(start, _NEAR) + 0.5, np.maximum(end, _NEAR) + 0.5
    u, v = 1 / (low * low), 1 / (high * high)
    difference = np.log1p((high - low) / low) + (v - u) * (1 / 24 - 7 / 960 * (u + v))
    near = start < _NEAR
    if near.any():
        first, last = start[near].astype(np.int64), np.minimum(end[near], _NEAR).astype(np.int64)
        difference[near] += _HARMONIC[last] - _HARMONIC[first]
    return difference
