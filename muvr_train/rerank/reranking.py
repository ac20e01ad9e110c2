"""Reranking: the answers to the best-ranked pairs of each query change their scores, and so their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.search.judged import JudgedScores
from muvr_train.search.scores import ScoreMatrix

if TYPE_CHECKING:
    from muvr_train.search.sources import ScoreSource

Columns = NDArray[np.int64]
Floats = NDArray[np.float64]


def top_pairs(judged: JudgedScores, k: int) -> list[Columns]:
    """Give the columns of the k best-ranked videos of each row, best first.

    Equal scores stand in the order of their video ids, so that the choice does not depend on the order of the input. A
    query's own video, videos that are not ranked for it, and scores that are not finite are never among them.

    Args:
        judged: [Q, N] scores.
        k: how many, at least 1; fewer where fewer are ranked.

    Returns:
        Q arrays int64 [<= k].
    """
    by_id = np.argsort(np.argsort(np.array(judged.database)))
    tops = []
    for scores, relevance in zip(judged.scores, judged.relevance, strict=True):
        ranked = np.flatnonzero((relevance >= 0) & np.isfinite(scores))
        if len(ranked) > k:
            ranked = ranked[scores[ranked] >= np.partition(scores[ranked], -k)[-k]]
        tops.append(ranked[np.lexsort((by_id[ranked], -scores[ranked]))][:k])
    return tops


def true_answers(judged: JudgedScores, top: Sequence[Columns]) -> list[Floats]:
    """Give what an answerer that knows the annotation would say of the pairs `top`: 1 for matches, 0 for others."""
    return [relevance[columns].astype(np.float64) for relevance, columns in zip(judged.relevance, top, strict=True)]


def keep_drop(judged: JudgedScores, top: Sequence[Columns], yes: Sequence[Floats]) -> JudgedScores:
    """Drop the pairs that are no matches below everything else; among themselves they keep the retrieval order.

    What is dropped loses more than the span of all ranked scores of the partition, so that it also stands below all
    other pairs in the pooled ranking of uAP. All else keeps its score.

    Args:
        judged: [Q, N] scores.
        top: Q arrays of columns, see `top_pairs`.
        yes: Q arrays of as many numbers, how likely the pair is a match: below 0.5 drops it; NaN, where nothing is
            known, does not.

    Returns:
        The same with other scores, float64 (old scores that differ by less than 2^-52 of the span may become equal).
    """
    scores = judged.scores.astype(np.float64)
    ranked = scores[(judged.relevance >= 0) & np.isfinite(scores)]
    fall = (np.ptp(ranked) + np.abs(ranked).max() if ranked.size else 0.0) or 1.0
    for row, columns, answers in zip(scores, top, yes, strict=True):
        row[columns[answers < 0.5]] -= fall
    return replace(judged, scores=scores)


def by_probability(judged: JudgedScores, top: Sequence[Columns], yes: Sequence[Floats]) -> JudgedScores:
    """Sort the pairs by how likely they are matches; equally likely ones keep the retrieval order.

    The scores of the sorted pairs are handed out again in the new order: each query keeps the set of its scores, and
    what was not asked is not touched. Pairs of which nothing is known keep their rank. Where equal scores meet
    answers that differ, the better pair gets the next larger float64, so that the new order is one; equal scores with
    equal answers stay equal.

    Args:
        judged: [Q, N] scores.
        top: Q arrays of columns, best first, see `top_pairs`.
        yes: Q arrays of as many probabilities; NaN where nothing is known.

    Returns:
        The same with other scores, float64.
    """
    scores = judged.scores.astype(np.float64)
    for row, columns, answers in zip(scores, top, yes, strict=True):
        known = np.flatnonzero(~np.isnan(answers))
        order = np.arange(len(columns))
        order[known] = known[np.argsort(-answers[known], kind="stable")]
        row[columns[order]] = _apart(row[columns], answers[order])
    return replace(judged, scores=scores)


REORDER: Mapping[str, Callable[[JudgedScores, Sequence[Columns], Sequence[Floats]], JudgedScores]] = {
    "keep_drop": keep_drop,
    "probability": by_probability,
}


def _apart(values: NDArray[Any], answers: Floats) -> Floats:
    """Raise descending values [k] by as little as it takes to tell pairs apart that the answers [k] tell apart."""
    raised = values.astype(np.float64)
    below: int | None = None  # the nearest pair below of which something is known
    for place in reversed(range(len(raised))):
        raised[place] = max(raised[place : place + 2])
        if np.isnan(answers[place]):
            continue
        if below is not None and answers[place] > answers[below] and raised[place] == raised[below]:
            raised[place] = np.nextafter(raised[place], np.inf)
        below = place
    return raised


class RerankedScores:
    """Changed scores of one mode as a source of scores (see `search.sources.ScoreSource`).

    Args:
        source: of the scores as they were, for what it knows of the queries.
        mode: the one that is served.
        changed: by the names of the partitions.
    """

    pairwise = False  # every partition was reranked by itself

    def __init__(self, source: ScoreSource, mode: str, changed: Mapping[str, JudgedScores]) -> None:
        self.source, self.mode, self.changed = source, mode, changed
        self.modes: tuple[str, ...] = (mode,)

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Nothing is refused that was not when the scores were made."""

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the queries that the source knows."""
        return self.source.known_queries(partition)

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """The scores of a partition's queries."""
        judged = self.changed[partition.name]
        return dict.fromkeys(modes, ScoreMatrix(judged.queries, judged.database, judged.scores))

    def filter_scores(self, partition: Partition) -> Iterator[tuple[str, JudgedScores]]:
        """The scores of its queries with tag expressions."""
        yield self.mode, self.changed[partition.name]
