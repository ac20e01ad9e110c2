"""Tables of a report as plain data, for HTML and Markdown alike: cells in percent, the best of each column marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.benchmarks.published import PublishedRow
from muvr_train.reports.content import ReportContent
from muvr_train.reports.robustness_tables import MOST_COLUMNS
from muvr_train.results import Results

MISSING = "-"


@dataclass(frozen=True)
class Cell:
    """A figure: its text, whether it is the best of its column, its 95 % interval and deviation over seeds as text."""

    text: str
    best: bool = False
    interval: str = ""
    spread: str = ""


@dataclass(frozen=True)
class Row:
    """A line of a table: its names, its cells, and its kind: "own" (the evaluated model), "published", "mean" or ""."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    kind: str = ""


@dataclass(frozen=True)
class ScoreTable:
    """A table: what its name columns and its number columns are called, and its lines."""

    title: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def partitions_of(content: ReportContent) -> list[str]:
    """Names of all partitions with rows, in order, the mean last; without it where it is over one alone."""
    names = dict.fromkeys(str(row["partition"]) for results in content.named.values() for row in results.rows)
    ordered = [name for name in names if name != "mean"] + (["mean"] if "mean" in names else [])
    return without_repeated_mean(ordered, content.references)


def without_repeated_mean(partitions: Iterable[str], published: Iterable[PublishedRow] = ()) -> list[str]:
    """Partitions as they are shown: without the mean where it is over one alone, and no published row has one.

    >>> without_repeated_mean(["copies", "mean"])
    ['copies']
    """
    names = list(partitions)
    known = any(row.partition == "mean" for row in published)
    return names if known or names[1:] != ["mean"] else names[:1]


def table_by_partition(content: ReportContent, metric: str) -> ScoreTable | None:
    """One metric: a line per model and mode, a column per partition; None where no row has the metric."""
    partitions = partitions_of(content)
    rows = [
        Row(names, tuple(figure(found.get(partition), metric) for partition in partitions), _kind(content, names))
        for names, found in _by_model(content)
        if any(metric in row["metrics"] for row in found.values())
    ]
    if not rows:
        return None
    rows = _mark_best(rows)
    for (system, mode), by_partition in _published(content).items():
        cells = tuple(Cell(percent(by_partition.get(partition, {}).get(metric))) for partition in partitions)
        if any(cell.text != MISSING for cell in cells):
            rows.append(Row((f"{system} (published)", mode), cells, "published"))
    return ScoreTable(f"{metric} (%)", ("model", "query"), tuple(partitions), tuple(rows))


def table_of_metrics(content: ReportContent, partition: str, metrics: Sequence[str]) -> ScoreTable:
    """Several metrics of one partition: a line per model and mode; without metrics that no line has."""
    named = [(names, found[partition]) for names, found in _by_model(content) if partition in found]
    metrics = [name for name in metrics if any(name in row["metrics"] for _, row in named)]
    rows = [
        Row(
            names,
            tuple(figure(row, metric, largest_gallery(_rows(content, names), partition)) for metric in metrics),
            _kind(content, names),
        )
        for names, row in named
    ]
    rows = _mark_best(rows)
    for (system, mode), by_partition in _published(content).items():
        known = by_partition.get(partition, {})
        if any(metric in known for metric in metrics):
            cells = tuple(Cell(percent(known.get(metric))) for metric in metrics)
            rows.append(Row((f"{system} (published)", mode), cells, "published"))
    title = "mean over partitions" if partition == "mean" else partition
    return without_empty(ScoreTable(f"{title} (%)", ("model", "query"), tuple(metrics), tuple(rows)))


def upright(table: ScoreTable) -> ScoreTable:
    """A table with a column per partition as it is, or with a line per partition where they are many."""
    if len(table.columns) <= max(MOST_COLUMNS, len(table.rows)):
        return table
    rows = tuple(
        Row((column,), tuple(row.cells[i] for row in table.rows), "mean" if column == "mean" else "")
        for i, column in enumerate(table.columns)
    )
    return ScoreTable(table.title, ("partition",), tuple(", ".join(row.names) for row in table.rows), rows)


def modes_apart(content: ReportContent) -> list[str]:
    """The modes over other queries or tag expressions than v, t and tv, where both kinds have rows."""
    modes = dict.fromkeys(mode for results in content.named.values() for mode in results.modes if mode != UPPER_BOUND)
    kinds = {mode: _asked(mode) for mode in modes}
    return [mode for mode, kind in kinds.items() if kind] if len(set(kinds.values())) > 1 else []


def metric_names(content: ReportContent, extra: bool = False) -> list[str]:
    """The metrics of the short tables, or of the long ones: all that any row has."""
    short = ["mAP", "uAP", *(f"recall@{k}" for k in content.ks)]
    if not extra:
        return short
    known = dict.fromkeys(name for results in content.named.values() for row in results.rows for name in row["metrics"])  # type: ignore[attr-defined]
    return [*short, *(name for name in known if name not in short)]


def counts_table(results: Results) -> ScoreTable:
    """What was counted, left out or removed: a line per mode and partition, without columns of zeros."""
    shown = without_repeated_mean(dict.fromkeys(str(row["partition"]) for row in results.rows))
    rows: list[Mapping[str, Any]] = [row for row in results.rows if row["partition"] in shown]
    names = dict.fromkeys(name for row in rows for name, value in row["counts"].items() if value)
    lines = [
        Row((str(row["mode"]), str(row["partition"])), tuple(Cell(whole(row["counts"].get(name))) for name in names))
        for row in rows
    ]
    return ScoreTable(
        "counts (lines of the mean are sums over partitions)", ("query", "partition"), tuple(names), tuple(lines)
    )


def percent(value: float | None) -> str:
    """A fraction in percent with one decimal, "-" for None."""
    return MISSING if value is None else f"{100 * value:.1f}"


def without_empty(table: ScoreTable) -> ScoreTable:
    """The table without the columns in which no line has a figure."""
    used = [i for i in range(len(table.columns)) if any(row.cells[i].text != MISSING for row in table.rows)]
    kept = tuple(replace(row, cells=tuple(row.cells[i] for i in used)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in used), rows=kept)


def _by_model(content: ReportContent) -> Iterable[tuple[tuple[str, str], dict[str, Mapping[str, Any]]]]:
    """(model, mode) and their rows by partition."""
    for name, results in content.named.items():
        for mode in results.modes:
            yield (name, mode), {str(row["partition"]): row for row in _rows(content, (name, mode))}


def _rows(content: ReportContent, names: tuple[str, str]) -> list[Mapping[str, Any]]:
    model, mode = names
    return [row for row in content.named[model].rows if row["mode"] == mode]


def _kind(content: ReportContent, names: tuple[str, str]) -> str:
    return "own" if names[0] == content.model and len(content.named) > 1 else ""


def largest_gallery(rows: Iterable[Mapping[str, Any]], partition: str) -> int | None:
    """Videos in the gallery of a partition's rows; for the mean those of the largest one (its own count is a sum)."""
    own = [row for row in rows if (row["partition"] == partition) != (partition == "mean")]
    return max((row.get("counts", {}).get("database", 0) for row in own), default=None)


def figure(row: Mapping[str, Any] | None, metric: str, gallery: int | None = None) -> Cell:
    """A metric of a row; "-" where there is none, or where its k exceeds the gallery."""
    value = None if row is None else row["metrics"].get(metric)
    k = metric.partition("@")[2]
    if value is None or row is None or (k.isdigit() and gallery is not None and int(k) > gallery):
        return Cell(MISSING)
    interval, spread = row.get("intervals", {}).get(metric), row.get("std", {}).get(metric)
    return Cell(
        percent(value),
        interval="" if interval is None else f"{percent(interval[0])} to {percent(interval[1])}",
        spread="" if spread is None else percent(spread),
    )


def _mark_best(rows: Sequence[Row]) -> list[Row]:
    """Mark the largest figure of each column (as it is printed), where there is more than one line.

    Only rows over the same queries and tag expressions are compared, and an upper bound is never the best.
    """
    best: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        for column, cell in enumerate(row.cells):
            if cell.text != MISSING:
                best.setdefault((_asked(row.names[1]), column), []).append(float(cell.text))

    def is_best(row: Row, column: int, cell: Cell) -> bool:
        known = best.get((_asked(row.names[1]), column), [])
        return cell.text != MISSING and len(known) > 1 and float(cell.text) == max(known)

    return [
        replace(row, cells=tuple(replace(cell, best=is_best(row, i, cell)) for i, cell in enumerate(row.cells)))
        if row.names[1] != UPPER_BOUND
        else row
        for row in rows
    ]


def _asked(mode: str) -> str:
    """What modes that can be compared with this one have in common: `tag`, `logic`, `+tag`, `+region` or nothing."""
    plain, plus, part = mode.partition("+")
    kind, _, rest = plain.partition("_")
    return plus + part or (kind if rest else "")


def _published(content: ReportContent) -> dict[tuple[str, str], dict[str, Mapping[str, float]]]:
    grouped: dict[tuple[str, str], dict[str, Mapping[str, float]]] = {}
    for row in content.references:
        grouped.setdefault((row.system, row.mode), {})[row.partition] = row.metrics
    return grouped


def whole(value: float | None) -> str:
    """A count with separators of thousands, "-" for None."""
    if value is None:
        return MISSING
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
