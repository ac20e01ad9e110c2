"""Where scores come from: a model with a feature store here; files, fusions and calibrations have the same face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.agreement import in_step
from muvr_train.benchmarks.muvr_filter import FilterRow
from muvr_train.benchmarks.types import Benchmark, Partition, Query
from muvr_train.data.batch import REGION, has_regions
from muvr_train.data.tags import tag_vectors
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.models.retriever import Retriever
from muvr_train.processes import SINGLE, Group
from muvr_train.search.filter import TagPlaces
from muvr_train.search.planning import FOCUSED, device_of, query_work, tag_work
from muvr_train.search.required import refuse_missing
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.shares import Work, score_work
from muvr_train.search.tag_adjustment import adjustments
from muvr_train.types import TextTokens

TAGGED = "tv+tag"
"""The mode of queries with tag expressions."""


class ScoreSource(Protocol):
    """Gives scores of a partition's queries against its database.

    Attributes:
        modes: The modes that it can serve.
        pairwise: Whether the score of a pair is the same whatever else the partition holds. Tasks that share their
            queries are then scored once, over all of their videos.
    """

    modes: tuple[str, ...]
    pairwise: bool

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise a DataError that names what an evaluation needs and this source lacks."""

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the partition's queries that it knows, none where it knows no database video.

        Those without a part of a mode still have no row there.
        """

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """Scores of the queries and database videos that it knows, by mode; no rows where no query has a part of it.

        Raises:
            DataError: it knows no query or no database video.
        """


def supported_modes(model: Retriever, store: FeatureStore) -> tuple[str, ...]:
    """Give the modes that a store and a model can serve.

    They are v; t and tv where both know texts, tv+tag where the store has vectors of tags as well; and tv+region where
    it has features of marked regions.
    """
    with_text = store.dims.text_dim is not None and model.text_part is not None
    tagged = (TAGGED,) if with_text and "tags" in store.streams else ()
    focused = (FOCUSED,) if has_regions(store) else ()
    return (*(("v", "t", "tv") if with_text else ("v",)), *tagged, *focused)


class ModelScores:
    """The scores of a model on the features of a store.

    Args:
        model: on its device; put into eval mode while it scores.
        store: the features.
        frames_as_text: the official rule for queries without a text vector, see `data.batch.load_queries`.
        memory_budget: bytes that scoring may hold in a process, see `exhaustive.block_bytes`; changes memory, not
            results.
        group: processes that share the database videos; all of them make the same calls and get all scores.
    """

    pairwise = True

    def __init__(
        self,
        model: Retriever,
        store: FeatureStore,
        frames_as_text: bool = False,
        memory_budget: int | None = None,
        group: Group = SINGLE,
    ) -> None:
        self.model, self.store, self.frames_as_text, self.memory_budget = model, store, frames_as_text, memory_budget
        self.group = group
        self.modes = supported_modes(model, store)

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise if any feature that an evaluation needs is not in the store."""
        in_step(self.group, lambda: refuse_missing(self.store, benchmark, modes))

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the queries whose video has features; none where no database video has."""
        if not any(self.store.has(video) for video in partition.database):
            return []
        return [query.id for query in partition.queries if self.store.has(query.video_id)]

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """Score every query against every database video of a partition that has features; float32 matrices.

        Raises:
            DataError: no query or no database video has features, or a score is not finite.
        """
        work, filled = self._score(lambda: self.work(partition, modes))
        none = ScoreMatrix((), work.database, np.zeros((0, len(work.database)), np.float32))
        matrices = dict.fromkeys(modes, none)
        for rows, found in zip(work.rows, filled, strict=True):
            matrices |= {mode: ScoreMatrix(rows.ids, work.database, scores) for mode, scores in found.items()}
        for matrix in matrices.values():
            matrix.refuse_nan(f"the model ({type(self.model.network).__name__}, {type(self.model.head).__name__})")
        return matrices

    def has_text(self, query: str) -> bool:
        """Whether the store holds a text vector of this query."""
        return self.store.has(query, "text")

    def has_region(self, query: str) -> bool:
        """Whether the store holds usable features of this query's marked region."""
        return self.store.has(query, REGION) and has_regions(self.store)

    def has_tag(self, query: str, tag: str) -> bool:
        """Whether the store holds the vector of this tag of this query."""
        return self.store.has(tag_key(query, tag), "tags")

    def tag_scores(self, partition: Partition, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Score tags of queries: float32 [P, N], the columns those of `score`; see `models.text.TextPart`.

        Of several tokens of a tag the best counts, as officially. Queries that share a tag mostly have the same vector
        for it: equal vectors are scored once.

        Args:
            partition: whose database is scored.
            pairs: [P] query id and tag.

        Raises:
            DataError: a tag has no vector in the store, or the model has no text part.
        """
        return self._score_tags(partition, pairs)

    def mean_tag_scores(
        self, partition: Partition, pairs: Sequence[tuple[str, str]], known: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Score tags by the mean of their tokens, as `data.tags` gives them to training; else as `tag_scores`.

        Args:
            partition: whose database is scored.
            pairs: [P] query id and tag.
            known: what `tag_scores` has given for them: it is the same where every tag has one token.
        """
        if all(self.store.length(tag_key(*pair), "tags") == 1 for pair in pairs):
            return self.tag_scores(partition, pairs) if known is None else known

        return self._score_tags(partition, pairs, mean=True)

    def _score_tags(
        self, partition: Partition, pairs: Sequence[tuple[str, str]], mean: bool = False
    ) -> NDArray[np.float32]:
        places: list[int] = []

        def work() -> Work:
            found, rows = self.tag_work(partition, pairs, mean)
            places.extend(rows)
            return found

        _, (filled,) = self._score(work)
        return filled["tags"][places]

    def tag_work(
        self, partition: Partition, pairs: Sequence[tuple[str, str]], mean: bool = False
    ) -> tuple[Work, list[int]]:
        """What `tag_scores` scores (`mean`: `mean_tag_scores`), and [P] the row of each pair in it."""
        if mean:
            x = tag_vectors(self.store, pairs)[:, None]
            vectors = TextTokens(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))
        else:
            tokens = self.store.tokens([tag_key(query, tag) for query, tag in pairs], "tags")
            vectors = TextTokens(tokens.x[:, :, 0], tokens.mask)
        return tag_work(self.model, self.store, pairs, vectors, self._database(partition))

    @property
    def learns_tags(self) -> bool:
        """Whether the head learns the weight of tags."""
        return self.model.head.learns_tags

    def tag_adjustments(
        self, rows: Sequence[FilterRow], places: Sequence[TagPlaces], tags: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What the head adds to scores in mode tv for tag expressions; see `LearnedTags`."""
        return adjustments(self.model.head, self.store, rows, places, tags, device_of(self.model))

    def _score(self, work: Callable[[], Work]) -> tuple[Work, list[dict[str, NDArray[np.float32]]]]:
        return score_work(work, self.model, self.store, device_of(self.model), self.memory_budget, self.group)

    def work(self, partition: Partition, modes: Sequence[str]) -> Work:
        """What `score` scores, with nothing read yet."""
        queries, database = self._queries(partition), self._database(partition)
        return query_work(self.model, self.store, queries, database, modes, self.frames_as_text)

    def _queries(self, partition: Partition) -> list[Query]:
        queries = [query for query in partition.queries if self.store.has(query.video_id)]
        if not queries:
            raise DataError(f"partition {partition.name}: no query has features in {self.store.path}")
        return queries

    def _database(self, partition: Partition) -> tuple[str, ...]:
        database = tuple(video for video in partition.database if self.store.has(video))
        if not database:
            raise DataError(f"partition {partition.name}: no database video has features in {self.store.path}")
        return database
