"""Queries without a text vector: which modes are worth a row, and MUVR's official rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError
from muvr_train.models.queries import MODES
from muvr_train.search.planning import FOCUSED
from muvr_train.search.protocols import LearnedTags, RegionSource
from muvr_train.search.sources import TAGGED, ScoreSource

MUVR = ("muvr_base", "muvr_filter")


@runtime_checkable
class TextSource(Protocol):
    """A source of scores that knows which queries have a text."""

    frames_as_text: bool

    def has_text(self, query: str) -> bool:
        """Whether it holds a text vector of this query."""


def official_texts(on_missing: str, benchmark: Benchmark) -> bool:
    """Whether a query's own frames stand in for its text: a rule of MUVR's official program, for its benchmarks."""
    return on_missing == "official" and benchmark.name in MUVR


def served_modes(source: ScoreSource, benchmark: Benchmark) -> tuple[str, ...]:
    """Give the modes of a source that are worth a row.

    Without t and tv where no query of the benchmark has a text vector: tv would be v again. With tv+tag where tag
    expressions stand beside the plain queries, and with tv+region where a query has a region.
    """
    modes = dict.fromkeys(source.modes)
    if isinstance(source, TextSource) and not any(source.has_text(query.id) for query in benchmark.queries):
        modes = dict.fromkeys(mode for mode in modes if mode not in ("t", "tv"))
    if isinstance(source, LearnedTags) and not _has_readable_tags(source, benchmark):
        modes.pop(TAGGED, None)
    if isinstance(source, RegionSource) and not any(source.has_region(query.id) for query in benchmark.queries):
        modes.pop(FOCUSED, None)
    return tuple(modes)


def _has_readable_tags(source: LearnedTags, benchmark: Benchmark) -> bool:
    """Whether a tag expression that is evaluated beside the plain queries has vectors of all its tags."""
    if not benchmark.filters_beside:
        return False
    rows = (row for partition in benchmark.partitions for row in filter_rows(partition))
    return any(all(source.has_tag(*pair) for pair in row.pairs) for row in rows)


def check_modes(modes: Sequence[str], source: ScoreSource) -> None:
    """Refuse modes that this source cannot serve.

    Raises:
        ConfigError: naming the mode.
    """
    for mode in modes:
        if mode in source.modes:
            continue
        if mode not in MODES:
            raise ConfigError(f"benchmark.modes: unknown mode '{mode}', choose from {', '.join(source.modes)}")
        needed = {TAGGED: "texts and vectors of tags", FOCUSED: "features of marked regions"}.get(mode, "texts")
        raise ConfigError(
            f"benchmark.modes: mode {mode} needs {needed}, but the store and this model serve only "
            f"{', '.join(source.modes)}"
        )


def best_mode(modes: tuple[str, ...]) -> str:
    """Give the mode that decides: tv where texts are there, else the first."""
    return "tv" if "tv" in modes else modes[0]


def text_notes(source: ScoreSource, benchmark: Benchmark, modes: Sequence[str]) -> list[str]:
    """Say of how many queries the frames stood in for the text."""
    chosen = [mode for mode in modes if mode in ("t", "tv")]
    if not (chosen and isinstance(source, TextSource) and source.frames_as_text):
        return []
    known = [query for partition in benchmark.partitions for query in source.known_queries(partition)]
    without = sum(not source.has_text(query) for query in known)
    if not without:
        return []
    return [
        f"{without} of {len(known)} queries have no text vector: in {' and '.join(chosen)} their own frames stand in "
        "for it, MUVR's official rule"
    ]
