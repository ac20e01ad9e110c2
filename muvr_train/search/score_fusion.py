"""Fusion of several score files into one: mean, mean of z-scores, reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.errors import ConfigError, DataError
from muvr_train.search.file_scores import FileScores, own_pairs
from muvr_train.search.filter_files import common_rows, judge_given, repeat_queries, without_tags
from muvr_train.search.judged import JudgedScores
from muvr_train.search.scores import ScoreMatrix

Floats = NDArray[np.float64]
RANK_CONSTANT = 60


def mean_scores(matrices: Sequence[Floats]) -> Floats:
    """The plain mean of [Q, N] matrices: right where their scores have one scale, as cosines of one model do.

    NaN stands for pairs that are not ranked (a query against its own video), here and in the other two.
    """
    return sum(matrices[1:], start=matrices[0]) / len(matrices)


def z_mean(matrices: Sequence[Floats]) -> Floats:
    """The mean of [Q, N] matrices, each shifted and scaled to mean 0 and standard deviation 1.

    The two statistics are of all ranked pairs of a partition, not of each query: an increasing map of a whole matrix,
    so no file's own mAP or uAP changes by it, and how sure one query is beside another stays as its file has it. A
    constant matrix adds nothing.
    """
    scaled = []
    for matrix in matrices:
        centred = matrix - np.nanmean(matrix)
        spread = float(np.nanstd(matrix))
        scaled.append(centred / spread if spread > 0 else centred * 0)
    return mean_scores(scaled)


def reciprocal_rank(matrices: Sequence[Floats], constant: float = RANK_CONSTANT) -> Floats:
    """Reciprocal rank fusion: the sum over [Q, N] matrices of 1 / (constant + rank), ranks from 1 within each query.

    Equal scores share the mean of their ranks. Needs no common scale. Between queries only ranks are compared, so uAP
    no longer sees how sure a file is of one query beside another.
    Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods", SIGIR 2009, constant 60.

    >>> (1 / reciprocal_rank([np.array([[0.9, 0.1, 0.5, 0.1]])])).round(6)
    array([[61. , 63.5, 62. , 63.5]])
    """
    fused = np.zeros(matrices[0].shape)
    for matrix in matrices:
        for row, scores in enumerate(matrix):
            fused[row] += 1 / (constant + _ranks(scores))
    return fused


def _ranks(scores: Floats) -> Floats:
    """Ranks from 1, the highest score first, ties share their mean rank; NaN has none."""
    ranks = np.full(len(scores), np.nan)
    ranked = ~np.isnan(scores)
    _, group, size = np.unique(scores[ranked], return_inverse=True, return_counts=True)
    mean_rank = ranked.sum() - np.cumsum(size) + (size + 1) / 2
    ranks[ranked] = mean_rank[group]
    return ranks


FUSIONS: dict[str, Callable[[Sequence[Floats]], Floats]] = {
    "mean": mean_scores,
    "z_mean": z_mean,
    "reciprocal_rank": reciprocal_rank,
}


class FusedScores:
    """Several score files as one source, over the queries and database videos that all of them have.

    Args:
        files: two or more.
        method: `mean`, `z_mean` or `reciprocal_rank`.

    Raises:
        ConfigError: an unknown method, or fewer than two files.
    """

    pairwise = False  # ranks and z-scores look at the whole gallery

    def __init__(self, files: Sequence[FileScores], method: str) -> None:
        if method not in FUSIONS or len(files) < 2:
            raise ConfigError(f"fuse={method} of {len(files)} files: fuse two or more by {', '.join(FUSIONS)}")
        self.files, self.label = files, f"fusion: {method}"
        self.modes: tuple[str, ...] = ("+".join(dict.fromkeys(file.modes[0] for file in files)),)
        self._fuse = FUSIONS[method]

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise if a file lacks a query or a database video of the benchmark."""
        for file in self.files:
            file.refuse_missing(benchmark, modes)

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the partition's queries that every file has; none where they share no database video."""
        if not _common([list(file.known(partition)[1]) for file in self.files]):
            return []
        return _common([file.known_queries(partition) for file in self.files])

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """Fuse the files; float64, 0 for a query against its own video (which is never ranked).

        Raises:
            DataError: the files have no query or no video in common, or a score is not finite.
        """
        matrices = [file.score(partition, file.modes)[file.modes[0]] for file in self.files]
        queries = _common([matrix.queries for matrix in matrices])
        database = _common([matrix.database for matrix in matrices])
        if not queries or not database:
            what = "database video" if queries else "query"
            raise DataError(f"the score files have no {what} of partition {partition.name} in common")
        aligned = [matrix.take(queries, database) for matrix in matrices]
        own = own_pairs(partition, aligned[0])
        scores = [matrix.scores.astype(np.float64) for matrix in aligned]
        for matrix in scores:
            matrix[own] = np.nan
        fused = np.nan_to_num(self._fuse(scores))
        return dict.fromkeys(modes, ScoreMatrix(tuple(queries), tuple(database), fused))

    def filter_scores(self, partition: Partition) -> Iterator[tuple[str, JudgedScores]]:
        """Rows of MUVR-Filter: of what the files have in common, fused; they ignore the tags where every file does.

        Raises:
            DataError: a score is not finite.
        """
        if not any(file.has_expressions(partition) for file in self.files):
            yield from without_tags(
                partition, repeat_queries(partition, self.score(partition, self.modes)[self.modes[0]])
            )
            return
        given = common_rows([file.given_rows(partition) for file in self.files])
        if not given[0].rows:
            return
        judged = [judge_given(partition, one, file.label) for one, file in zip(given, self.files, strict=True)]
        unranked = judged[0].relevance < 0
        scores = [np.where(unranked, np.nan, one.scores.astype(np.float64)) for one in judged]
        yield self.modes[0], replace(judged[0], scores=np.nan_to_num(self._fuse(scores)))


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """What all lists hold, in the order of the first."""
    shared = set(lists[0]).intersection(*lists[1:])
    return [name for name in lists[0] if name in shared]
