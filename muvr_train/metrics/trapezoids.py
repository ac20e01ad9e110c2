"""Average precision by trapezoids: the convention of EVVE's evaluation program, and of INRIA Holidays before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.aggregate import PartitionMetrics
from muvr_train.metrics.functional import precision_terms
from muvr_train.metrics.ranks import Floats, TieGroups, Ties, rank_positives


def trapezoid_average_precision(
    scores: NDArray[Any], relevance: NDArray[Any], n_positive: int, ties: Ties = "average"
) -> float:
    """Area under the precision-recall curve of one ranking, by trapezoids.

    Each positive adds 1 / n_positive times the mean of the precision just before it and at it; before the first item
    the precision is 1. Within a tie of m items, r of them positive, after s > 0 items with b positives, the expected
    precision just before a positive is that at a positive (`functional.average_precision`) after s - 1 items with
    b - 1 positives; with s = 0 it is r / m (1 + (r - 1)).

    Args:
        scores: [N] float32 or float64.
        relevance: [N] in {1, 0, -1}, -1 is left out of the ranking.
        n_positive: Number of positives to divide by, at least those in the ranking.
        ties: Tie policy.

    Returns:
        A value in [0, 1]; 0 where there is no positive.

    >>> trapezoid_average_precision(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1]), 2)
    0.7916666666666666
    """
    groups = rank_positives(scores, relevance).resolve(ties)
    return float(_precisions_before(groups).sum() + precision_terms(groups).sum()) / 2 / max(n_positive, 1)


def trapezoid_precisions(
    scores: NDArray[Any], relevance: NDArray[Any], n_positive: NDArray[Any], ties: Ties = "average"
) -> Floats:
    """`trapezoid_average_precision` of every row.

    Args:
        scores: [Q, N].
        relevance: [Q, N].
        n_positive: [Q].
        ties: Tie policy.

    Returns:
        [Q] in [0, 1].
    """
    rows = zip(scores, relevance, n_positive.tolist(), strict=True)
    return np.array([trapezoid_average_precision(*row, ties=ties) for row in rows])


def with_trapezoids(
    metrics: PartitionMetrics,
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any],
    counted: NDArray[np.bool_],
    ties: Ties,
) -> PartitionMetrics:
    """The metrics of a partition with this average precision in `AP` and `mAP`; uAP and the others stay.

    Args:
        metrics: of the same scores, relevance, n_positive and counted, see `aggregate.evaluate_partition`.
        scores: [Q, N].
        relevance: [Q, N].
        n_positive: [Q].
        counted: [Q].
        ties: Tie policy.
    """
    values = trapezoid_precisions(scores, relevance, n_positive, ties)
    return replace(
        metrics,
        metrics={**metrics.metrics, "mAP": float(values[counted].mean())},
        per_query={**metrics.per_query, "AP": values},
    )


def _precisions_before(groups: TieGroups) -> Floats:
    """The expected sum of the precision just before each positive of a group, [G]."""
    later = replace(groups, start=np.maximum(groups.start - 1, 0), before=groups.before - 1)
    terms: Floats = np.where(groups.start == 0, groups.positives**2 / groups.size, precision_terms(later))
    return terms
