"""Supervised one-to-many batches: search topics with their queries, positives and annotated hard negatives.

A batch is a pure function of (seed, n) and of the mined lists, which checkpoints keep: nothing else is remembered
between batches, so a run can continue anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muvr_train.benchmarks.expressions import Expression
from muvr_train.benchmarks.types import Benchmark, Judgement, Query
from muvr_train.data.mining import MinedNegatives
from muvr_train.data.tag_rows import TaggedRow, tagged_rows
from muvr_train.errors import DataError


@dataclass(frozen=True)
class BatchPlan:
    """Which queries and database videos make a batch, and `relevance` float32 [Q, N] in {1, 0, -1}.

    A query may have several rows: as it is (its expression is None), and under tag expressions. `tag_relevance`, as
    large, is about the tags alone (see `TaggedRow.tag_relevance`), -1 in rows without an expression; None where no row
    has one.
    """

    queries: tuple[Query, ...]
    database: tuple[str, ...]
    relevance: np.ndarray
    expressions: tuple[Expression | None, ...]
    tag_relevance: np.ndarray | None = None


class OneToManyPlan:
    """Plans supervised batches.

    Args:
        benchmark: the training part; every query of it must have been split off for training.
        topics: search topics in a batch.
        queries_per_topic: at most so many queries of a topic.
        positives: matches drawn for each query.
        hard_negatives: annotated non-matches drawn for each query, the hard ones first.
        query_videos: also put the query videos into the database, as non-matches of other topics.
        one_partition: take the topics of a batch from one partition, so that its negatives are those which evaluation
            asks about; otherwise from all partitions.
        tag_rows: each drawn query has at most so many further rows, under tag expressions that some video meets. Their
            positives are drawn from what meets the expression, their hard negatives from the query's other matches.
        seed: all batches follow from it.
        mined: hard negatives that are drawn besides; they stand behind all others and change nothing else of a batch.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        topics: int = 8,
        queries_per_topic: int = 3,
        positives: int = 2,
        hard_negatives: int = 1,
        query_videos: bool = True,
        one_partition: bool = True,
        tag_rows: int = 0,
        seed: int = 0,
        mined: MinedNegatives | None = None,
    ) -> None:
        self.benchmark, self.mined = benchmark, mined
        self.queries_per_topic, self.positives, self.hard_negatives = queries_per_topic, positives, hard_negatives
        self.query_videos, self.tag_rows, self.seed = query_videos, tag_rows, seed
        self.judgements: dict[str, Judgement] = {}
        self.candidates: dict[str, tuple[list[str], list[str], list[str]]] = {}
        members: dict[str, list[Query]] = {}
        for partition in benchmark.partitions:
            self.judgements |= {judgement.query: judgement for judgement in partition.judgements}
            for query in partition.queries:
                if query.id in self.judgements and self.judgements[query.id].positives:
                    members.setdefault(query.topic, []).append(query)
        if not members:
            raise DataError("the training split has no query with a positive video: nothing to train on")
        self.members = members
        self.tagged = tagged_rows(benchmark, self.judgements) if tag_rows else {}
        groups: dict[str, list[str]] = {}
        for topic in sorted(members):
            groups.setdefault(members[topic][0].partition if one_partition else "", []).append(topic)
        self.groups = list(groups.values())
        self.sizes = [min(topics, len(group)) for group in self.groups]

    @property
    def batches_per_pass(self) -> int:
        """Batches until every topic was drawn once (the rest of a pass that fills no batch is left out)."""
        return sum(len(group) // size for group, size in zip(self.groups, self.sizes, strict=True))

    def _topics(self, n: int) -> list[str]:
        """Give the topics of batch `n`: in each pass every group is shuffled and cut, and the pieces are shuffled."""
        passed, place = divmod(n, self.batches_per_pass)
        rng = np.random.default_rng([self.seed, 0, passed])
        batches = []
        for group, size in zip(self.groups, self.sizes, strict=True):
            order = [group[i] for i in rng.permutation(len(group))]
            batches += [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
        return batches[int(rng.permutation(len(batches))[place])]

    def __call__(self, n: int) -> BatchPlan:
        """Plan batch `n`, counted from the start of training."""
        rng, mining, tagging = (np.random.default_rng([self.seed, word, n]) for word in (1, 11, 4))
        rows: list[tuple[Query, TaggedRow | None]] = []
        chosen: dict[str, None] = {}
        besides: dict[str, None] = {}
        for topic in self._topics(n):
            for query in _draw(self.members[topic], self.queries_per_topic, rng):
                rows.append((query, None))
                chosen |= dict.fromkeys(self._videos_of(query, rng))
                if self.mined is not None:
                    besides |= dict.fromkeys(self.mined.draw(query.id, mining))
                for tagged in _draw(self.tagged.get(query.id, ()), self.tag_rows, tagging):
                    rows.append((query, tagged))
                    chosen |= dict.fromkeys(_draw(tagged.positives, self.positives, tagging))
                    chosen |= dict.fromkeys(_draw(tagged.hard_negatives, self.hard_negatives, tagging))
        if self.query_videos:
            chosen |= dict.fromkeys(query.video_id for query, _ in rows)
        database, queries = tuple(chosen | besides), tuple(query for query, _ in rows)
        relevance = np.asarray([[self._relevance(*row, video) for video in database] for row in rows], np.float32)
        expressions = tuple(None if tagged is None else tagged.row.expression for _, tagged in rows)
        return BatchPlan(queries, database, relevance, expressions, _tag_relevance([row for _, row in rows], database))

    def _relevance(self, query: Query, tagged: TaggedRow | None, video: str) -> int:
        plain = self.benchmark.relevance(query.id, video)
        return plain if tagged is None else tagged.relevance(plain, video)

    def _videos_of(self, query: Query, rng: np.random.Generator) -> list[str]:
        positives, hard, easy = self._candidates(query)
        chosen = _draw(hard, self.hard_negatives, rng)
        return _draw(positives, self.positives, rng) + chosen + _draw(easy, self.hard_negatives - len(chosen), rng)

    def _candidates(self, query: Query) -> tuple[list[str], list[str], list[str]]:
        """Positives, hard negatives and other negatives to draw from, sorted; thousands, so they are sorted once."""
        if query.id not in self.candidates:
            judgement, own = self.judgements[query.id], {query.video_id}
            easy = judgement.negatives - judgement.hard_negatives - own
            found = (sorted(judgement.positives.keys() - own), sorted(judgement.hard_negatives - own), sorted(easy))
            self.candidates[query.id] = found
        return self.candidates[query.id]


def _tag_relevance(rows: Sequence[TaggedRow | None], database: Sequence[str]) -> np.ndarray | None:
    if not any(rows):
        return None
    found = [[-1 if row is None else row.tag_relevance(video) for video in database] for row in rows]
    return np.asarray(found, np.float32)


def _draw(items: Sequence, count: int, rng: np.random.Generator) -> list:  # type: ignore[type-arg]
    """Draw at most `count` different items."""
    return [items[i] for i in rng.permutation(len(items))[: max(count, 0)]]
