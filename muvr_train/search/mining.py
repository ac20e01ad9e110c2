"""Hard negatives by a model's scores: every training query against the database of its partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muvr_train.benchmarks.types import Benchmark
from muvr_train.data.mining import hardest
from muvr_train.search.sources import ScoreSource


@dataclass(frozen=True)
class Mined:
    """What was mined.

    Attributes:
        lists: query id -> ids of non-matches, the best-scored first; without queries that have none.
        mean_score: of all of them; NaN where there are none.
        without: queries that have no list: they lack the parts of the mode, or nothing is judged for them.
    """

    lists: dict[str, list[str]]
    mean_score: float
    without: int


def mine(source: ScoreSource, benchmark: Benchmark, mode: str, top: int) -> Mined:
    """Score the queries and keep the best-scored non-matches of each.

    Where several processes share the scoring, all call this and get the same.

    Args:
        source: scores, of the model as it is now.
        benchmark: the training part.
        mode: of the queries; one that lacks some of its parts is scored by those that it has.
        top: videos that are kept for each query.

    Raises:
        DataError: a score is NaN.
    """
    lists: dict[str, list[str]] = {}
    scores: list[float] = []
    for partition in benchmark.partitions:
        if not source.known_queries(partition):
            continue
        matrix = source.score(partition, (mode,))[mode]
        matrix.refuse_nan()
        for query, row in zip(matrix.queries, matrix.scores, strict=True):
            judged = query in benchmark.judgement_by_query
            found = list(hardest(benchmark, query, matrix.database, row, top)) if judged else []
            if found:
                lists[query] = [video for video, _ in found]
                scores += [score for _, score in found]
    return Mined(lists, float(np.mean(scores)) if scores else float("nan"), len(_ids(benchmark) - lists.keys()))


def _ids(benchmark: Benchmark) -> set[str]:
    return {query.id for query in benchmark.queries}


def count_new(lists: dict[str, list[str]], before: dict[str, Sequence[str]]) -> int:
    """Pairs of a query and a video that an earlier mining did not have."""
    return sum(len(set(videos).difference(before.get(query, ()))) for query, videos in lists.items())
