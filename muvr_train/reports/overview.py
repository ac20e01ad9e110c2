"""All runs at a glance: a row per run, a column per mode, from what the evaluations wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.reports.brief import brief_names
from muvr_train.reports.runs import Run

METRICS = ("mAP", "uAP")
BASELINE = " (baseline)"
"""What stands behind the name of the run that the others are compared with."""
UNTRAINED = " (step 0, untrained)"
"""What stands behind the name of a run whose best checkpoint is that from before its training."""


def overview(runs: Sequence[Run]) -> dict[str, Any]:
    """Collect the means over partitions.

    Args:
        runs: in any order; the first is the baseline.

    Returns:
        `modes`, and `rows` in descending order of mAP in mode tv (or the last mode): `run`, `baseline`, `untrained`
        (its best checkpoint is of step 0), and `cells` by mode and metric: `value`, `interval` and `std` over seeds,
        None where there is none.
    """
    modes = list(dict.fromkeys(mode for run in runs for mode, _ in run.rows if mode != UPPER_BOUND))
    rows = [
        {
            "run": run.name,
            "baseline": run is runs[0],
            "untrained": run.best_step == 0,
            "cells": {mode: {metric: _cell(run, mode, metric) for metric in METRICS} for mode in modes},
        }
        for run in runs
    ]
    by = "tv" if "tv" in modes else modes[-1]

    def value(row: Mapping[str, Any]) -> float:
        known = row["cells"][by]["mAP"]["value"]
        return -math.inf if known is None else float(known)

    return {"modes": modes, "rows": sorted(rows, key=value, reverse=True)}


def _cell(run: Run, mode: str, metric: str) -> dict[str, Any]:
    rows = {partition: row for (known, partition), row in run.rows.items() if known == mode}
    row = rows.get("mean") or (next(iter(rows.values())) if len(rows) == 1 else {})
    return {
        "value": row.get("metrics", {}).get(metric),
        "interval": (row.get("intervals") or {}).get(metric),
        "std": (row.get("std") or {}).get(metric),
    }


def overview_tables(
    found: Mapping[str, Any], brief: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """A table per metric: title, heads and lines of text, with the short names of runs where there are any."""
    brief = brief or {}
    for metric in METRICS:
        lines = [
            [
                brief.get(row["run"], row["run"]) + UNTRAINED * row["untrained"] + BASELINE * row["baseline"],
                *(_text(row["cells"][mode][metric]) for mode in found["modes"]),
            ]
            for row in found["rows"]
        ]
        yield (
            f"{metric} (%), mean over partitions [95 %]",
            ["run", *(f"query {mode}" for mode in found["modes"])],
            lines,
        )


def shown_order(found: Mapping[str, Any]) -> list[int]:
    """Places of the runs of a comparison: the baseline, which is the first, then the others, the best first."""
    names = [run["name"] for run in found["runs"]]
    return sorted(range(len(names)), key=lambda place: (place > 0, _place(found["overview"], names[place])))


def _place(overview: Mapping[str, Any], name: str) -> int:
    return next(place for place, row in enumerate(overview["rows"]) if row["run"] == name)


def _text(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "-"
    text = f"{100 * cell['value']:.1f}"
    text += "" if cell["std"] is None else f" ± {100 * cell['std']:.1f}"
    if cell["interval"] is None:
        return text
    low, high = (100 * end for end in cell["interval"])
    return f"{text} [{low:.1f}, {high:.1f}]"


def name_room(console: Console) -> int:
    """Letters of a run's name in a table on the terminal."""
    return max(16, console.width // 4)


def print_overview(found: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the tables to stdout."""
    console = console or Console(width=None if Console().is_terminal else 160)
    brief = brief_names([row["run"] for row in found["rows"]], name_room(console))
    for table in overview_tables(found, brief):
        print_lines(console, *table)


def print_lines(console: Console, title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table of text, its first column without breaks."""
    table = Table(title=title, title_justify="left")
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", overflow="fold", no_wrap=not place)
    for line in lines:
        table.add_row(*map(escape, line))
    console.print(table)
