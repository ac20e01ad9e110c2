"""Queries under tag expressions, as training draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muvr_train.benchmarks.muvr_filter import FilterRow, filter_rows
from muvr_train.benchmarks.types import Benchmark, Judgement


@dataclass(frozen=True)
class TaggedRow:
    """A query under a tag expression.

    Attributes:
        row: the judgement and the expression.
        positives: videos of the partition's database that meet it, without the query's own and ignored ones; sorted.
        hard_negatives: other matches of the query, which do not meet the expression; sorted.
        ignored: what is not judged for the query or for the expression, and the query's own video.
    """

    row: FilterRow
    positives: list[str]
    hard_negatives: list[str]
    ignored: frozenset[str]

    def relevance(self, plain: int, video: str) -> int:
        """What training assumes of a video: 1 where it meets the expression, 0 where it only matches the query.

        Args:
            plain: the relevance of the pair without the expression.
            video: of the database.
        """
        if video in self.ignored:
            return -1
        return 1 if video in self.row.judgement.positives else min(plain, 0)

    def tag_relevance(self, video: str) -> int:
        """What is known of the expression alone: 1 meets it, 0 does not, -1 nobody said.

        Only matches of the query are judged by their tags: a video of another topic may well show what they ask for.

        Args:
            video: of the database.
        """
        if video in self.ignored:
            return -1
        return 1 if video in self.row.judgement.positives else 0 if video in self.hard_negatives else -1


def tagged_rows(benchmark: Benchmark, judgements: Mapping[str, Judgement]) -> dict[str, list[TaggedRow]]:
    """Give the tag expressions that some video meets, by the ids of their queries.

    Args:
        benchmark: the training part.
        judgements: those without an expression, by query.
    """
    rows: dict[str, list[TaggedRow]] = {}
    for partition in benchmark.partitions:
        own, database = {query.id: query.video_id for query in partition.queries}, frozenset(partition.database)
        for row in filter_rows(partition):
            query, plain, met = row.judgement.query, judgements[row.judgement.query], row.judgement.positives.keys()
            ignored = plain.ignored | row.judgement.ignored | {own[query]}
            able = database - ignored
            if able & met:
                others = able & (plain.positives.keys() - met)
                rows.setdefault(query, []).append(TaggedRow(row, sorted(able & met), sorted(others), ignored))
    return rows
