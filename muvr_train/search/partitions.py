"""Scores of a benchmark's partitions, of which some may ask the same queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muvr_train.benchmarks.types import Partition
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import ScoreSource


def score_partitions(
    source: ScoreSource, partitions: Sequence[Partition], modes: Sequence[str]
) -> Iterator[tuple[Partition, dict[str, ScoreMatrix]]]:
    """Score partition by partition; tasks that ask the same queries are scored once where that changes no score."""
    for joined, group in joint(source, partitions):
        scored = source.score(joined, modes)
        if len(group) == 1:
            yield joined, scored
            continue
        for partition in group:
            wanted = frozenset(partition.database)
            cut = {
                mode: matrix.take(database=[video for video in matrix.database if video in wanted])
                for mode, matrix in scored.items()
            }
            yield partition, cut


def joint(source: ScoreSource, partitions: Sequence[Partition]) -> Iterator[tuple[Partition, list[Partition]]]:
    """What is scored at a time: a partition, or one over all videos of those that ask the same queries; and these."""
    groups: dict[tuple[str, ...], list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.query_ids if source.pairwise else (partition.name,), []).append(partition)
    for group in groups.values():
        every = tuple(dict.fromkeys(video for partition in group for video in partition.database))
        yield group[0] if len(group) == 1 else replace(group[0], database=every), group
