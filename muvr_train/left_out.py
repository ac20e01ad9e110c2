"""Partitions that have no row in a mode, and why."""

from __future__ import annotations

from collections.abc import Sequence

from muvr_train.benchmarks.types import Partition
from muvr_train.results import Results

Reasons = dict[tuple[str, str], str]
"""Why a partition has no row in a mode, by the names of both; mode "" for all modes."""
NO_SCORES = "no query or no database video has scores"
NO_TEXT = "no scored query has a text"
NO_REGION = "no scored query has features of a marked region"
NO_MATCH = "no match of any query was scored"
NO_LIST = "no scored query has a list of positives"
NO_EXPRESSION = "no scored query has a tag expression that is evaluated there"


def left_out(results: Results, partitions: Sequence[Partition], modes: Sequence[str], reasons: Reasons) -> list[str]:
    """Say which partitions have no row in which modes, and why.

    Args:
        results: with the rows of partitions.
        partitions: of the benchmark.
        modes: that rows were asked for in.
        reasons: `NO_EXPRESSION` where there is none.
    """
    have = {(row["partition"], row["mode"]) for row in results.rows}
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in (partition.name for partition in partitions):
        lost: dict[str, tuple[str, ...]] = {}
        for mode in modes:
            if (name, mode) not in have:
                why = reasons.get((name, mode)) or reasons.get((name, ""), NO_EXPRESSION)
                lost[why] = (*lost.get(why, ()), mode)
        for why_and_modes in lost.items():
            alike.setdefault(why_and_modes, []).append(name)
    return [
        f"{', '.join(names)}: left out of mode {', '.join(which)}, because {why}"
        for (why, which), names in alike.items()
    ]
