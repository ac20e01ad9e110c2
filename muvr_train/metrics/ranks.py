"""Where the positives of rankings stand, with ties kept as groups: all that the metrics need to know of the scores.

A ranking sorts by descending score. Items with equal scores form a group; its `start` items stand before it. A group
that holds no positive matters to no metric beyond the ranks it takes, so only groups with positives are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError, DataError

Ties = Literal["average", "optimistic", "pessimistic"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class TieGroups:
    """The groups of equal scores that hold a positive in R rankings: by ranking, best score first.

    Attributes:
        row: [G] the ranking of each group.
        start: [G] items ranked before the group.
        size: [G] items in the group.
        positives: [G] positives in the group, at least 1.
        before: [G] positives ranked before the group.
        items: [R] judged items of each ranking.
    """

    row: Counts
    start: Counts
    size: Counts
    positives: Counts
    before: Counts
    items: Counts

    @cached_property
    def found(self) -> Counts:
        """Positives in each ranking [R]."""
        return np.bincount(self.row, self.positives, len(self.items)).astype(np.int64)

    @cached_property
    def first(self) -> Counts:
        """The best group of each ranking that has one."""
        return np.flatnonzero(self.before == 0)

    @property
    def tied_pairs(self) -> int:
        """Pairs of a positive and a non-positive with equal scores: 0 means no tie policy can change a metric."""
        return int((self.positives * (self.size - self.positives)).sum())

    def sums(self, values: NDArray[Any]) -> Floats:
        """Sum values [G] within each ranking: [R]."""
        return np.bincount(self.row, values, len(self.items)).astype(np.float64)

    def resolve(self, ties: Ties) -> TieGroups:
        """The rankings with the positives of each tie first (optimistic) or last (pessimistic).

        Each positive becomes a group of its own. With "average" the groups stay as they are.
        """
        if ties not in get_args(Ties):
            raise ConfigError(f"ties={ties}: use average, optimistic or pessimistic")
        if ties == "average":
            return self
        row, start, before = (np.repeat(values, self.positives) for values in (self.row, self.start, self.before))
        ends = np.cumsum(self.positives)
        within = np.arange(len(row)) - np.repeat(ends - self.positives, self.positives)
        shift = 0 if ties == "optimistic" else np.repeat(self.size - self.positives, self.positives)
        ones = np.ones_like(row)
        return TieGroups(row, start + shift + within, ones, ones, before + within, self.items)


def rank_positives(scores: NDArray[Any], relevance: NDArray[Any]) -> TieGroups:
    """One ranking of scores [N] with relevance [N]; see `rank_rows`."""
    return rank_rows(scores[None], relevance[None])


class Pool:
    """All rows as one ranking, counted from their sorted scores: cheaper than one more sort while positives are few.

    Args:
        scores: [R, N].
        relevance: [R, N].
    """

    def __init__(self, scores: NDArray[Any], relevance: NDArray[Any]) -> None:
        self.values, self.positives = np.unique(scores[relevance == 1], return_counts=True)
        self.above, self.reach = np.zeros((2, len(self.values)), dtype=np.int64)
        self.items = 0

    def add(self, ranked: NDArray[Any]) -> None:
        """Count a row: its judged scores, ascending."""
        self.items += len(ranked)
        self.above += len(ranked) - np.searchsorted(ranked, self.values, side="right")
        self.reach += len(ranked) - np.searchsorted(ranked, self.values, side="left")

    def groups(self) -> TieGroups:
        """The one ranking of what was counted; equal to `rank_positives` of all rows."""
        start, positives = self.above[::-1], self.positives[::-1]
        before = np.cumsum(positives) - positives
        return TieGroups(
            np.zeros_like(start), start, (self.reach - self.above)[::-1], positives, before, np.array([self.items])
        )


def rank_pooled(scores: NDArray[Any], relevance: NDArray[Any]) -> tuple[TieGroups, TieGroups]:
    """Rank each row (`rank_rows`), and all rows as one ranking (`rank_positives` of their items)."""
    pool = Pool(scores, relevance)
    if 2 * len(pool.values) > scores.shape[1]:
        return rank_rows(scores, relevance), rank_positives(scores.ravel(), relevance.ravel())
    groups = rank_rows(scores, relevance, pool)
    return groups, pool.groups()


def rank_rows(scores: NDArray[Any], relevance: NDArray[Any], pool: Pool | None = None) -> TieGroups:
    """Rank each row of scores, by one sort a row.

    Args:
        scores: [R, N] float32 or float64, compared as they are; finite wherever relevance is not -1.
        relevance: [R, N] in {1, 0, -1}; items with -1 are not ranked.
        pool: Counts every row, where the rows are also wanted as one ranking.
    """
    rows, columns = np.nonzero(relevance == 1)
    values = scores[rows, columns]
    order = np.lexsort((-values, rows))
    rows, values = rows[order], values[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    begin = np.flatnonzero(new)
    rows, values, positives = rows[begin], values[begin], np.diff(begin, append=len(new))
    start, size = np.empty_like(begin), np.empty_like(begin)
    items = (relevance >= 0).sum(axis=1)
    bounds = np.searchsorted(rows, np.arange(len(scores) + 1))
    for row in np.unique(rows) if pool is None else range(len(scores)):
        judged = scores[row] if items[row] == scores.shape[1] else scores[row][relevance[row] >= 0]
        ranked, own = np.sort(judged), slice(bounds[row], bounds[row + 1])
        if pool is not None:
            pool.add(ranked)
        above = np.searchsorted(ranked, values[own], side="right")
        start[own] = len(ranked) - above
        size[own] = above - np.searchsorted(ranked, values[own], side="left")
    total = np.concatenate([[0], np.cumsum(positives)])
    before = total[:-1] - total[bounds[rows]]
    return TieGroups(rows, start, size, positives, before, items)


def check_scores(scores: NDArray[Any], relevance: NDArray[Any]) -> None:
    """Refuse inputs that have no ranking.

    Args:
        scores: [Q, N].
        relevance: [Q, N].

    Raises:
        ValueError: shapes differ, scores are not float32 or float64 (half precision makes false ties), or relevance
            has another value than 1, 0 and -1.
        DataError: a judged score is not finite; the message names the first row and column.
    """
    if scores.shape != relevance.shape or scores.ndim != 2:
        raise ValueError(f"scores {scores.shape} and relevance {relevance.shape} must be the same [Q, N]")
    if scores.dtype not in (np.float32, np.float64):
        raise ValueError(f"scores must be float32 or float64 (coarser ones tie falsely), got {scores.dtype}")
    if relevance.dtype.kind not in "ib" or (relevance.size and not -1 <= relevance.min() <= relevance.max() <= 1):
        raise ValueError(
            f"relevance must be integers 1 (match), 0 (no match) or -1 (not judged), got {relevance.dtype}"
        )
    broken = ~np.isfinite(scores) & (relevance >= 0)
    if broken.any():
        row, column = np.argwhere(broken)[0]
        raise DataError(
            f"the score in row {row}, column {column} is {scores[row, column]} ({broken.sum()} scores are not finite); "
            "leave out the column of a video without features, and look for broken features otherwise"
        )
