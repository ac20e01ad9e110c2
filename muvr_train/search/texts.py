"""Queries without a text vector: which modes are worth a row, and MUVR's official rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from muvr_train.benchmarks.types import Benchmark
from muvr_train.search.sources import ScoreSource

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
    """Give the modes of a source, only v where no query of the benchmark has a text vector: tv would be v again."""
    if isinstance(source, TextSource) and not any(source.has_text(query.id) for query in benchmark.queries):
        return tuple(mode for mode in source.modes if mode == "v")
    return source.modes


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
