"""What some sources of scores know besides scores of queries (see `sources.ScoreSource`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_filter import FilterRow
from muvr_train.benchmarks.types import Partition
from muvr_train.search.filter import TagPlaces
from muvr_train.search.judged import JudgedScores


@runtime_checkable
class TagSource(Protocol):
    """Can also score tags."""

    def has_tag(self, query: str, tag: str) -> bool:
        """Whether it can score this tag of this query."""

    def tag_scores(self, partition: Partition, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Scores [P, N] of tags of queries, the columns those of `ScoreSource.score`."""


@runtime_checkable
class LearnedTags(Protocol):
    """A source whose model merges the scores of tags with those of queries by itself.

    Attributes:
        learns_tags: Whether it has learned to.
    """

    learns_tags: bool

    def has_tag(self, query: str, tag: str) -> bool:
        """See `TagSource`."""

    def mean_tag_scores(
        self, partition: Partition, pairs: Sequence[tuple[str, str]], known: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Scores [P, N] of tags by the mean of their tokens, as training compares them.

        Args:
            partition: whose database is scored.
            pairs: [P] query and tag.
            known: what `TagSource.tag_scores` has given for them, where that is at hand.
        """

    def tag_adjustments(
        self, rows: Sequence[FilterRow], places: Sequence[TagPlaces], tags: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What is added to the scores of queries in mode tv: [R, N].

        Args:
            rows: [R] queries with tag expressions.
            places: [R] where their tags stand in `tags`.
            tags: [P, N], as `mean_tag_scores` gives them.
        """


@runtime_checkable
class RegionSource(Protocol):
    """A source of scores that knows which queries have a marked region."""

    def has_region(self, query: str) -> bool:
        """Whether it holds what is inside the region of this query."""


@runtime_checkable
class GivenFilters(Protocol):
    """A source that has the scores of MUVR-Filter's rows themselves, or scores that no tag can be merged with."""

    def filter_scores(self, partition: Partition) -> Iterator[tuple[str, JudgedScores]]:
        """Names of rows, and their scores of queries with tag expressions."""
