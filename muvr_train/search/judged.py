"""Scores of one partition together with what is right: all that a metric needs, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Judgement, Partition
from muvr_train.search.scores import ScoreMatrix


@dataclass(frozen=True)
class JudgedScores:
    """The scores of judgements (a query, or a query with a tag expression) and what is right.

    Attributes:
        judgements: Q judgements, one a row.
        database: N ids of the database videos that were scored.
        scores: float32 or float64 [Q, N].
        relevance: int8 [Q, N]: 1 match, 0 no match, -1 the query's own video or one that is not ranked for it.
        n_positive: int64 [Q], the positives that metrics divide by: annotated ones in the gallery, found or not, the
            found ones, or all annotated ones, as the partition's `divisor` says.
        counted: bool [Q], False for a query that is left out of mAP.
    """

    judgements: tuple[Judgement, ...]
    database: tuple[str, ...]
    scores: NDArray[Any]
    relevance: NDArray[np.int8]
    n_positive: NDArray[np.int64]
    counted: NDArray[np.bool_]

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The query ids of the rows."""
        return tuple(judgement.query for judgement in self.judgements)

    @property
    def tagged(self) -> bool:
        """Whether the rows are those of queries with tag expressions."""
        return any(judgement.expression is not None for judgement in self.judgements)


def judge(partition: Partition, matrix: ScoreMatrix) -> JudgedScores:
    """Put what is right beside scores of the partition's queries against videos of its database."""
    by_query = {judgement.query: judgement for judgement in partition.judgements}
    return judge_rows(partition, [by_query[query] for query in matrix.queries], matrix.database, matrix.scores)


def judge_rows(
    partition: Partition, judgements: Sequence[Judgement], database: tuple[str, ...], scores: NDArray[Any]
) -> JudgedScores:
    """The same for any judgements, one a row (a query may have several, with a tag expression each).

    Args:
        partition: whose queries, database and convention count.
        judgements: [R] the rows.
        database: [N] ids of the columns.
        scores: float32 or float64 [R, N].
    """
    own = {query.id: query.video_id for query in partition.queries}
    relevance = relevance_matrix(
        [own[row.query] if row.ranked is None or own[row.query] not in row.ranked else None for row in judgements],
        [judgement.positives for judgement in judgements],
        database,
    )
    _leave_out_unranked(relevance, judgements, database)
    counted = np.array([judgement.counted for judgement in judgements], dtype=bool)
    if partition.divisor == "found":
        n_positive = (relevance == 1).sum(axis=1, dtype=np.int64)
        counted &= n_positive > 0
    elif partition.divisor == "annotated":
        n_positive = np.array([len(row.positives) for row in judgements], dtype=np.int64)
    else:
        gallery = frozenset(partition.database)
        n_positive = np.array([_positives_in(row, gallery) for row in judgements], dtype=np.int64)
    return JudgedScores(tuple(judgements), database, scores, relevance, n_positive, counted)


def relevance_matrix(
    own_videos: Sequence[str | None], positives: Sequence[Mapping[str, str]], database_ids: Sequence[str]
) -> NDArray[np.int8]:
    """Relevance as the official evaluator has it: 1 for positives, -1 for the query's own video, 0 for all others.

    Args:
        own_videos: [Q] the video of each row's query, None where it is ranked like any other.
        positives: [Q] positives of each row by database id; those that are not among the columns are passed over (the
            caller counts them in `n_positive`).
        database_ids: [N] the columns.

    Returns:
        int8 [Q, N].
    """
    column = {video: index for index, video in enumerate(database_ids)}
    relevance = np.zeros((len(own_videos), len(database_ids)), dtype=np.int8)
    for row, (own, matches) in enumerate(zip(own_videos, positives, strict=True)):
        relevance[row, [column[video] for video in matches if video in column]] = 1
        if own is not None and own in column:
            relevance[row, column[own]] = -1
    return relevance


def _positives_in(judgement: Judgement, gallery: frozenset[str]) -> int:
    ranked = gallery if judgement.ranked is None else judgement.ranked
    return sum(video in gallery and video in ranked for video in judgement.positives)


def _leave_out_unranked(
    relevance: NDArray[np.int8], judgements: Sequence[Judgement], database_ids: Sequence[str]
) -> None:
    for row, judgement in enumerate(judgements):
        if judgement.ranked is not None:
            ranked = np.fromiter((video in judgement.ranked for video in database_ids), bool, len(database_ids))
            relevance[row, ~ranked] = -1
        if judgement.ignored:
            ignored = np.fromiter((video in judgement.ignored for video in database_ids), bool, len(database_ids))
            relevance[row, ignored] = -1
