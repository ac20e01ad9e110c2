"""Tables of answers for people: a line per setting and partition, published rows below, and one last line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.benchmarks.published import PublishedRow

SHOWN = (
    "accuracy",
    "reranking_score",
    "yes_no",
    "yes_yes",
    "no_no",
    "no_yes",
    "chance",
    "answered_rate",
    "parse_rate",
)
"""Columns; results.json has more."""
SIGNED = ("reranking_score",)
"""Metrics that are no shares."""
ERROR = "_se"
"""What the name of a metric's standard error ends with."""
WHOLE = ("all", "overall")
"""Partitions that hold every question."""
MISSING = "-"

Rows = Sequence[Mapping[str, Any]]


def answer_table(rows: Rows, name: str, references: Sequence[PublishedRow] = ()) -> Table:
    """Show every row of results.json; shares in percent, the standard error behind ±.

    Args:
        rows: of one benchmark.
        name: of what answered.
        references: published rows, printed below.
    """
    metrics = _metrics(rows)
    table = Table(title=f"{escape(name)}: shares in %, ± standard error", title_justify="left")
    for heading in ("setting", "partition"):
        table.add_column(heading, overflow="fold")
    for metric in metrics:
        table.add_column(metric.replace("_", "\n"), justify="right")
    for heading in ("s / item", "questions"):
        table.add_column(heading, justify="right")
    before = None
    for row in rows:
        if before not in (None, row["mode"]):
            table.add_section()
        before = row["mode"]
        cells = (figure(row["metrics"], metric) for metric in metrics)
        seconds = row.get("timing", {}).get("seconds_per_item")
        time = MISSING if seconds is None else f"{seconds:.2f}"
        table.add_row(escape(str(before)), escape(str(row["partition"])), *cells, time, str(row["counts"]["questions"]))
    for place, reference in enumerate(references):
        if place == 0:
            table.add_section()
        cells = (figure(reference.metrics, metric) for metric in metrics)
        table.add_row(f"{escape(reference.system)} (published)", escape(reference.partition), *cells, "", "")
    return table


def figure(metrics: Mapping[str, float | None], name: str) -> str:
    """Write a metric and its standard error.

    >>> figure({"accuracy": 0.655, "accuracy_se": 0.034}, "accuracy")
    '65.5 ± 3.4'
    >>> figure({"reranking_score": -0.5}, "reranking_score")
    '-0.50'
    """
    value, error = metrics.get(name), metrics.get(f"{name}{ERROR}")
    if value is None:
        return MISSING
    texts = [f"{value:+.2f}"] if name in SIGNED else [f"{100 * value:.1f}"]
    if error is not None:
        texts.append(f"{error:.2f}" if name in SIGNED else f"{100 * error:.1f}")
    return " ± ".join(texts)


def final_lines(rows: Rows, name: str) -> Iterator[str]:
    """Say in one line per setting how it went."""
    for row in rows:
        if row["partition"] in WHOLE:
            metrics, counts = row["metrics"], row["counts"]
            said = [f"accuracy {figure(metrics, 'accuracy')} %"]
            said += [f"reranking score {figure(metrics, key)}" for key in SIGNED if key in metrics]
            lost = [f"{counts[key]} {key}" for key in ("failed", "invalid") if counts.get(key)]
            over = f"{counts['questions']} questions" + (f", of them {' and '.join(lost)}" if lost else "")
            yield f"{row['benchmark']} {row['mode']}, {name}: {', '.join(said)} over {over}"


def print_answer_tables(
    rows: Rows,
    name: str,
    references: Sequence[PublishedRow] = (),
    notes: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print the final table to stdout, then the notes and a line per setting."""
    console = console or Console(width=None if Console().is_terminal else 160)
    console.print(answer_table(rows, name, references))
    for line in (*notes, *final_lines(rows, name)):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _metrics(rows: Rows) -> list[str]:
    there = [name for name in SHOWN if any(row["metrics"].get(name) is not None for row in rows)]
    return [name for name in there if name != "answered_rate" or any(row["metrics"][name] < 1 for row in rows)]
