"""A benchmark without the videos that have no features: what can be trained on under `on_missing: official`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition


def without_missing(benchmark: Benchmark, has: Callable[[str], bool]) -> tuple[Benchmark, int]:
    """Leave out queries, matches, non-matches and database videos without features.

    Args:
        benchmark: usually its training part. Never use the result for evaluation: there a missing match still counts.
        has: whether a video has features.

    Returns:
        The smaller benchmark, and how many ids it lacks.
    """
    missing = {video for video in benchmark.video_ids if not has(video)}
    if not missing:
        return benchmark, 0
    return replace(benchmark, partitions=tuple(_smaller(part, missing) for part in benchmark.partitions)), len(missing)


def _smaller(partition: Partition, missing: set[str]) -> Partition:
    def known(row: Judgement) -> Judgement:
        positives = {video: level for video, level in row.positives.items() if video not in missing}
        negatives, hard = row.negatives - missing, row.hard_negatives - missing
        return replace(row, positives=positives, negatives=negatives, hard_negatives=hard)

    queries = tuple(query for query in partition.queries if query.video_id not in missing)
    kept = {query.id for query in queries}
    return replace(
        partition,
        queries=queries,
        judgements=tuple(known(row) for row in partition.judgements if row.query in kept),
        database=tuple(video for video in partition.database if video not in missing),
        filters=tuple(known(row) for row in partition.filters if row.query in kept),
    )


def without_untagged(benchmark: Benchmark, has_tag: Callable[[str, str], bool]) -> tuple[Benchmark, int]:
    """Leave out tag expressions of which a tag has no vector.

    Args:
        benchmark: usually its training part.
        has_tag: whether a tag of a query has one.

    Returns:
        The benchmark with fewer expressions, and how many it lacks.
    """
    partitions, lost = [], 0
    for partition in benchmark.partitions:
        rows = [row for row in filter_rows(partition) if all(has_tag(*pair) for pair in row.pairs)]
        lost += len(partition.filters) - len(rows)
        partitions.append(replace(partition, filters=tuple(row.judgement for row in rows)))
    return replace(benchmark, partitions=tuple(partitions)), lost
