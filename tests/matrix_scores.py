"""A source of scores that holds one matrix, for tests of benchmarks and metrics without models and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.search.scores import ScoreMatrix


class MatrixScores:
    """Scores of whatever queries and videos a matrix has; counts how often it is asked."""

    modes: tuple[str, ...] = ("v",)
    pairwise = True

    def __init__(self, matrix: ScoreMatrix) -> None:
        self.matrix, self.asked = matrix, 0

    @classmethod
    def of(cls, scores: Mapping[str, Mapping[str, float]]) -> MatrixScores:
        """Take {query: {video: score}}, every query with the same videos."""
        queries, videos = tuple(scores), tuple(next(iter(scores.values())))
        rows = np.array([[scores[query][video] for video in videos] for query in queries], dtype=np.float64)
        return cls(ScoreMatrix(queries, videos, rows))

    @classmethod
    def random(cls, queries: Sequence[str], database: Sequence[str], seed: int = 0) -> MatrixScores:
        """Draw float32 scores without ties."""
        rng = np.random.default_rng(seed)
        values = rng.permutation(len(queries) * len(database)).reshape(len(queries), len(database))
        return cls(ScoreMatrix(tuple(queries), tuple(database), values.astype(np.float64) / values.size))

    def as_dicts(self) -> dict[str, dict[str, float]]:
        """Give {query: {video: score}}."""
        matrix = self.matrix
        rows = zip(matrix.queries, matrix.scores.tolist(), strict=True)
        return {query: dict(zip(matrix.database, row, strict=True)) for query, row in rows}

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Nothing is refused."""

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """The queries that have a row; none where no video has a column."""
        if set(partition.database).isdisjoint(self.matrix.database):
            return []
        return [query for query in partition.query_ids if query in self.matrix.queries]

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """The part of the matrix that is asked for."""
        self.asked += 1
        videos = set(self.matrix.database)
        chosen = self.matrix.take(
            self.known_queries(partition), [video for video in partition.database if video in videos]
        )
        return dict.fromkeys(modes, chosen)
