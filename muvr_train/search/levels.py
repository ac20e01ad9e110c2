"""Positives by their level of correspondence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import MATCH, Judgement, Partition
from muvr_train.search.judged import JudgedScores


def levels_of(partition: Partition) -> tuple[str, ...]:
    """The levels of a partition's positives, sorted; empty where the annotation has none but "match"."""
    own = {query.id: query.video_id for query in partition.queries}
    levels = {level for row in partition.judgements for level in _countable(partition, row, own[row.query]).values()}
    return () if levels <= {MATCH} else tuple(sorted(levels))


def ranked_levels(judged: JudgedScores) -> NDArray[np.str_]:
    """The level of each of P ranked positives, in the order of `np.nonzero(judged.relevance == 1)`."""
    pairs = zip(*(places.tolist() for places in np.nonzero(judged.relevance == 1)), strict=True)
    return np.array([judged.judgements[row].positives[judged.database[column]] for row, column in pairs], dtype=str)


def positives_of_level(partition: Partition, judged: JudgedScores, level: str) -> NDArray[np.int64]:
    """The number of positives of one level that a metric divides by, per row.

    A query's own video, which it cannot find, is none.
    """
    every = partition.divisor == "annotated"
    gallery = frozenset(judged.database if partition.divisor == "found" else partition.database)
    own = {query.id: query.video_id for query in partition.queries}
    rows = [_countable(partition, judgement, own[judgement.query]) for judgement in judged.judgements]
    return np.array([sum(name == level and (every or video in gallery) for video, name in row.items()) for row in rows])


def _countable(partition: Partition, judgement: Judgement, own: str) -> Mapping[str, str]:
    """The positives that count: those that are ranked, or all; the query's own video only where it is ranked."""
    ranked = judgement.ranked
    every = ranked is None or partition.divisor == "annotated"
    return {
        video: level
        for video, level in judgement.positives.items()
        if (ranked is not None and video in ranked) or (every and video != own)
    }
