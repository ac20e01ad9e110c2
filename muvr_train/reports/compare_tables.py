"""A comparison of runs for people: on the terminal and as Markdown."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.reports.brief import brief_names
from muvr_train.reports.comparison import MEANS, shown_rows
from muvr_train.reports.overview import BASELINE, UNTRAINED, name_room, overview_tables, print_lines, shown_order
from muvr_train.reports.settings import settings_table

MOST_RUNS = 4
"""Of more, the terminal shows the means over partitions alone."""
HEADS = ("partition", "run", "value", "95 %", "difference", "95 %", "p", "p (Holm)", "effect")


def print_comparison(found: Mapping[str, Any], console: Console | None = None) -> None:
    """Print a table per mode to stdout, with what its columns mean."""
    console = console or Console(width=None if Console().is_terminal else 140)
    several = len(found["runs"]) > MOST_RUNS
    names = [run["name"] for run in found["runs"]]
    brief = brief_names(names, name_room(console))
    for settings in settings_table(found, brief):
        print_lines(console, *settings)
    for mode in _modes(found):
        table = Table(title=f"{_title(found, mode)}", title_justify="left")
        for place, head in enumerate(HEADS):
            table.add_column(head, justify="left" if place < 2 else "right", overflow="fold", no_wrap=place == 1)
        for row in _rows(found, mode, several):
            style = "bold" if row["partition"] in MEANS else None
            for cells in _lines(found, row, brief):
                table.add_row(*map(escape, cells), style=style)
            table.add_section()
        console.print(table)
    lines = ["Of so many runs the means over partitions are shown; --out and --json have all."] if several else []
    lines += ["Names of runs are shortened: --out and --json have them whole."] if names != list(brief.values()) else []
    for line in [*lines, *_legend(found)]:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def markdown(found: Mapping[str, Any]) -> str:
    """The same tables as Markdown, with the definitions."""
    parts = [f"# {found['metric']} of {len(found['runs'])} runs on {found['benchmark']}", "![runs](runs.png)"]
    names = {run["name"]: run["name"] for run in found["runs"]}
    for title, heads, cells in (*overview_tables(found["overview"]), *settings_table(found, names)):
        lines = [_table_line(heads), "|---|" + "---:|" * (len(heads) - 1), *map(_table_line, cells)]
        parts += [f"## {title}", "\n".join(lines)]
    for mode in _modes(found):
        lines = [_table_line(HEADS), "|---|---|" + "---:|" * (len(HEADS) - 2)]
        lines += [_table_line(line) for row in _rows(found, mode) for line in _lines(found, row, names)]
        parts += [f"## {_title(found, mode)}", "\n".join(lines)]
    parts += ["![differences](compare.png)", "\n".join(f"* {line}" for line in _legend(found))]
    parts.append("\n".join(f"* **{name}**: {text}" for name, text in found["definitions"].items()))
    return "\n\n".join(parts) + "\n"


def page(found: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """The same as one HTML page that needs nothing outside itself.

    Args:
        found: a comparison with its overview.
        pictures: PNG files by their title.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("muvr_train.reports")
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader, trim_blocks=True)
    brief = brief_names([run["name"] for run in found["runs"]], 36)
    tables = [(*table, 1) for table in overview_tables(found["overview"], brief)]
    tables += [(*table, 1) for table in settings_table(found, brief)]
    for mode in _modes(found):
        lines = [line for row in _rows(found, mode) for line in _lines(found, row, brief)]
        tables.append((_title(found, mode), list(HEADS), [list(line) for line in lines], 2))
    images = {name: base64.b64encode(content).decode() for name, content in pictures.items()}
    ends = "", BASELINE, UNTRAINED, UNTRAINED + BASELINE
    whole = {short + end: name for name, short in brief.items() if name != short for end in ends}
    return environment.get_template("compare.html").render(
        found=found, tables=tables, images=images, legend=_legend(found), baseline=BASELINE, whole=whole
    )


def _title(found: Mapping[str, Any], mode: str) -> str:
    return f"{found['metric']} (%), query {mode}"


def _modes(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in found["rows"]))


def _rows(found: Mapping[str, Any], mode: str, means: bool = False) -> list[Mapping[str, Any]]:
    return shown_rows([row for row in found["rows"] if row["mode"] == mode], means)


def _lines(found: Mapping[str, Any], row: Mapping[str, Any], brief: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """A line per run: the baseline stands for itself, the others beside their difference to it, the best first."""
    for index in shown_order(found):
        label = f"{row['partition']} ({row['topics']} topics, {row['queries']} {row['asked']})" if index == 0 else ""
        name = brief[found["runs"][index]["name"]] + (BASELINE if index == 0 else "")
        known = (label, name, f"{100 * row['values'][index]:.1f}", _interval(row["intervals"][index]))
        if index == 0:
            yield (*known, "", "", "", "", "")
            continue
        other = row["differences"][index - 1]
        yield (
            *known,
            f"{100 * other['difference']:+.1f}",
            _interval(other["interval"], "+.1f"),
            _p(other["p"]),
            _p(other["p_holm"]),
            "-" if other["effect_size"] is None else f"{other['effect_size']:+.2f}",
        )


def _interval(values: Sequence[float] | None, form: str = ".1f") -> str:
    return "-" if values is None else f"[{100 * values[0]:{form}}, {100 * values[1]:{form}}]"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _legend(found: Mapping[str, Any]) -> list[str]:
    first = found["runs"][0]["name"]
    return [
        f"difference: run minus {first}, on the same queries. Intervals resample search topics; p flips their signs.",
        "effect: Cohen's d_z over topics (0.2 small, 0.5 medium, 0.8 large).",
        *found["notes"],
    ]


def _table_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"
