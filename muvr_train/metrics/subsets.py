"""Metrics of some of the positives, from the ranking of all: nothing is sorted again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.aggregate import PartitionMetrics, metrics_of_rankings
from muvr_train.metrics.ranks import Counts, TieGroups, Ties


def evaluate_subset(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    whole: PartitionMetrics,
    kept: NDArray[np.bool_],
    n_positive: NDArray[Any],
    counted: NDArray[np.bool_],
    ks: Sequence[int],
    ties: Ties = "average",
) -> PartitionMetrics:
    """The metrics where only some positives are positives; the others are left out of the ranking (relevance -1).

    Args:
        scores: [Q, N].
        relevance: [Q, N] in {1, 0, -1} with all P positives.
        whole: `evaluate_partition` of them.
        kept: bool [P], in the order of `np.nonzero(relevance == 1)`.
        n_positive: [Q] number of positives to divide by, at least the kept ones.
        counted: bool [Q], one or more True.
        ks: Cut-offs.
        ties: Tie policy.

    Raises:
        ValueError: `whole` has no rankings.
    """
    if whole.groups is None:
        raise ValueError("a mean over partitions has no rankings to take a subset of")
    rows, columns = np.nonzero(relevance == 1)
    values = scores[rows, columns]
    groups = keep_positives(whole.groups, _group_of(rows, values), kept)
    pooled = whole.pooled
    if pooled is not None:
        pooled = keep_positives(pooled, _group_of(np.zeros_like(rows), values), kept)
    return metrics_of_rankings(groups, pooled, n_positive, counted, ks, ties, scores.shape[1])


def keep_positives(groups: TieGroups, group: Counts, kept: NDArray[np.bool_]) -> TieGroups:
    """The rankings without the positives that are not kept.

    Args:
        groups: G groups of R rankings.
        group: [P] the group of each positive.
        kept: bool [P].
    """
    positives = np.bincount(group, kept, len(groups.size)).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(positives)])
    first = np.searchsorted(groups.row, groups.row)
    before = total[:-1] - total[first]
    start = groups.start - groups.before + before
    size = groups.size - groups.positives + positives
    lost = groups.sums(groups.positives - positives).astype(np.int64)
    has = positives > 0
    return TieGroups(groups.row[has], start[has], size[has], positives[has], before[has], groups.items - lost)


def _group_of(rows: Counts, values: NDArray[Any]) -> Counts:
    """The place of each positive's group: groups go by row, then by descending score."""
    order = np.lexsort((-values, rows))
    new = np.ones(len(rows), dtype=np.int64)
    new[1:] = (np.diff(rows[order]) != 0) | (np.diff(values[order]) != 0)
    group = np.empty_like(new)
    group[order] = np.cumsum(new) - 1
    return group
