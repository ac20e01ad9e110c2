"""Score matrices at hand as a source of scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.errors import DataError, shorten
from muvr_train.search.filter_files import GivenRows, judge_given
from muvr_train.search.judged import JudgedScores
from muvr_train.search.score_ids import row_id
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import TAGGED


class HeldScores:
    """Scores that were made before, by mode and partition.

    Args:
        matrices: mode -> partition -> its scores; those of mode tv+tag have rows called by `score_ids.row_id`.
    """

    pairwise = False  # every partition has a matrix of its own

    def __init__(self, matrices: Mapping[str, Mapping[str, ScoreMatrix]]) -> None:
        self.matrices = matrices
        self.modes = tuple(matrices)

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise if a query or a database video has no scores in any mode.

        Raises:
            DataError: with the ids.
        """
        del modes
        queries = [q for part in benchmark.partitions for q in set(part.query_ids) - set(self.known_queries(part))]
        videos = [
            video
            for part in benchmark.partitions
            for video in set(part.database).difference(*(matrix.database for matrix in self._of(part).values()))
        ]
        if queries or videos:
            lost = shorten(sorted([*queries, *videos]), 50)
            raise DataError(f"{len(queries)} queries and {len(videos)} database videos have no scores: {lost}")

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the partition's queries that have scores in any mode, against any of its database videos."""
        have = frozenset(partition.database)
        matrices = [matrix for matrix in self._of(partition).values() if not have.isdisjoint(matrix.database)]
        known = {query for matrix in matrices for query in matrix.queries}
        return [query for query in partition.query_ids if query in known]

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """Give the scores, rows and columns in the partition's order."""
        return {
            mode: matrix.take(_kept(partition.query_ids, matrix.queries), _kept(partition.database, matrix.database))
            for mode, matrix in self._of(partition).items()
            if mode in modes and mode != TAGGED
        }

    def filter_scores(self, partition: Partition) -> Iterator[tuple[str, JudgedScores]]:
        """The rows of mode tv+tag."""
        matrix = self._of(partition).get(TAGGED)
        if matrix is None:
            return
        known = frozenset(matrix.queries)
        ids = {row_id(row.judgement.query, row.judgement.expression): row for row in filter_rows(partition)}
        rows = {name: row for name, row in ids.items() if name in known}
        matrix = matrix.take(list(rows), _kept(partition.database, matrix.database))
        yield TAGGED, judge_given(partition, GivenRows(list(rows.values()), matrix.database, matrix.scores))

    def _of(self, partition: Partition) -> dict[str, ScoreMatrix]:
        return {mode: parts[partition.name] for mode, parts in self.matrices.items() if partition.name in parts}


def stack_rows(parts: Sequence[ScoreMatrix]) -> ScoreMatrix:
    """Put scores of different queries against one database under each other.

    Args:
        parts: of the same database videos in any order.

    Raises:
        DataError: the databases differ, or a query has scores twice.
    """
    first = parts[0]
    for part in parts[1:]:
        if differing := set(part.database) ^ set(first.database):
            raise DataError(f"scores against different databases: {shorten(sorted(differing))} are not in both")
    rows = [part.take(database=first.database).scores for part in parts]
    return ScoreMatrix(tuple(query for part in parts for query in part.queries), first.database, np.concatenate(rows))


def _kept(wanted: Sequence[str], have: Sequence[str]) -> list[str]:
    known = frozenset(have)
    return [name for name in wanted if name in known]
