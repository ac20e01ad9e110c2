"""The rows of an evaluation: scores of each partition and mode beside what is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.left_out import NO_REGION, NO_SCORES, NO_TEXT, Reasons
from muvr_train.metrics.ranks import Ties
from muvr_train.search.filter_scores import TagSettings, score_filters
from muvr_train.search.judged import JudgedScores, judge
from muvr_train.search.learned_tags import score_beside
from muvr_train.search.partitions import score_partitions
from muvr_train.search.protocols import LearnedTags
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import FOCUSED, TAGGED, ScoreSource

Row = tuple[Partition, str, JudgedScores, dict[str, int]]
"""Partition, mode, judged scores, and counts that are not in the scores."""


def judged_rows(
    source: ScoreSource, benchmark: Benchmark, modes: Sequence[str], tags: TagSettings, ties: Ties, reasons: Reasons
) -> Iterator[Row]:
    """Give the rows of a benchmark, tag expressions one mode at a time.

    Args:
        source: of the scores.
        benchmark: its partitions.
        modes: that are asked for and that the source has.
        tags: which rows of MUVR-Filter.
        ties: tie policy by which its upper bound chooses.
        reasons: gets why a partition has no row in a mode.

    Raises:
        DataError: nothing of the benchmark has scores, or a score is not a number.
    """
    known = {partition.name: len(source.known_queries(partition)) for partition in benchmark.partitions}
    if not any(known.values()):
        source.score(benchmark.partitions[0], modes)  # refuses, and says what is there instead
    reasons.update({(name, ""): NO_SCORES for name, count in known.items() if not count})
    scorable = [partition for partition in benchmark.partitions if known[partition.name]]
    missing = {partition.name: len(partition.queries) - known[partition.name] for partition in scorable}
    if benchmark.has_filters:
        for partition in scorable:
            for expanded in score_filters(source, partition, modes, tags, ties):
                counts = {"missing_queries": missing[partition.name], **expanded.counts}
                yield partition, expanded.mode, expanded.judged, counts
        return
    beside = source if TAGGED in modes and isinstance(source, LearnedTags) else None
    plain = [mode for mode in modes if beside is None or mode != TAGGED]
    asked = plain if beside is None else dict.fromkeys([*plain, "tv"])
    for partition, scored in score_partitions(source, scorable, tuple(asked)):
        lost = {"missing_queries": missing[partition.name]}
        yield from _plain_rows(partition, scored, plain, known[partition.name], lost, reasons)
        if beside is not None and scored["tv"].queries:
            scored["tv"].refuse_nan()
            tagged = score_beside(beside, partition, scored["tv"])
            if tagged is not None:
                yield partition, TAGGED, tagged.judged, {**lost, **tagged.counts}


def _plain_rows(
    partition: Partition,
    scored: Mapping[str, ScoreMatrix],
    modes: Sequence[str],
    known: int,
    lost: Mapping[str, int],
    reasons: Reasons,
) -> Iterator[Row]:
    for mode in modes:
        matrix, what = scored.get(mode), "region" if mode == FOCUSED else "text"
        if matrix is None or not matrix.queries:
            reasons[partition.name, mode] = NO_REGION if mode == FOCUSED else NO_TEXT
            continue
        matrix.refuse_nan()
        counts = {**lost, f"queries_without_{what}": known - len(matrix.queries)}
        yield partition, mode, judge(partition, matrix), counts
