"""The annotation noise check of the MUVR paper: what a few wrong labels do to mAP.

Both kinds change `share` (5 %) of as many pairs as the counted queries of a partition have positives:

* `noise_remove` drops so many positive pairs, drawn uniformly. A dropped pair leaves the ranking (relevance -1), and a
  query whose positives are all dropped leaves the mean.
* `noise_add` makes matches of as many non-matching pairs, drawn uniformly over (query, database video).

The paper (arXiv 2510.21406) gives 63.4 +- 0.1 and 56.0 +- 0.4 for EVA-CLIP on News, where the clean mAP is 63.1, and
does not define the two. Dropping 5 % of the positives costs at most 5 % of mAP even if the dropped ones stay as
non-matches (each precision keeps 95 % of its hits), that is 60 or more. So 56.0 must be the added ones: they rank at
random, so each adds 1 to a query's divisor and next to nothing to its sum, and a query with few positives gets as many
as one with hundreds. 63.4 is then the removed ones, and fits dropped pairs that leave the ranking: in a simulation with
210 queries, 10,700 videos and skewed numbers of positives a mAP of 57 changes by -0.3 that way, by -2.3 where they stay
as non-matches, and by -7 with added ones.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.functional import ranking_metrics
from muvr_train.metrics.ranks import Counts, Floats, Ties
from muvr_train.metrics.trapezoids import trapezoid_precisions

Kind = Literal["noise_remove", "noise_add"]
KINDS: tuple[Kind, ...] = ("noise_remove", "noise_add")


def changed_pairs(n_positive: NDArray[Any], share: float) -> int:
    """How many pairs are changed: `share` of all positive pairs, rounded, at least 1."""
    return max(1, round(share * int(np.sum(n_positive))))


def noisy_map(
    scores: NDArray[Any],
    relevance: NDArray[Any],
    n_positive: NDArray[Any],
    kind: Kind,
    share: float = 0.05,
    repeats: int = 5,
    seed: int = 0,
    ties: Ties = "average",
    trapezoids: bool = False,
) -> Floats:
    """The mAP of each repeat with changed labels.

    Args:
        scores: [R, N] of the counted queries.
        relevance: [R, N] in {1, 0, -1}.
        n_positive: [R], at least the positives in the ranking; those that are not in it can be dropped as well.
        kind: Drop positives, or add wrong ones.
        share: Changed pairs / positive pairs, in (0, 1), see `changed_pairs`.
        repeats: Independent draws.
        seed: Of the draws.
        ties: Tie policy.
        trapezoids: The average precision of `metrics.trapezoids`.

    Returns:
        [repeats] in [0, 1]; empty where there are not more positives (non-matches) than are to be changed.
    """
    n_positive = np.asarray(n_positive, dtype=np.int64)
    pool = int(n_positive.sum() if kind == "noise_remove" else (relevance == 0).sum())
    number = changed_pairs(n_positive, share)
    if pool <= number or not n_positive.any():
        return np.empty(0)
    change = _remove if kind == "noise_remove" else _add
    values = []
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        labels, divisors = change(relevance, n_positive, rng.choice(pool, number, replace=False))
        kept = (divisors > 0) | (n_positive == 0)
        rankings = scores[kept], labels[kept], divisors[kept]
        found = trapezoid_precisions(*rankings, ties) if trapezoids else ranking_metrics(*rankings, (), ties)["AP"]
        values.append(found.mean())
    return np.array(values)


def _remove(relevance: NDArray[Any], n_positive: Counts, drawn: Counts) -> tuple[NDArray[Any], Counts]:
    """Drop the drawn ones of all positive pairs, counted row after row, the ranked ones of a row first."""
    labels, ends = relevance.copy(), np.cumsum(n_positive)
    for row in range(len(labels)):
        within = drawn[(drawn >= ends[row] - n_positive[row]) & (drawn < ends[row])] - (ends[row] - n_positive[row])
        ranked = np.flatnonzero(relevance[row] == 1)
        labels[row, ranked[within[within < len(ranked)]]] = -1
    return labels, n_positive - _per_row(drawn, ends)


def _add(relevance: NDArray[Any], n_positive: Counts, drawn: Counts) -> tuple[NDArray[Any], Counts]:
    """Make positives of the drawn ones of all non-matching pairs, counted row after row."""
    labels, others = relevance.copy(), (relevance == 0).sum(axis=1)
    ends = np.cumsum(others)
    for row in range(len(labels)):
        within = drawn[(drawn >= ends[row] - others[row]) & (drawn < ends[row])] - (ends[row] - others[row])
        labels[row, np.flatnonzero(relevance[row] == 0)[within]] = 1
    return labels, n_positive + _per_row(drawn, ends)


def _per_row(drawn: Counts, ends: Counts) -> Counts:
    """How many of the drawn numbers fall into each row; `ends` are the rows' ends in the common count."""
    return np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=len(ends)).astype(np.int64)
