"""Averages as MUVR's tables have them: per partition over its queries, then over partitions with equal weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.metrics.functional import (
    checked_positives,
    metrics_of_groups,
    precision_sum,
)
from muvr_train.metrics.ranks import Floats, TieGroups, Ties, check_scores, rank_pooled, rank_rows


@dataclass(frozen=True)
class PartitionMetrics:
    """The numbers of one partition, or of the mean over partitions.

    Attributes:
        metrics: Fractions in [0, 1]: `mAP`, `uAP`, `recall@k`, `precision@k`, `hit@k`, `MRR`, `R-precision`, `nDCG`.
        counts: `queries` (with scores), `counted_queries` (in mAP and recall), `database` (columns), `positives`
            (the divisor of uAP), `ties` (pairs of a positive and a non-positive of one query with equal scores: where
            it is 0, the tie policy changes nothing but uAP), `pooled_ties` (the same over the pooled ranking of uAP).
        per_query: Name of the metric (`AP` for mAP) -> [Q], all queries; empty for a mean.
        exceeding: The ks that are larger than the gallery: their metrics are computed, but tell nothing.
        groups: The rankings of the rows, None for a mean.
        pooled: The one ranking of all pairs, None where there is no uAP and for a mean.
    """

    metrics: dict[str, float]
    counts: dict[str, int]
    per_query: dict[str, Floats]
    exceeding: tuple[int, ...] = ()
    groups: TieGroups | None = None
    pooled: TieGroups | None = None


def evaluate_partition(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any],
    counted: NDArray[np.bool_] | None = None,
    ks: Sequence[int] = (1, 5, 10, 200, 500, 1000, 2000),
    ties: Ties = "average",
    pooled: bool = True,
) -> PartitionMetrics:
    """All metrics of one partition.

    mAP and the other means are over the counted queries (a query with an empty list of positives counts with 0); uAP
    pools the pairs of all queries and is divided by the sum of `n_positive`. This is the official procedure.

    Args:
        scores: [Q, N] float32 or float64 of the queries and database videos that have features.
        relevance: [Q, N] in {1, 0, -1}.
        n_positive: [Q] number of annotated positives of each query, found or not.
        counted: bool [Q], None for all: False for a query that is left out of every mean but uAP.
        ks: Cut-offs.
        ties: Tie policy.
        pooled: With uAP; False where scores of different rows cannot be compared.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: a score is not finite, or no query is counted.
    """
    scores, relevance, n_positive = np.asarray(scores), np.asarray(relevance), np.asarray(n_positive)
    check_scores(scores, relevance)
    mask = np.ones(len(scores), dtype=bool) if counted is None else np.asarray(counted, dtype=bool)
    if n_positive.shape != (len(scores),) or mask.shape != (len(scores),):
        raise ValueError(f"n_positive {n_positive.shape} and counted {mask.shape} must be [{len(scores)}]")
    if not mask.any():
        raise DataError(f"none of the {len(scores)} queries can be counted: none has a list of positives and features")
    groups, every = rank_pooled(scores, relevance) if pooled else (rank_rows(scores, relevance), None)
    return metrics_of_rankings(groups, every, n_positive, mask, ks, ties, scores.shape[1])


def metrics_of_rankings(
    groups: TieGroups,
    pooled: TieGroups | None,
    n_positive: NDArray[Any],
    counted: NDArray[np.bool_],
    ks: Sequence[int],
    ties: Ties,
    columns: int,
) -> PartitionMetrics:
    """The metrics of `evaluate_partition`, from rankings already made.

    Args:
        groups: Of Q rows.
        pooled: Of all pairs, None for no uAP.
        n_positive: [Q].
        counted: bool [Q], one or more True.
        ks: Cut-offs.
        ties: Tie policy.
        columns: Database videos.
    """
    divisors = checked_positives(groups, n_positive)
    per_query = metrics_of_groups(groups, divisors, ks, ties)
    metrics = {"mAP" if name == "AP" else name: float(values[counted].mean()) for name, values in per_query.items()}
    counts = {
        "queries": len(divisors),
        "counted_queries": int(counted.sum()),
        "database": columns,
        "positives": int(divisors.sum()),
        "ties": groups.tied_pairs,
    }
    if pooled is not None:
        metrics["uAP"] = precision_sum(pooled.resolve(ties)) / max(int(divisors.sum()), 1)
        counts["pooled_ties"] = pooled.tied_pairs
    gallery = int(groups.items.max())
    return PartitionMetrics(metrics, counts, per_query, tuple(k for k in ks if k > gallery), groups, pooled)


def mean_over_partitions(partitions: Sequence[PartitionMetrics]) -> PartitionMetrics:
    """The plain mean of every metric over partitions, however many queries they have; counts are sums.

    Raises:
        ValueError: no partition, or partitions with different metrics.
    """
    names = [set(partition.metrics) for partition in partitions]
    if not partitions or any(other != names[0] for other in names):
        raise ValueError(f"need partitions with the same metrics, got {[sorted(part) for part in names]}")
    first = partitions[0]
    metrics = {name: float(np.mean([part.metrics[name] for part in partitions])) for name in first.metrics}
    counts = {name: sum(part.counts[name] for part in partitions) for name in first.counts}
    exceeding = tuple(sorted({k for part in partitions for k in part.exceeding}))
    return PartitionMetrics(metrics, counts, {}, exceeding)
