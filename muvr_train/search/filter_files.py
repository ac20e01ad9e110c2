"""MUVR-Filter with scores at hand: rows of a score file for queries with a tag expression, or for queries alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_filter import FilterRow, filter_rows
from muvr_train.benchmarks.types import Partition
from muvr_train.errors import DataError
from muvr_train.search.judged import JudgedScores, judge_rows
from muvr_train.search.scores import ScoreMatrix

WITHOUT_TAGS = (("tag_0.0", True), ("logic_0.0", False))
"""Rows of scores that ignore the tags, as MUVR-Filter names them: officially evaluated expressions, and all."""


class GivenRows(NamedTuple):
    """Scores [R, N] of expressions; `rows` [R], `database` [N]."""

    rows: list[FilterRow]
    database: tuple[str, ...]
    scores: NDArray[Any]


def repeat_queries(partition: Partition, matrix: ScoreMatrix) -> GivenRows:
    """Give every expression the scores of its query."""
    place = {query: row for row, query in enumerate(matrix.queries)}
    rows = [row for row in filter_rows(partition) if row.judgement.query in place]
    return GivenRows(rows, matrix.database, matrix.scores[[place[row.judgement.query] for row in rows]])


def without_tags(partition: Partition, given: GivenRows) -> Iterator[tuple[str, JudgedScores]]:
    """The rows of scores that ignore the tags."""
    for mode, official in WITHOUT_TAGS:
        chosen = [place for place, row in enumerate(given.rows) if row.official or not official]
        if chosen:
            kept = GivenRows([given.rows[place] for place in chosen], given.database, given.scores[chosen])
            yield mode, judge_given(partition, kept)


def judge_given(partition: Partition, given: GivenRows, where: str = "scores") -> JudgedScores:
    """Put what is right beside given scores; pairs that are not ranked get 0 where they have no number.

    Raises:
        DataError: a ranked pair has no finite score; `where` begins the message.
    """
    judged = judge_rows(partition, [row.judgement for row in given.rows], given.database, given.scores)
    finite = np.isfinite(judged.scores)
    bad = np.argwhere(~finite & (judged.relevance >= 0))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{where}: {len(bad)} scores are absent or not finite; the first is {judged.scores[row, column]}, of query "
            f"{judged.queries[row]} with '{judged.judgements[row].expression}' against database video "
            f"{judged.database[column]}"
        )
    return judged if finite.all() else replace(judged, scores=np.where(finite, judged.scores, 0))


def common_rows(given: Sequence[GivenRows]) -> list[GivenRows]:
    """Cut several to the expressions and videos that all of them have, in the order of the first."""
    keys = [{_key(row): place for place, row in enumerate(one.rows)} for one in given]
    columns = [{video: place for place, video in enumerate(one.database)} for one in given]
    rows = [row for row in given[0].rows if all(_key(row) in known for known in keys)]
    database = tuple(video for video in given[0].database if all(video in known for known in columns))
    return [
        GivenRows(
            rows,
            database,
            one.scores[np.ix_([known[_key(row)] for row in rows], [places[video] for video in database])],
        )
        for one, known, places in zip(given, keys, columns, strict=True)
    ]


def _key(row: FilterRow) -> tuple[str, str | None]:
    return row.judgement.query, row.judgement.expression
