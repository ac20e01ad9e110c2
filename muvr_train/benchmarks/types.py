"""What a benchmark is: queries, judgements and ordered databases, as plain frozen values.

Ids are strings `<partition>/<video id>`; they are also the keys of the features in a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from muvr_train.errors import ConfigError, DataError, shorten

Split = Literal["all", "train", "val", "test"]
Gallery = Literal["split", "full"]
Divisor = Literal["listed", "found", "annotated"]
SPLITS = ("train", "val", "test")
MATCH = "match"
"""The level of a positive of which the annotation says no more than that it matches."""
FOUND = "cut to the videos that were scored; a query without one is not counted"
"""What results say of the divisor "found"."""


@dataclass(frozen=True)
class Query:
    """A query as annotated.

    Attributes:
        id: `<partition>/<video id>`; where `video` is None also the key of its frames. Always the key of its text.
        partition: Name of the partition.
        topic: Name of the search topic, `<partition>/<topic>`; splits never cut through it unless asked to.
        text: The description, None where there is none.
        tags: The query's own tags.
        annotated_split: The annotation's own split, None where it has none.
        split: The split in force (`splits.apply_splits` sets it), None before.
        video: Key of the query's frames where it is not the query's own id (several queries may show one video).
        mask: Path of the file that marks the query's region, as annotated.
    """

    id: str
    partition: str
    topic: str
    text: str | None = None
    tags: tuple[str, ...] = ()
    annotated_split: str | None = None
    split: str | None = None
    video: str | None = None
    mask: str | None = None

    @property
    def video_id(self) -> str:
        """Key of the query's frames, the one video that its rankings leave out."""
        return self.id if self.video is None else self.video


@dataclass(frozen=True)
class Judgement:
    """What one query (with one tag expression, or none) should find.

    Attributes:
        query: Id of the query.
        positives: Database id -> finest correspondence level, or "match". May hold the query's own id: it cannot be
            found but counts in the number of positives (official).
        negatives: Ids listed under other relations, `hard_negatives` among them, disjoint from `positives`.
        hard_negatives: Ids listed as `hard_independent`, a subset of `negatives`.
        counted: False where the official program leaves the query out of mAP and recall (it has no list of positives);
            its database videos are still negatives in uAP.
        expression: Tag expression, None for MUVR-Base.
        ignored: Ids that training must not use with this query and that are not ranked for it: annotated as not judged,
            or former positives that were dropped from training as leaks.
        ranked: The only database videos that are ranked for it, the query's own one only if it is among them; None for
            all but the query's own one. The others are not judged.
    """

    query: str
    positives: Mapping[str, str]
    negatives: frozenset[str] = frozenset()
    hard_negatives: frozenset[str] = frozenset()
    counted: bool = True
    expression: str | None = None
    ignored: frozenset[str] = frozenset()
    ranked: frozenset[str] | None = None

    @property
    def listed(self) -> frozenset[str]:
        """Every id in one of the query's lists."""
        return self.negatives | self.positives.keys()


@dataclass(frozen=True)
class Partition:
    """Queries, their judgements (one or more per query) and the ordered ids of the database they search.

    `video_topics` gives the search topics of database videos: the annotation's own, and those of the queries that list
    the video as positive. A plain distractor has none. `divisor` says what average precision and recall divide by: all
    `listed` positives of the database, those that were `found` (scored), where a query without one is not counted, or
    all `annotated` ones, also those that the database lacks. `trapezoids` says that average precision is the area under
    the precision-recall curve by trapezoids (`metrics.trapezoids`), instead of the mean of precisions.
    `filters` are the judgements with a tag expression (MUVR-Filter); where there are some, they are what is evaluated
    (or a mode beside the others, see `Benchmark.filters_beside`), and `judgements` say what the database is.
    """

    name: str
    queries: tuple[Query, ...]
    judgements: tuple[Judgement, ...]
    database: tuple[str, ...]
    video_topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    divisor: Divisor = "listed"
    trapezoids: bool = False
    filters: tuple[Judgement, ...] = ()

    @cached_property
    def query_ids(self) -> tuple[str, ...]:
        """Ids of the queries, in order."""
        return tuple(query.id for query in self.queries)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """Names of the search topics, sorted."""
        return tuple(sorted({query.topic for query in self.queries}))

    def keep(self, queries: tuple[Query, ...], gallery: Gallery) -> Partition:
        """Keep only these queries; `gallery="split"` keeps of the database what their lists hold."""
        ids = {query.id for query in queries}
        judgements = tuple(judgement for judgement in self.judgements if judgement.query in ids)
        database = self.database
        if gallery == "split":
            listed = frozenset().union(*(judgement.listed for judgement in judgements))
            database = tuple(video for video in database if video in listed)
        filters = tuple(row for row in self.filters if row.query in ids)
        return replace(self, queries=queries, judgements=judgements, database=database, filters=filters)


@dataclass(frozen=True)
class Benchmark:
    """Named partitions, what protocol they stand for, and what was odd in their annotation.

    Attributes:
        name: `muvr_base`, ...
        partitions: In the order of the tables.
        protocol: Plain facts for the results file: split, gallery, split_source, ...
        warnings: One line per kind of oddity that the official program defines a meaning for.
        averaged: Names of the partitions that the row `mean` averages, None for all.
        notes: How to read the tables, a sentence or two each.
        filters_beside: Tag expressions are a mode beside those of the plain queries, not evaluated instead of them.
    """

    name: str
    partitions: tuple[Partition, ...]
    protocol: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    averaged: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    filters_beside: bool = False

    def __getitem__(self, name: str) -> Partition:
        """The partition of that name.

        Raises:
            ConfigError: there is none.
        """
        for partition in self.partitions:
            if partition.name == name:
                return partition
        have = ", ".join(partition.name for partition in self.partitions)
        raise ConfigError(f"benchmark {self.name} has no partition '{name}'; it has {have}")

    @property
    def has_filters(self) -> bool:
        """Whether tag expressions are what is evaluated."""
        return not self.filters_beside and any(partition.filters for partition in self.partitions)

    @property
    def missing_advice(self) -> str:
        """What to do about videos that are not there, for messages."""
        if all(partition.divisor == "listed" for partition in self.partitions):
            return "Pass on_missing=official to count them as not retrieved and show the counts."
        effect = "matches are cut to it" if self.partitions[0].divisor == "found" else "lost matches still count"
        return (
            "Many videos of this benchmark are no longer on the web: pass on_missing=official to evaluate on what is "
            f"there, as the field does ({effect}; the counts are shown)."
        )

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """All queries, partition after partition."""
        return tuple(query for partition in self.partitions for query in partition.queries)

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """All judgements, partition after partition."""
        return tuple(judgement for partition in self.partitions for judgement in partition.judgements)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """Names of the search topics, partition after partition, sorted within each."""
        return tuple(topic for partition in self.partitions for topic in partition.topics)

    @cached_property
    def query_by_id(self) -> Mapping[str, Query]:
        """Queries by id."""
        return {query.id: query for query in self.queries}

    @cached_property
    def judgement_by_query(self) -> Mapping[str, Judgement]:
        """The judgements without a tag expression, by query id."""
        return {judgement.query: judgement for judgement in self.judgements if judgement.expression is None}

    @cached_property
    def video_topics(self) -> Mapping[str, frozenset[str]]:
        """Search topics of database and query videos, over all partitions; a plain distractor is absent."""
        merged: dict[str, frozenset[str]] = {}
        for query in self.queries:
            merged[query.video_id] = merged.get(query.video_id, frozenset()) | {query.topic}
        for partition in self.partitions:
            for video, topics in partition.video_topics.items():
                merged[video] = merged.get(video, frozenset()) | topics
        return merged

    @cached_property
    def video_ids(self) -> tuple[str, ...]:
        """Every video whose features an evaluation needs: those of queries and the database, each once, in order."""
        ids: dict[str, None] = {}
        for partition in self.partitions:
            ids |= dict.fromkeys((*(query.video_id for query in partition.queries), *partition.database))
        return tuple(ids)

    def relevance(self, query_id: str, database_id: str) -> int:
        """What training may assume of a pair: 1 a match, 0 no match, -1 not judged.

        A query's own video and its ignored ones are -1. Listed videos are 1 or 0 as listed. An unlisted video is -1
        if it belongs to the query's search topic (nobody looked at the pair) and 0 otherwise. Evaluation is
        stricter, as the official program is: there every unlisted database video is a non-match.

        Raises:
            KeyError: the query is not of this benchmark.
        """
        judgement, query = self.judgement_by_query[query_id], self.query_by_id[query_id]
        if database_id == query.video_id or database_id in judgement.ignored:
            return -1
        if database_id in judgement.positives:
            return 1
        if database_id in judgement.negatives:
            return 0
        return -1 if query.topic in self.video_topics.get(database_id, ()) else 0

    def select(self, split: Split = "all", gallery: Gallery = "split") -> Benchmark:
        """The queries of one split.

        Args:
            split: `all`, or a split that `splits.apply_splits` gave to the queries.
            gallery: `split` searches only what the retained queries' lists hold (as the official program does with a
                split); `full` searches the whole database.

        Returns:
            A benchmark whose protocol records both; a partition without a query of the split is left out, with a
            warning.

        Raises:
            ConfigError: an unknown split or gallery.
            DataError: queries have no split yet, or no query is left.
        """
        if split not in ("all", *SPLITS) or gallery not in ("split", "full"):
            raise ConfigError(
                f"split={split}, gallery={gallery}: use split all, train, val or test and gallery split or full"
            )
        lost = [query.id for query in self.queries if query.split is None]
        if split != "all" and lost:
            raise DataError(f"benchmark {self.name}: queries without a split: {shorten(lost)}; call apply_splits first")
        kept = []
        warnings = list(self.warnings)
        for partition in self.partitions:
            queries = tuple(query for query in partition.queries if split in ("all", query.split))
            if queries:
                kept.append(partition.keep(queries, gallery))
            else:
                warnings.append(f"{partition.name}: no query in split {split}; the partition is left out")
        if not kept:
            has = ", ".join(f"{name} {sum(query.split == name for query in self.queries)}" for name in SPLITS)
            raise DataError(
                f"benchmark {self.name}: no partition has a query in split {split} (it has {has}). Training needs "
                "queries in train, val and test: name them in the annotation, or pass benchmark.split_source=topic to "
                "split by search topic (data.fractions says how). benchmark.split=all evaluates without splits"
            )
        protocol = {**self.protocol, "split": split, "gallery": gallery}
        return replace(self, partitions=tuple(kept), protocol=protocol, warnings=tuple(warnings))
