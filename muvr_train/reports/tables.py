"""Tables for people: one look at how a model does on every partition, beside the rows it has to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.benchmarks.expressions import OPERATORS, SIGNS, UPPER_BOUND
from muvr_train.benchmarks.published import PublishedRow
from muvr_train.reports.robustness_tables import MOST_COLUMNS, robustness_tables
from muvr_train.reports.score_tables import without_repeated_mean
from muvr_train.reports.write import all_notes
from muvr_train.results import Results

COLUMNS = [*(("operator", name) for name in OPERATORS), *(("sign", name) for name in SIGNS)]


def partition_table(
    named: Mapping[str, Results], references: Sequence[PublishedRow] = (), about: str | None = None
) -> Table:
    """Show mAP / uAP in percent: a line per model and mode, a column per partition; with many partitions transposed.

    Rows without uAP (tag expressions) show mAP alone; a partition without a row in a mode stays empty.

    Args:
        named: results by the name of the model, on the same queries and gallery.
        references: published rows, printed below.
        about: what the title names: the run.
    """
    rows = [row for results in named.values() for row in results.rows]
    pooled = any("uAP" in row["metrics"] for row in rows)  # type: ignore[operator]
    title = ("mAP / uAP (%)" if pooled else "mAP (%)") + (f" of {escape(about)}" if about else "")
    table = Table(title=title, title_justify="left")
    partitions = without_repeated_mean(dict.fromkeys(str(row["partition"]) for row in rows), references)
    lines: list[tuple[str, str, list[str], str | None]] = []
    for name, results in named.items():
        for mode in results.modes:
            found = {row["partition"]: row for row in results.rows if row["mode"] == mode}
            cells = [_pair(found[partition]) if partition in found else "" for partition in partitions]
            lines.append((escape(name), mode, cells, "dim italic" if mode == UPPER_BOUND else None))
    extent = "published, all of MUVR" if any(row.benchmark.startswith("muvr_") for row in references) else "published"
    for (system, mode), metrics in _published(references).items():
        cells = [_published_cell(metrics.get(partition), pooled) for partition in partitions]
        lines.append((f"{system} ({extent})", mode, cells, "dim"))
    return _fill(table, partitions, lines)


def _fill(table: Table, partitions: Sequence[str], lines: Sequence[tuple[str, str, list[str], str | None]]) -> Table:
    """Partitions as columns, or as lines where they are many."""
    if len(partitions) > MOST_COLUMNS:
        table.add_column("partition", overflow="fold")
        for name, mode, _, style in lines:
            table.add_column(f"{name}\n{mode}", justify="right", style=style, overflow="fold")
        for partition, *cells in zip(partitions, *(cells for _, _, cells, _ in lines), strict=True):
            table.add_row(escape(partition), *cells, style="bold" if partition == "mean" else None)
        return table
    table.add_column("model", overflow="fold")
    table.add_column("query")
    for partition in partitions:
        table.add_column(escape(partition), justify="right", style="bold" if partition == "mean" else None)
    for name, mode, cells, style in lines:
        table.add_row(name, mode, *cells, style=style)
    return table


def recall_table(named: Mapping[str, Results], ks: Sequence[int]) -> Table:
    """Show the mean over partitions of recall@k in percent.

    A k larger than every gallery of a model shows as "-"; one that is larger than all galleries is named below.
    """
    galleries: dict[tuple[str, str], int] = {}
    for name, results in named.items():
        for row in results.rows:
            if row["partition"] != "mean":
                key = name, str(row["mode"])
                galleries[key] = max(galleries.get(key, 0), row["counts"]["database"])  # type: ignore[index]
    shown = [k for k in ks if any(k <= gallery for gallery in galleries.values())]
    table = Table(title="recall@k, mean over partitions (%)", title_justify="left", caption_justify="left")
    table.add_column("model", overflow="fold")
    table.add_column("query")
    for k in shown:
        table.add_column(f"R@{k}", justify="right")
    for (name, mode), gallery in galleries.items():
        mean = named[name].metrics(mode)
        cells = (f"{100 * mean[f'recall@{k}']:.1f}" if k <= gallery else "-" for k in shown)
        table.add_row(escape(name), mode, *cells)
    if len(shown) < len(ks):
        table.caption = f"k above every gallery: {', '.join(str(k) for k in ks if k not in shown)}"
    return table


def winner_table(named: Mapping[str, Results]) -> Table:
    """Show for every partition which of some results has the highest mAP, and by how much.

    Args:
        named: two or more results by name, each with its own modes; the best mode counts.
    """
    table = Table(title="best by mAP (%)", title_justify="left")
    for heading in ("partition", "best", "mAP", "ahead of", "by"):
        table.add_column(heading, justify="right" if heading in ("mAP", "by") else "left", overflow="fold")
    best: dict[str, dict[str, float]] = {}
    for name, results in named.items():
        for row in results.rows:
            found = best.setdefault(str(row["partition"]), {})
            found[name] = max(found.get(name, 0.0), row["metrics"]["mAP"])  # type: ignore[index]
    for partition in without_repeated_mean(best):
        values = best[partition]
        first, second, *_ = [*sorted(values, key=lambda name: -values[name]), ""]
        gap = values[first] - values.get(second, values[first])
        table.add_row(partition, escape(first), f"{100 * values[first]:.1f}", escape(second), f"{100 * gap:.1f}")
    return table


def expression_table(results: Results) -> Table | None:
    """Show mAP in percent by operator and sign of tag expressions, a line per mode; None where there are none.

    Each is the mean over the partitions that have such expressions. Rows `tag_*` are of fewer expressions than others.
    """
    parts = [
        part for part in results.breakdowns if part["group"] in ("operator", "sign") and part["partition"] == "mean"
    ]
    if not parts:
        return None
    numbers: dict[tuple[str, str], int] = {}
    for part in parts:
        key = str(part["group"]), str(part["name"])
        numbers[key] = max(numbers.get(key, 0), part["counts"]["expressions"])  # type: ignore[index]
    columns = [key for key in COLUMNS if key in numbers]
    table = Table(title="mAP by operator and sign (%)", title_justify="left")
    table.add_column("query")
    for key in columns:
        table.add_column(f"{key[1]}\n({numbers[key]})", justify="right")
    for mode in results.modes:
        found = {(part["group"], part["name"]): part["metrics"] for part in parts if part["mode"] == mode}
        if found:
            table.add_row(mode, *(f"{100 * found[key]['mAP']:.1f}" if key in found else "" for key in columns))  # type: ignore[index]
    return table


def count_lines(results: Results) -> list[str]:
    """Say what was counted, left out or removed: sums over partitions without the zeros, modes that agree together."""
    modes: dict[str, list[str]] = {}
    for row in results.rows:
        if row["partition"] == "mean":
            counts: Mapping[str, int] = row["counts"]  # type: ignore[assignment]
            shown = ", ".join(f"{name} {value}" for name, value in counts.items() if value)
            modes.setdefault(shown, []).append(str(row["mode"]))
    asked = {(line["query"], line["partition"]) for line in results.per_query}
    shared = len({query for query, _ in asked}) < len(asked)
    sums = "sums over the partitions of the mean" + "; a query or video of several counts in each" * shared
    return [f"counts ({sums}), {', '.join(names)}: {shown}" for shown, names in modes.items()]


def print_tables(
    named: Mapping[str, Results],
    ks: Sequence[int],
    references: Sequence[PublishedRow] = (),
    console: Console | None = None,
    compared: Sequence[str] = (),
    notes: Sequence[str] = (),
    about: str | None = None,
) -> None:
    """Print the final tables to stdout; of `compared` names, also which is best in which partition; then the notes.

    The last of `named` is the evaluated model; the first title names the run that the tables are `about`.
    """
    console = console or Console(width=None if Console().is_terminal else 140)
    console.print(partition_table(named, references, about))
    if compared:
        console.print(winner_table({name: named[name] for name in compared}))
    console.print(recall_table(named, ks))
    by_expression = expression_table(list(named.values())[-1])
    if by_expression is not None:
        console.print(by_expression)
    for table in robustness_tables(list(named.values())[-1]):
        console.print(table)
    for line in (*count_lines(list(named.values())[-1]), *all_notes(notes, list(named)[-1], named)):
        console.print(line, soft_wrap=True, markup=False)


def _pair(row: Mapping[str, Any]) -> str:
    metrics, spread = row["metrics"], row.get("std", {})
    return " / ".join(
        f"{100 * metrics[name]:.1f}" + (f" ± {100 * spread[name]:.1f}" if name in spread else "")
        for name in ("mAP", "uAP")
        if name in metrics
    )


def _published(rows: Sequence[PublishedRow]) -> dict[tuple[str, str], dict[str, Mapping[str, float]]]:
    grouped: dict[tuple[str, str], dict[str, Mapping[str, float]]] = {}
    for row in rows:
        grouped.setdefault((row.system, row.mode), {})[row.partition] = row.metrics
    return grouped


def _published_cell(metrics: Mapping[str, float] | None, pooled: bool) -> str:
    if metrics is None:
        return ""
    known = [f"{100 * metrics[name]:.1f}" if name in metrics else "-" for name in ("mAP", "uAP")]
    return " / ".join(known) if pooled else known[0]
