"""Points of curves from scores: exact values, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muvr_train.metrics.functional import expected_hits, precision_terms
from muvr_train.metrics.ranks import Floats, TieGroups, Ties
from muvr_train.search.judged import JudgedScores

MOST_POINTS = 300
BINS = 20


@dataclass(frozen=True)
class Curve:
    """Points of one line, both arrays [P], `x` ascending."""

    x: Floats
    y: Floats


def precision_recall(pooled: TieGroups, n_positive: int, ties: Ties = "average", most: int = MOST_POINTS) -> Curve:
    """The precision-recall steps of one ranking of all pairs: the area under all of them is the uAP.

    Point i says: from the recall of point i - 1 (0 at first) up to recall `x[i]`, each positive counts with precision
    `y[i]`. Within a tie that is the expected precision under random order. Where there are more than `most` steps, some
    of them are left out, evenly over recall; those that stay are exact.

    Args:
        pooled: the ranking of all pairs.
        n_positive: positives to divide by, found or not.
        ties: tie policy.
        most: bound on the number of points.
    """
    groups = pooled.resolve(ties)
    recall = (groups.before + groups.positives) / max(n_positive, 1)
    return thin(Curve(recall, precision_terms(groups) / groups.positives), most)


def thin(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most `most` of a curve's points: the first and the last, and others evenly by `x`."""
    if len(curve.x) <= most:
        return curve
    wanted = np.linspace(curve.x[0], curve.x[-1], most)
    kept = np.unique(np.minimum(np.searchsorted(curve.x, wanted), len(curve.x) - 1))
    return Curve(curve.x[kept], curve.y[kept])


def recall_over_k(groups: TieGroups, judged: JudgedScores, ties: Ties, ks: Sequence[int]) -> Curve:
    """Recall@k as a function of k, the mean over the counted rows.

    Args:
        groups: the rankings of the rows.
        judged: their numbers of positives, and which rows count.
        ties: tie policy.
        ks: where to take the curve.
    """
    ranking = groups.resolve(ties)
    shares = judged.counted / np.maximum(judged.n_positive, 1) / max(int(judged.counted.sum()), 1)
    values = [float((shares[ranking.row] * expected_hits(ranking, k)).sum()) for k in ks]
    return Curve(np.asarray(ks, dtype=np.float64), np.array(values))


def log_spaced(largest: int, most: int = 120) -> list[int]:
    """Whole numbers from 1 to `largest`, evenly on a logarithmic scale.

    >>> log_spaced(10, 4), log_spaced(1)
    ([1, 2, 5, 10], [1])
    """
    return [int(k) for k in np.unique(np.rint(np.geomspace(1, max(largest, 1), most)).astype(np.int64))]


def precision_histogram(lines: Iterable[Mapping[str, object]], mode: str, bins: int = BINS) -> Curve:
    """How many counted queries of a mode have which average precision.

    Args:
        lines: rows of per_query.csv with `mode`, `counted` and `AP`.
        mode: whose.
        bins: equal intervals of [0, 1]; the last one holds 1.

    Returns:
        `x` [bins] the lower ends, `y` [bins] the numbers.
    """
    values = [float(line["AP"]) for line in lines if line["mode"] == mode and line.get("counted", True)]  # type: ignore[arg-type]
    numbers, edges = np.histogram(np.clip(values, 0.0, 1.0), bins, (0.0, 1.0))
    return Curve(edges[:-1], numbers.astype(np.float64))
