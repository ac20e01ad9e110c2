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

from muvr_train.metrics.ranks import Counts, Floats, TieGroups, Ties, check_scores, rank_positives, rank_rows


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
    return micro_average_precision(scores, relevance, n_positive, ties)


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
    divisor = checked_positives(groups, None if n_positive is None else np.array([n_positive]))
    return precision_sum(groups.resolve(ties)) / max(int(divisor[0]), 1)


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
    groups = rank_rows(scores, relevance)
    return metrics_of_groups(groups, checked_positives(groups, n_positive), ks, ties)


def metrics_of_groups(groups: TieGroups, n_positive: Counts, ks: Sequence[int], ties: Ties) -> dict[str, Floats]:
    """The metrics of `ranking_metrics`, from rankings already made; `n_positive` [R] is checked."""
    ranking = groups.resolve(ties)
    divisor = np.maximum(n_positive, 1)
    hits = {k: ranking.sums(expected_hits(ranking, k)) for k in ks}
    places = np.arange(2, max(groups.items.max(initial=0), divisor.max(initial=0)) + 2)
    gain = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(places))])
    share = ranking.positives / ranking.size
    gained = share * (gain[ranking.start + ranking.size] - gain[ranking.start])
    return {
        "AP": ranking.sums(precision_terms(ranking)) / divisor,
        **{f"recall@{k}": hits[k] / divisor for k in ks},
        **{f"precision@{k}": hits[k] / k for k in ks},
        **{f"hit@{k}": hit_probability(ranking, k) for k in ks},
        "MRR": reciprocal_rank(ranking),
        "R-precision": ranking.sums(expected_hits(ranking, n_positive[ranking.row])) / divisor,
        "nDCG": ranking.sums(gained) / gain[divisor],
    }


def checked_positives(groups: TieGroups, n_positive: NDArray[Any] | None) -> Counts:
    """The numbers of positives [R] to divide by, those in the rankings where `n_positive` is None.

    Raises:
        ValueError: fewer than a ranking holds.
    """
    if n_positive is None:
        return groups.found
    wanted = np.asarray(n_positive).astype(np.int64)
    for number, found in zip(wanted.tolist(), groups.found.tolist(), strict=True):
        if number < found:
            raise ValueError(f"n_positive is {number} but the ranking holds {found} positives")
    return wanted


def precision_sum(groups: TieGroups) -> float:
    """The (expected) sum of the precision at each positive; the formula is in `average_precision`."""
    return float(precision_terms(groups).sum())


def precision_terms(groups: TieGroups) -> Floats:
    """What each group adds to `precision_sum`, [G]."""
    start, size, positives, before = groups.start, groups.size, groups.positives, groups.before
    alone = size == 1
    slope = np.where(alone, 0.0, (positives - 1) / np.where(alone, 1, size - 1))
    spread = harmonic_differences(start, size)
    tied = positives / size * ((before + 1 - (start + 1) * slope) * spread + size * slope)
    terms: Floats = np.where(alone, (before + 1) / (start + 1), tied)
    return terms


def harmonic_differences(start: Counts, size: Counts) -> Floats:
    """H_{start + size} - H_start, summed from the differences themselves (no cancellation)."""
    tied = size > 1
    differences = 1.0 / (start + 1)
    differences[tied] = [
        (1.0 / np.arange(first + 1, first + count + 1)).sum()
        for first, count in zip(start[tied].tolist(), size[tied].tolist(), strict=True)
    ]
    return differences


def expected_hits(groups: TieGroups, k: int | Counts) -> Floats:
    """The (expected) positives of each group [G] in the first k: a tie cut at j of its m items gives r j / m."""
    return groups.positives * np.clip(k - groups.start, 0, groups.size) / groups.size


def hit_probability(groups: TieGroups, k: int) -> Floats:
    """The (expected) hit@k [R]: 1 - C(m - j, r) / C(m, r) where j of m items of the first tie with positives fit."""
    first = groups.first
    size, positives = groups.size[first], groups.positives[first]
    taken = np.clip(k - groups.start[first], 0, size)
    chances = (taken > size - positives).astype(np.float64)
    for place in np.flatnonzero((taken > 0) & (chances == 0)):
        m, r = size[place], np.arange(positives[place])
        chances[place] = 1.0 - np.prod((m - taken[place] - r) / (m - r))
    return _by_row(groups, chances)


def reciprocal_rank(groups: TieGroups) -> Floats:
    """The (expected) 1 / rank of the first positive, [R].

    In a tie of m items, r of them positive, it stands at place i with probability C(m - i, r - 1) / C(m, r).
    """
    first = groups.first
    start, size, positives = groups.start[first], groups.size[first], groups.positives[first]
    values = 1.0 / (start + 1)
    for tie in np.flatnonzero(size > positives):
        m, r = size[tie], positives[tie]
        places = np.arange(1, m - r + 2)
        ratios = (m - places[:-1] - r + 1) / (m - places[:-1])
        chances = r / m * np.concatenate([[1.0], np.cumprod(ratios)])
        values[tie] = (chances / (start[tie] + places)).sum()
    return _by_row(groups, values)


def _by_row(groups: TieGroups, values: Floats) -> Floats:
    """Values of the first groups, for each ranking; 0 where there is no positive."""
    rows = np.zeros(len(groups.items))
    rows[groups.row[groups.first]] = values
    return rows
