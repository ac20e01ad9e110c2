"""Where the positives of a ranking stand, with ties kept as groups: all that the metrics need to know of the scores.

A ranking sorts by descending score. Items with equal scores form a group; its `start` items stand before it. A group
that holds no positive matters to no metric beyond the ranks it takes, so only groups with positives are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError, DataError

Ties = Literal["average", "optimistic", "pessimistic"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class TieGroups:
    """The groups of equal scores that hold a positive, best score first; all arrays [G].

    Attributes:
        start: Items ranked before the group.
        size: Items in the group.
        positives: Positives in the group, at least 1.
        before: Positives ranked before the group.
        items: Judged items of the whole ranking.
    """

    start: Counts
    size: Counts
    positives: Counts
    before: Counts
    items: int

    @property
    def found(self) -> int:
        """Positives in the ranking."""
        return int(self.positives.sum())

    @property
    def tied_pairs(self) -> int:
        """Pairs of a positive and a non-positive with equal scores: 0 means no tie policy can change a metric."""
        return int((self.positives * (self.size - self.positives)).sum())

    def resolve(self, ties: Ties) -> TieGroups:
        """The ranking with the positives of each tie first (optimistic) or last (pessimistic).

        Each positive becomes a group of its own. With "average" the groups stay as they are.
        """
        if ties not in get_args(Ties):
            raise ConfigError(f"ties={ties}: use average, optimistic or pessimistic")
        if ties == "average" or not len(self.size):
            return self
        found = np.arange(self.found)
        within = found - np.repeat(self.before, self.positives)
        shift = 0 if ties == "optimistic" else np.repeat(self.size - self.positives, self.positives)
        ones = np.ones_like(found)
        return TieGroups(np.repeat(self.start, self.positives) + shift + within, ones, ones, found, self.items)


def rank_positives(scores: NDArray[Any], relevance: NDArray[Any]) -> TieGroups:
    """Rank one row of scores.

    Args:
        scores: [N] float32 or float64, compared as they are; finite wherever relevance is not -1.
        relevance: [N] in {1, 0, -1}; items with -1 are not ranked.
    """
    judged = relevance >= 0
    ranked = np.sort(scores if judged.all() else scores[judged])
    values, counts = np.unique(scores[relevance == 1], return_counts=True)
    values, counts = values[::-1], counts[::-1].astype(np.int64)
    above = np.searchsorted(ranked, values, side="right")
    start = len(ranked) - above
    size = above - np.searchsorted(ranked, values, side="left")
    return TieGroups(start, size, counts, np.cumsum(counts) - counts, len(ranked))


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
