"""The charts of a report: precision-recall and recall curves per partition, and histograms of AP per mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muvr_train.metrics.ranks import Floats, Ties
from muvr_train.reports.content import ReportContent
from muvr_train.reports.curves import (
    Curve,
    log_spaced,
    precision_histogram,
    precision_recall,
    recall_over_k,
)
from muvr_train.reports.figures import Style, bar_chart, line_chart, style_of
from muvr_train.results import Kept, Results

MOST_PARTITIONS = 12
MOST_OTHERS = 3
APART = {"tv+tag", "tv+region"}


@dataclass(frozen=True)
class Line:
    """A line of the charts: what it is called, and how it is drawn."""

    name: str
    number: int

    @property
    def style(self) -> Style:
        """Colour and dashes."""
        return style_of(self.number)


@dataclass(frozen=True)
class Panel:
    """One chart under a title; `svg` is markup of our own making."""

    title: str
    svg: str


@dataclass(frozen=True)
class Charts:
    """All charts, the lines they share, and what the queries of the shown mode reached.

    Attributes:
        lines: The legend of the curves.
        precision_recall: A panel per partition.
        recall: A panel per partition.
        histograms: A panel per mode.
        kept: Scores of the model in the shown mode, and in modes tv+tag and tv+region.
        precisions: The average precision of each of their rows.
        left_out: Partitions there was no room for.
        asked: What is ranked for: "queries", "expressions" of queries, or both.
    """

    lines: tuple[Line, ...]
    precision_recall: tuple[Panel, ...]
    recall: tuple[Panel, ...]
    histograms: tuple[Panel, ...]
    kept: tuple[Kept, ...]
    precisions: tuple[Floats, ...]
    left_out: tuple[str, ...]
    asked: str


def shown_mode(results: Results) -> str | None:
    """The mode with the highest mean mAP, of those with kept scores where there are some; None without rows.

    Modes tv+tag and tv+region are over other queries than the rest, and count only where they stand alone.
    """
    kept = {entry.mode for entry in results.kept}
    kept = kept - APART or kept
    values = {
        str(row["mode"]): row["metrics"].get("mAP", 0.0)  # type: ignore[attr-defined]
        for row in results.rows
        if row["partition"] == "mean" and (not kept or row["mode"] in kept)
    }
    return max(values, key=lambda mode: values[mode]) if values else next(iter(results.modes), None)


def make_charts(content: ReportContent) -> Charts:
    """Draw the curves of the kept scores."""
    ties: Ties = content.meta.get("ties", "average")
    shown = shown_mode(content.results)
    sources = [(mode, content.model, mode) for mode in content.results.modes]
    others = [name for name, other in content.named.items() if name != content.model and other.kept]
    sources += [(f"{name}, {shown}", name, str(shown)) for name in others[-MOST_OTHERS:]]
    lines = tuple(Line(label, number) for number, (label, _, _) in enumerate(sources))
    partitions = list(dict.fromkeys(kept.partition.name for kept in content.results.kept))
    precise: dict[str, list[tuple[int, Curve]]] = {}
    recalled: dict[str, list[tuple[int, Curve]]] = {}
    for line, (_, name, mode) in zip(lines, sources, strict=True):
        results = content.named[name]
        for kept in results.kept:
            place = kept.partition.name
            if kept.mode != mode or place not in partitions[:MOST_PARTITIONS]:
                continue
            if kept.groups is not None:
                ks = log_spaced(len(kept.judged.database))
                recalled.setdefault(place, []).append((line.number, recall_over_k(kept.groups, kept.judged, ties, ks)))
            if kept.pooled is not None:
                positives = int(kept.judged.n_positive.sum())
                precise.setdefault(place, []).append((line.number, precision_recall(kept.pooled, positives, ties)))
    chosen = [kept for kept in content.results.kept if kept.mode in {shown, *APART}]
    tagged = {str(line["mode"]) for line in content.results.per_query if "expression" in line}
    asked = {mode: "expressions" if mode in tagged else "queries" for mode in content.results.modes}
    drawn = {number for found in recalled.values() for number, _ in found}
    return Charts(
        tuple(line for line in lines if line.number in drawn),
        tuple(Panel(name, line_chart(found, "recall", "precision", steps=True)) for name, found in precise.items()),
        tuple(Panel(name, line_chart(found, "k", "recall@k")) for name, found in recalled.items()),
        tuple(_histogram(content, line, asked[line.name]) for line in lines[: len(content.results.modes)]),
        tuple(chosen),
        tuple(_precisions(content.results, kept) for kept in chosen),
        tuple(partitions[MOST_PARTITIONS:]),
        " or ".join(sorted(set(asked.values()), reverse=True)),
    )


def _precisions(results: Results, kept: Kept) -> Floats:
    """The average precision of each row, as in per_query.csv."""
    own = (kept.mode, kept.partition.name)
    return np.array([line["AP"] for line in results.per_query if (line["mode"], line["partition"]) == own])


def _histogram(content: ReportContent, line: Line, asked: str) -> Panel:
    curve = precision_histogram(content.results.per_query, line.name)
    return Panel(line.name, bar_chart(curve, line.number, "AP", asked))
