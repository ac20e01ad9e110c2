"""The tables of a report in GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muvr_train.reports.breakdowns import breakdown_tables
from muvr_train.reports.content import ReportContent
from muvr_train.reports.rerank_parts import gained_rows
from muvr_train.reports.score_tables import (
    Cell,
    ScoreTable,
    counts_table,
    metric_names,
    partitions_of,
    table_by_partition,
    table_of_metrics,
    upright,
)


def render_markdown(content: ReportContent) -> str:
    """The results, breakdowns, counts and protocol as Markdown."""
    partitions = partitions_of(content)
    tables = [table_by_partition(content, metric) for metric in ("mAP", "uAP")]
    parts = [f"# {escape(str(content.meta.get('model', content.model)))} on {escape(content.results.benchmark)}", ""]
    for table in tables:
        parts += _section(upright(table)) if table is not None else []
    parts += _section(table_of_metrics(content, partitions[-1] if partitions else "mean", metric_names(content)))
    parts += [*(f"- {escape(note)}" for note in content.notes), ""]
    for gained in gained_rows(content.reranked):
        parts += _section(gained.short, f"{gained.name}, mode {gained.mode}: ")
    for breakdown in breakdown_tables(content):
        parts += _section(upright(breakdown.short), f"by {breakdown.group}: ")
    parts += [*_section(counts_table(content.results)), "## protocol", ""]
    parts += [f"- {escape(name)}: {escape(value)}" for name, value in _facts(content)]
    return "\n".join(parts) + "\n"


def escape(text: str) -> str:
    r"""A text that Markdown shows as it is, also inside a table.

    >>> escape("a|b_c <script>")
    'a\\|b\\_c &lt;script&gt;'
    """
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", text)


def _section(table: ScoreTable, prefix: str = "") -> list[str]:
    return [f"## {escape(prefix + table.title)}", "", *_lines(table), ""]


def _lines(table: ScoreTable) -> Iterator[str]:
    yield _line([*(escape(name) for name in table.names), *(escape(column) for column in table.columns)])
    yield _line([*("---" for _ in table.names), *("---:" for _ in table.columns)])
    for row in table.rows:
        yield _line([*(escape(name) for name in row.names), *(_cell(cell) for cell in row.cells)])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = (f"**{cell.text}**" if cell.best else cell.text) + (f" ± {cell.spread}" if cell.spread else "")
    return f"{text} ({cell.interval})" if cell.interval else text


def _facts(content: ReportContent) -> Iterator[tuple[str, str]]:
    protocol = content.meta.get("protocol", {})
    for name in ("version", "time", "command", "checkpoint", "checkpoint_sha256", "ties", "on_missing", "seed"):
        if name in content.meta:
            yield name, str(content.meta[name])
    yield from ((name, str(value)) for name, value in protocol.items())
    sources = dict.fromkeys(row.source for row in content.references)
    if sources:
        yield "published rows", "; ".join(sources)
