"""Tables of how far numbers can be trusted: intervals over topics, and the annotation noise check."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rich.table import Table

from muvr_train.results import Results

MOST_COLUMNS = 9
"""More partitions than this are no columns of one table."""


def robustness_tables(results: Results) -> Iterator[Table]:
    """Show what a final evaluation was asked for, a column per partition and their mean."""
    if any(_has_interval(row) for row in results.rows):
        yield interval_table(results)
    if any(part["group"] == "noise" for part in results.breakdowns):
        yield noise_table(results)


def interval_table(results: Results) -> Table:
    """The 95 % intervals of mAP and uAP in percent; "-" where there is none. Many partitions: those that have one."""
    with_one = {str(row["partition"]) for row in results.rows if _has_interval(row)}
    table, partitions = _table(results, "95 % intervals over search topics (%)", with_one)
    for mode in results.modes:
        found: dict[str, Any] = {str(row["partition"]): row for row in results.rows if row["mode"] == mode}
        for metric in ("mAP", "uAP"):
            ends = [(found[name].get("intervals") or {}).get(metric) if name in found else None for name in partitions]
            if any(ends):
                table.add_row(mode, metric, *("-" if end is None else _range(end) for end in ends))
    return table


def noise_table(results: Results) -> Table:
    """The mAP in percent with wrong labels: mean and standard deviation over the repeats."""
    parts: list[dict[str, Any]] = [part for part in results.breakdowns if part["group"] == "noise"]
    share = 100 * parts[0]["share"]
    table, partitions = _table(
        results, f"mAP with {share:g} % of the positives dropped, or as many wrong ones added (%)"
    )
    for mode in results.modes:
        for name in dict.fromkeys(part["name"] for part in parts):
            found = {
                part["partition"]: part["metrics"] for part in parts if part["mode"] == mode and part["name"] == name
            }
            if found:
                table.add_row(mode, name, *(_spread(found.get(partition)) for partition in partitions))
    return table


def _has_interval(row: Mapping[str, Any]) -> bool:
    return any((row.get("intervals") or {}).values())


def _table(results: Results, title: str, preferred: Collection[str] = ()) -> tuple[Table, list[str]]:
    partitions = list(dict.fromkeys(str(row["partition"]) for row in results.rows))
    if preferred and len(partitions) > MOST_COLUMNS:
        partitions = [partition for partition in partitions if partition in preferred]
    table = Table("query", "", title=title, title_justify="left")
    for partition in partitions:
        table.add_column(partition, justify="right", style="bold" if partition == "mean" else None)
    return table, partitions


def _range(ends: list[float]) -> str:
    return f"[{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]"


def _spread(metrics: dict[str, float] | None) -> str:
    return "-" if metrics is None else f"{100 * metrics['mAP']:.1f} ± {100 * metrics['mAP_std']:.1f}"
