"""Queries repeated for their tag expressions: what MUVR-Filter and mode tv+tag have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muvr_train.benchmarks.expressions import Expression
from muvr_train.benchmarks.muvr_filter import FilterRow
from muvr_train.benchmarks.types import Partition
from muvr_train.errors import DataError
from muvr_train.search.filter import Floats, TagPlaces
from muvr_train.search.judged import JudgedScores, judge_rows
from muvr_train.search.scores import ScoreMatrix


class Expanded(NamedTuple):
    """The scores of one mode.

    Attributes:
        mode: Name of the row: `tag_<m>` (officially evaluated expressions), `logic_<m>` (all), `UPPER_BOUND` (all), or
            `TAGGED` (all).
        judged: Scores and judgements, a row per query and expression.
        counts: `expressions_left_out` (begin with AND or OR, which the official program passes over),
            `expressions_without_tag_vectors` (left out), `queries_without_expressions`; of given scores also
            `missing_expressions` (officially evaluated ones of known queries that have no scores).
    """

    mode: str
    judged: JudgedScores
    counts: dict[str, int]


class ExpandedRows(NamedTuple):
    """Rows of queries and expressions: `judged` holds the scores of the queries alone."""

    judged: JudgedScores
    rows: list[FilterRow]
    places: list[TagPlaces]
    counts: dict[str, int]

    @property
    def expressions(self) -> list[Expression]:
        """The tag expression of each row."""
        return [row.expression for row in self.rows]


class Expander:
    """Repeats the scores of queries for their expressions.

    Args:
        partition: whose judgements count.
        matrix: scores of the queries.
        pairs: query and tag of each row of the tag scores.
    """

    def __init__(self, partition: Partition, matrix: ScoreMatrix, pairs: Sequence[tuple[str, str]]) -> None:
        self.partition, self.matrix = partition, matrix
        self.query = {query: row for row, query in enumerate(matrix.queries)}
        self.pair = {pair: row for row, pair in enumerate(pairs)}

    def expand(self, rows: Sequence[FilterRow], left_out: dict[str, int]) -> ExpandedRows:
        """Give the rows their query's scores; `left_out` joins the counts."""
        base = self.matrix.scores[[self.query[row.judgement.query] for row in rows]]
        judged = judge_rows(self.partition, [row.judgement for row in rows], self.matrix.database, base)
        queries = len(set(judged.queries))
        counts = {
            "queries": queries,
            "counted_queries": queries,
            "expressions": len(rows),
            **left_out,
            "queries_without_expressions": len(self.query) - queries,
        }
        return ExpandedRows(judged, list(rows), [self.places(row) for row in rows], counts)

    def places(self, row: FilterRow) -> TagPlaces:
        """Where the tags of an expression stand among the tag scores."""
        return {tag: self.pair[query, tag] for query, tag in row.pairs}


def refuse_nan_tags(tags: Floats, pairs: Sequence[tuple[str, str]], database: Sequence[str]) -> None:
    """Refuse tag scores that have no order.

    Raises:
        DataError: a score is NaN or infinite (the first tag and video are named).
    """
    broken = np.argwhere(~np.isfinite(tags))
    if len(broken):
        row, column = broken[0]
        query, tag = pairs[row]
        raise DataError(
            f"{len(broken)} tag scores are not finite; the first is {tags[row, column]}, of tag '{tag}' of query "
            f"{query} against video {database[column]}: look at the features of both and at the checkpoint"
        )
