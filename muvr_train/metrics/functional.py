"""Retrieval metrics as pure functions of scores and relevance.

No metric depends on the order of the items. With `ties="average"` (the default) each is its exact expected value when
the items of equal score are shuffled; "optimistic" puts positives first within a tie and "pessimistic" last.

Positives that are not in the ranking (videos without features) are expressed by their absence from the columns and by
an `n_positive` that counts them: they can lower a metric, never raise it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.ranks import Counts, Floats, TieGroups, Ties, check_scores, rank_positives


def average_precision(
    scores: NDArray[Any], relevance: NDArray[Any], n_positive: int | None = None, ties: Ties = "average"
) -> float:
    """Average precision of one ranking: the sum of the precision at each positive, divided by the number of positives.

    Within a tie of m items, r of them positive, after s items with b positives, the item at place i = 1..m is positive
    with probability r / m, and then (i - 1) (r - 1) / (m - 1) of those before it in the tie are expected to be, so the
    expected sum of precisions is, with c = (r - 1) / (m - 1) and harmonic numbers H,

        sum_i r/m (b + 1 + (i - 1) c) / (s + i) = r/m ((b + 1 - (s + 1) c) (H_{s+m} - H_s) + m c).

    Args:
        scores: [N] float32 or float64.
        relevance: [N] in {1, 0, -1}, -1 is left out of the ranking.
        n_positive: Number of positives to divide by, at least those in the ranking; None for those in the ranking.
        ties: Tie policy.

    Returns:
        A value in [0, 1]; 0 where there is no positive.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1]))
    0.8333333333333333
    """
    scores, relevance = np.atleast_2d(scores), np.atleast_2d(relevance)
    check_scores(scores, relevance)
    groups = rank_positives(scores[0], relevance[0])
    return precision_sum(groups.resolve(ties)) / max(checked_positives(groups, n_positive), 1)


def micro_average_precision(
    scores: NDArray[Any], relevance: NDArray[Any], n_positive: int | None = None, ties: Ties = "average"
) -> float:
    """Micro average precision (uAP): the average precision of one ranking of all (query, database video) pairs.

    Args:
        scores: [Q, N] float32 or float64, comparable between queries.
        relevance: [Q, N] in {1, 0, -1}, pairs with -1 are left out.
        n_positive: Number of positive pairs to divide by, at least those in the ranking; None for those in the ranking.
        ties: Tie policy.

    Returns:
        A value in [0, 1]; 0 where there is no positive.
    """
    check_scores(scores, relevance)
    groups = rank_positives(scores.ravel(), relevance.ravel())
    return precision_sum(groups.resolve(ties)) / max(checked_positives(groups, n_positive), 1)


def ranking_metrics(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any] | None = None,
    ks: Sequence[int] = (1, 5, 10, 200, 500, 1000, 2000),
    ties: Ties = "average",
) -> dict[str, Floats]:
    """The metrics of each query.

    Args:
        scores: [Q, N] float32 or float64, higher is better.
        relevance: [Q, N] in {1, 0, -1}, -1 (a query's own video, unjudged ones) is left out of the ranking.
        n_positive: [Q] number of positives to divide by, at least those in the ranking; None for those in the ranking.
        ks: Cut-offs; they may exceed N.
        ties: Tie policy.

    Returns:
        Arrays [Q] in [0, 1], 0 for a query without positives: `AP`; for each k `recall@k` (positives in the first k /
        positives), `precision@k` (/ k, also where fewer items exist), `hit@k` (any positive in the first k); `MRR`
        (1 / rank of the first positive, 0 if none is found); `R-precision` (recall at k = number of positives);
        `nDCG` (gain 1 per positive, discount 1 / log2(1 + rank), over the whole ranking).
    """
    check_scores(scores, relevance)
    groups = [rank_positives(row, judged) for row, judged in zip(scores, relevance, strict=True)]
    wanted = [None] * len(groups) if n_positive is None else [int(number) for number in n_positive]
    divisors = [checked_positives(row, number) for row, number in zip(groups, wanted, strict=True)]
    return metrics_of_groups(groups, divisors, ks, ties)


def metrics_of_groups(
    groups: Sequence[TieGroups], n_positive: Sequence[int], ks: Sequence[int], ties: Ties
) -> dict[str, Floats]:
    """The metrics of `ranking_metrics`, from rankings already made."""
    longest = max([0, *n_positive, *(row.items for row in groups)])
    gain = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, longest + 2)))])
    names = [
        "AP",
        *(f"{name}@{k}" for name in ("recall", "precision", "hit") for k in ks),
        "MRR",
        "R-precision",
        "nDCG",
    ]
    values = {name: np.zeros(len(groups)) for name in names}
    for row, (unresolved, positives) in enumerate(zip(groups, n_positive, strict=True)):
        if not len(unresolved.size):
            continue
        ranking = unresolved.resolve(ties)
        values["AP"][row] = precision_sum(ranking) / positives
        for k in ks:
            hits = expected_hits(ranking, k)
            values[f"recall@{k}"][row] = hits / positives
            values[f"precision@{k}"][row] = hits / k
            values[f"hit@{k}"][row] = hit_probability(ranking, k)
        values["MRR"][row] = reciprocal_rank(ranking)
        values["R-precision"][row] = expected_hits(ranking, positives) / positives
        share = ranking.positives / ranking.size
        values["nDCG"][row] = (share * (gain[ranking.start + ranking.size] - gain[ranking.start])).sum() / gain[
            positives
        ]
    return values


def checked_positives(groups: TieGroups, n_positive: int | None) -> int:
    """The number of positives to divide by.

    Raises:
        ValueError: fewer than the ranking holds.
    """
    if n_positive is None:
        return groups.found
    if n_positive < groups.found:
        raise ValueError(f"n_positive is {n_positive} but the ranking holds {groups.found} positives")
    return int(n_positive)


def precision_sum(groups: TieGroups) -> float:
    """The (expected) sum of the precision at each positive; the formula is in `average_precision`."""
    return float(precision_terms(groups).sum())


def precision_terms(groups: TieGroups) -> Floats:
    """What each group adds to `precision_sum`, [G]."""
    start, size, positives, before = groups.start, groups.size, groups.positives, groups.before
    alone = size == 1
    slope = np.where(alone, 0.0, (positives - 1) / np.where(alone, 1, size - 1))
    spread = _harmonic_differences(start, size)
    tied = positives / size * ((before + 1 - (start + 1) * slope) * spread + size * slope)
    terms: Floats = np.where(alone, (before + 1) / (start + 1), tied)
    return terms


def _harmonic_differences(start: Counts, size: Counts) -> Floats:
    """H_{start + size} - H_start, summed from the differences themselves (no cancellation)."""
    tied = size > 1
    differences = 1.0 / (start + 1)
    differences[tied] = [
        (1.0 / np.arange(first + 1, first + count + 1)).sum()
        for first, count in zip(start[tied].tolist(), size[tied].tolist(), strict=True)
    ]
    return differences


def expected_hits(groups: TieGroups, k: int) -> float:
    """The (expected) number of positives in the first k: a tie cut at j of its m items gives r j / m."""
    taken = np.clip(k - groups.start, 0, groups.size)
    return float((groups.positives * taken / groups.size).sum())


def hit_probability(groups: TieGroups, k: int) -> float:
    """The (expected) hit@k: 1 - C(m - j, r) / C(m, r) where j of the m items of the first tie with positives fit."""
    if not len(groups.size):
        return 0.0
    size, positives = int(groups.size[0]), int(groups.positives[0])
    taken = min(max(k - int(groups.start[0]), 0), size)
    if taken > size - positives:
        return 1.0
    places = np.arange(positives)
    return float(1.0 - np.prod((size - taken - places) / (size - places)))


def reciprocal_rank(groups: TieGroups) -> float:
    """The (expected) 1 / rank of the first positive.

    In a tie of m items, r of them positive, it stands at place i with probability C(m - i, r - 1) / C(m, r).
    """
    if not len(groups.size):
        return 0.0
    start, size, positives = int(groups.start[0]), int(groups.size[0]), int(groups.positives[0])
    places = np.arange(1, size - positives + 2)
    ratios = (size - places[:-1] - positives + 1) / (size - places[:-1])
    chances = positives / size * np.concatenate([[1.0], np.cumprod(ratios)])
    return float((chances / (start + places)).sum())
