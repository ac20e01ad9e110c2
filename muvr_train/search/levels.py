"""Scores judged by one level of correspondence at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muvr_train.benchmarks.types import MATCH, Judgement, Partition
from muvr_train.search.judged import JudgedScores


def levels_of(partition: Partition) -> tuple[str, ...]:
    """The levels of a partition's positives, sorted; empty where the annotation has none but "match"."""
    own = {query.id: query.video_id for query in partition.queries}
    levels = {level for row in partition.judgements for level in _findable(row, own[row.query]).values()}
    return () if levels <= {MATCH} else tuple(sorted(levels))


def judged_by_level(partition: Partition, judged: JudgedScores, level: str) -> JudgedScores:
    """Keep the positives of one level; those of other levels are left out of the ranking (relevance -1).

    A query without a positive of the level is not counted; its own video, which it cannot find, is none.
    """
    own = {query.id: query.video_id for query in partition.queries}
    relevance, n_positive = judged.relevance.copy(), judged.n_positive.copy()
    column = {video: index for index, video in enumerate(judged.database)}
    gallery = frozenset(partition.database)
    for row, judgement in enumerate(judged.judgements):
        found = _findable(judgement, own[judgement.query])
        kept = {video for video, name in found.items() if name == level} & gallery
        places = np.array([column[video] for video in kept if video in column], dtype=np.int64)
        relevance[row, judged.relevance[row] == 1] = -1
        relevance[row, places] = 1
        n_positive[row] = len(places) if partition.divisor == "found" else len(kept)
    return replace(judged, relevance=relevance, n_positive=n_positive, counted=judged.counted & (n_positive > 0))


def _findable(judgement: Judgement, own: str) -> Mapping[str, str]:
    """The positives that a ranking may hold: without the query's own video, unless that is ranked expressly."""
    if judgement.ranked is None:
        return {video: level for video, level in judgement.positives.items() if video != own}
    return {video: level for video, level in judgement.positives.items() if video in judgement.ranked}
