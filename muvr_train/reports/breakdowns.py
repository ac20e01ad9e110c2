"""Breakdowns of a report as plain tables: parts of the results by level, operator, sign, noise, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muvr_train.reports.content import ReportContent
from muvr_train.reports.score_tables import (
    Cell,
    Row,
    ScoreTable,
    figure,
    largest_gallery,
    partitions_of,
    percent,
    whole,
    without_empty,
)

COUNTS = ("counted_queries", "positives")


@dataclass(frozen=True)
class Breakdown:
    """Parts of rows by a group: mAP by partition in one table, and a table of all metrics per model and mode."""

    group: str
    short: ScoreTable
    long: tuple[ScoreTable, ...]


def breakdown_tables(content: ReportContent) -> list[Breakdown]:
    """The breakdowns of all rows by group: level, operator, sign, noise, ..."""
    groups = dict.fromkeys(str(line["group"]) for results in content.named.values() for line in results.breakdowns)
    return [_breakdown(content, group) for group in groups]


def _breakdown(content: ReportContent, group: str) -> Breakdown:
    by_mode: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for model, results in content.named.items():
        for line in results.breakdowns:
            if line["group"] == group:
                by_mode.setdefault((model, str(line["mode"])), []).append(line)
    every = [line for lines in by_mode.values() for line in lines]
    partitions = [name for name in partitions_of(content) if any(line["partition"] == name for line in every)]
    rows = []
    for (model, mode), lines in by_mode.items():
        for name in dict.fromkeys(str(line["name"]) for line in lines):
            found = {line["partition"]: line for line in lines if line["name"] == name}
            cells = tuple(_spread(found.get(partition)) for partition in partitions)
            rows.append(Row((model, mode, name), cells))
    short = ScoreTable("mAP (%)", ("model", "query", group), tuple(partitions), tuple(rows))
    long = tuple(_all_metrics(f"{model}, {mode}", group, lines) for (model, mode), lines in by_mode.items())
    return Breakdown(group, short, long)


def _all_metrics(title: str, group: str, lines: Sequence[Mapping[str, Any]]) -> ScoreTable:
    known = dict.fromkeys(name for line in lines for name in line["metrics"])
    counts = dict.fromkeys(name for line in lines for name in line.get("counts", {}) if name in COUNTS)
    metrics = [name for name in known if not name.startswith(("precision@", "hit@"))]
    rows = []
    for line in lines:
        numbers = [Cell(whole(line.get("counts", {}).get(name))) for name in counts]
        gallery = largest_gallery(lines, line["partition"])
        cells = (*numbers, *(figure(line, metric, gallery) for metric in metrics))
        rows.append(Row((str(line["name"]), str(line["partition"])), cells))
    columns = (*counts, *(f"{name} %" for name in metrics))
    return without_empty(ScoreTable(title, (group, "partition"), columns, tuple(rows)))


def _spread(line: Mapping[str, Any] | None) -> Cell:
    """The mAP of a line, with its standard deviation over repeats where it has one."""
    cell = figure(line, "mAP")
    std = None if line is None else line["metrics"].get("mAP_std")
    return cell if std is None else replace(cell, text=f"{cell.text} ± {percent(std)}")
