"""Hard negatives mined with the model that is being trained: by query, the best-scored videos that are no match.

A batch is a function of (seed, n, the lists in force). What a loader has prepared under older lists it prepares again
(`data.loader`), so that lists are in force from the very next batch, however far ahead batches are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Benchmark


class MinedNegatives:
    """The mined lists in force, empty at first.

    Args:
        per_query: so many of its list are drawn into each batch of a query.

    Attributes:
        lists: query id -> ids of non-matches, the best-scored first.
        version: grows whenever the lists change.
    """

    def __init__(self, per_query: int = 2) -> None:
        self.per_query, self.version = per_query, 0
        self.lists: Mapping[str, Sequence[str]] = {}

    def replace(self, lists: Mapping[str, Sequence[str]]) -> None:
        """Put new lists in force."""
        self.lists = lists
        self.version += 1

    def draw(self, query: str, rng: np.random.Generator) -> list[str]:
        """Draw at most `per_query` different videos of a query's list; none where it has none."""
        listed = self.lists.get(query, ())
        return [listed[i] for i in rng.permutation(len(listed))[: self.per_query]]


def hardest(
    benchmark: Benchmark, query: str, database: Sequence[str], scores: NDArray[np.floating], top: int
) -> Iterator[tuple[str, float]]:
    """Give the `top` best-scored videos that a query is known not to match, and their scores, the best first.

    Known means relevance 0 by id: matches, the query's own video, and unjudged videos of its search topic never come.

    Args:
        benchmark: the training part.
        query: its id.
        database: [N] ids.
        scores: [N], without NaN; of equal ones the first comes first.
        top: at most so many.
    """
    for place in np.argsort(-scores, kind="stable").tolist():
        if top < 1:
            return
        if benchmark.relevance(query, database[place]) == 0:
            top -= 1
            yield database[place], float(scores[place])
