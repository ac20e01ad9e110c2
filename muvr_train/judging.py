"""The rows of an evaluation: scores of each partition and mode beside what is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.left_out import NO_REGION, NO_SCORES, NO_TEXT, Reasons
from muvr_train.metrics.ranks import Ties
from muvr_train.search.filter_scores import TagSettings, counts_of_given, score_filters
from muvr_train.search.judged import JudgedScores, judge
from muvr_train.search.learned_tags import score_beside
from muvr_train.search.partitions import score_partitions
from muvr_train.search.planning import FOCUSED
from muvr_train.search.protocols import GivenFilters, LearnedTags
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import TAGGED, ScoreSource

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
    asked = plain_modes(source, modes)
    scored_parts = score_partitions(source, scorable, asked) if asked else ((partition, {}) for partition in scorable)
    for partition, scored in scored_parts:
        lost = {"missing_queries": missing[partition.name]}
        for mode in modes:
            if mode == TAGGED and isinstance(source, LearnedTags):
                yield from _tagged_row(source, partition, scored.get("tv"), lost)
            elif mode == TAGGED and isinstance(source, GivenFilters):
                yield from _given_row(source, partition, source.known_queries(partition), lost)
            else:
                yield from _plain_row(partition, mode, scored.get(mode), known[partition.name], lost, reasons)


def plain_modes(source: ScoreSource, modes: Sequence[str]) -> tuple[str, ...]:
    """The modes in which queries alone are scored: tv for tv+tag, none where its scores are given."""
    if isinstance(source, LearnedTags):
        modes = ["tv" if mode == TAGGED else mode for mode in modes]
    elif isinstance(source, GivenFilters):
        modes = [mode for mode in modes if mode != TAGGED]
    return tuple(dict.fromkeys(modes))


def _plain_row(
    partition: Partition,
    mode: str,
    matrix: ScoreMatrix | None,
    known: int,
    lost: Mapping[str, int],
    reasons: Reasons,
) -> Iterator[Row]:
    what, reason = ("region", NO_REGION) if mode == FOCUSED else ("text", NO_TEXT)
    if matrix is None or not matrix.queries:
        reasons[partition.name, mode] = reason
        return
    matrix.refuse_nan()
    counts = {**lost, f"queries_without_{what}": known - len(matrix.queries)}
    yield partition, mode, judge(partition, matrix), counts


def _tagged_row(
    source: LearnedTags, partition: Partition, matrix: ScoreMatrix | None, lost: Mapping[str, int]
) -> Iterator[Row]:
    if matrix is None or not matrix.queries:
        return
    matrix.refuse_nan()
    found = score_beside(source, partition, matrix)
    if found is not None:
        yield partition, TAGGED, found.judged, {**lost, **found.counts}


def _given_row(
    source: GivenFilters, partition: Partition, known: Sequence[str], lost: Mapping[str, int]
) -> Iterator[Row]:
    for name, judged in source.filter_scores(partition):
        if name == TAGGED:
            yield partition, TAGGED, judged, {**lost, **counts_of_given(partition, judged, known)}
