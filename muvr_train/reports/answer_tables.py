"""Tables of answers for people: a line per partition, published rows below, and one last line per setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.benchmarks.published import PublishedRow

SHOWN = {
    "accuracy": "accuracy",
    "reranking_score": "reranking\nscore",
    "yes_no": "yes, no",
    "yes_yes": "yes, yes",
    "no_no": "no, no",
    "no_yes": "no, yes",
    "chance": "chance",
    "answered_rate": "answered",
    "parse_rate": "parsed",
}
"""Columns and their headings; results.json has more."""
MAIN = ("accuracy", "reranking_score")
SIGNED = ("reranking_score",)
"""Metrics that are no shares."""
ERROR = "_se"
"""What the name of a metric's standard error ends with."""
WHOLE = ("all", "overall")
"""Partitions that hold every question."""
MISSING = "-"

Rows = Sequence[Mapping[str, Any]]


def answer_table(
    rows: Rows, name: str, references: Sequence[PublishedRow] = (), without: Collection[str] = ()
) -> Table:
    """Show rows; shares in percent, the standard error behind ±.

    Args:
        rows: of results.json.
        name: of what answered.
        references: published rows, printed below.
        without: metrics that stand elsewhere.
    """
    known = [metric for metric in SHOWN if any(row["metrics"].get(metric) is not None for row in rows)]
    metrics = [metric for metric in known if metric not in without]
    if all(row["metrics"].get("answered_rate", 1) == 1 for row in rows):
        metrics = [metric for metric in metrics if metric != "answered_rate"]
    settings = list(dict.fromkeys(str(row["mode"]) for row in rows))
    alone = len(settings) == 1
    title = f"{escape(name)}{f', {escape(settings[0])}' if alone else ''} (%, ± standard error)"
    table = Table(title=title, title_justify="left")
    table.add_column(_part(rows) if alone else f"setting, {_part(rows)}", overflow="fold")
    for metric in metrics:
        table.add_column(SHOWN[metric], justify="right")
    for heading in ("s / item", "questions"):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = (figure(row["metrics"], metric) for metric in metrics)
        seconds = row.get("timing", {}).get("seconds_per_item")
        time = MISSING if seconds is None else f"{seconds:.2f}"
        label = str(row["partition"]) if alone else f"{row['mode']}, {row['partition']}"
        table.add_row(escape(label), *cells, time, f"{row['counts']['questions']:,}")
    if references:
        table.add_section()
    for reference in references:
        cells = (figure(reference.metrics, metric) for metric in metrics)
        table.add_row(escape(f"{reference.system} (published), {reference.partition}"), *cells, "", "")
    return table


def _part(rows: Rows) -> str:
    """What the rows of a benchmark are about."""
    return "task" if rows and rows[0].get("benchmark") == "iv_bench" else "partition"


def setting_table(rows: Rows, name: str, metric: str) -> Table:
    """Show one metric of several settings side by side, a line per partition."""
    settings = dict.fromkeys(str(row["mode"]) for row in rows)
    found = {(str(row["partition"]), str(row["mode"])): row["metrics"] for row in rows}
    unit = "" if metric in SIGNED else "%, "
    table = Table(title=f"{escape(name)}, {metric.replace('_', ' ')} ({unit}± standard error)", title_justify="left")
    table.add_column(_part(rows), overflow="fold")
    for setting in settings:
        table.add_column(escape(setting), justify="right", overflow="fold")
    for partition in dict.fromkeys(partition for partition, _ in found):
        cells = (figure(found.get((partition, setting), {}), metric) for setting in settings)
        table.add_row(escape(partition), *cells)
    return table


def published_table(references: Sequence[PublishedRow]) -> Table:
    """Show published rows where they cannot stand below the run's own."""
    metrics = [metric for metric in SHOWN if any(metric in row.metrics for row in references)]
    table = Table(title="published (%)", title_justify="left")
    table.add_column("system, partition", overflow="fold")
    for metric in metrics:
        table.add_column(SHOWN[metric], justify="right")
    for row in references:
        cells = (figure(row.metrics, metric) for metric in metrics)
        table.add_row(escape(f"{row.system} (published), {row.partition}"), *cells)
    return table


def figure(metrics: Mapping[str, float | None], name: str) -> str:
    """Write a metric and its standard error; an error of 0 (all are equal) says nothing of other questions: none.

    >>> figure({"accuracy": 0.655, "accuracy_se": 0.034}, "accuracy")
    '65.5 ± 3.4'
    >>> figure({"reranking_score": -0.5}, "reranking_score")
    '-0.50'
    """
    value, error = metrics.get(name), metrics.get(f"{name}{ERROR}") or None
    if value is None:
        return MISSING
    if name in SIGNED:
        return f"{value:+.2f}" if error is None else f"{value:+.2f} ± {error:.2f}"
    return f"{100 * value:.1f}" if error is None else f"{100 * value:.1f} ± {100 * error:.1f}"


def final_lines(rows: Rows, name: str) -> Iterator[str]:
    """Say in one line per setting how it went."""
    for row in rows:
        if row["partition"] in WHOLE:
            metrics, counts = row["metrics"], row["counts"]
            said = [f"accuracy {figure(metrics, 'accuracy')} %"]
            said += [f"reranking score {figure(metrics, key)}" for key in SIGNED if key in metrics]
            lost = [f"{counts[key]} {key}" for key in ("failed", "invalid") if counts.get(key)]
            over = f"{counts['questions']:,} questions" + (f", of them {' and '.join(lost)}" if lost else "")
            yield f"{row['benchmark']} {row['mode']}, {name}: {', '.join(said)} over {over}"


def print_answer_tables(
    rows: Rows,
    name: str,
    references: Sequence[PublishedRow] = (),
    notes: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print the final tables to stdout, then the notes and a line per setting.

    Of one setting all rows are shown, of several the main metrics side by side and the other ones of all questions.
    """
    console = console or Console(width=None if Console().is_terminal else 160)
    if len({row["mode"] for row in rows}) == 1:
        console.print(answer_table(rows, name, references))
    else:
        for metric in MAIN:
            if any(metric in row["metrics"] for row in rows):
                console.print(setting_table(rows, name, metric))
        console.print(answer_table([row for row in rows if row["partition"] in WHOLE], name, without=MAIN))
        if references:
            console.print(published_table(references))
    for line in (*notes, *final_lines(rows, name)):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
