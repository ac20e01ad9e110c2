"""Scores judged by one level of correspondence at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muvr_train.benchmarks.types import MATCH, Partition
from muvr_train.search.judged import JudgedScores


def levels_of(partition: Partition) -> tuple[str, ...]:
    """The levels of a partition's positives, sorted; empty where the annotation has none but "match"."""
    levels = {level for judgement in partition.judgements for level in judgement.positives.values()}
    return () if levels <= {MATCH} else tuple(sorted(levels))


def judged_by_level(partition: Partition, judged: JudgedScores, level: str) -> JudgedScores:
    """Keep the positives of one level; those of other levels are left out of the ranking (relevance -1).

    A query without a positive of the level is not counted.
    """
    relevance, n_positive = judged.relevance.copy(), judged.n_positive.copy()
    column = {video: index for index, video in enumerate(judged.database)}
    gallery = frozenset(partition.database)
    for row, judgement in enumerate(judged.judgements):
        others = {video for video, name in judgement.positives.items() if name != level} & gallery
        if judgement.ranked is not None:
            others &= judgement.ranked
        columns = np.array([column[video] for video in others if video in column], dtype=np.int64)
        matches = columns[judged.relevance[row, columns] == 1]
        relevance[row, matches] = -1
        n_positive[row] -= len(matches) if partition.divisor == "found" else len(others)
    return replace(judged, relevance=relevance, n_positive=n_positive, counted=judged.counted & (n_positive > 0))
