"""Figures on the page of answers: the headline, and the table of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.reports.answer_tables import MAIN, SHOWN, SIGNED, figure
from muvr_train.reports.score_tables import MISSING, Cell, Row, ScoreTable, percent, whole, without_empty

WHOLE = ("all", "mean", "overall", "perception", "reasoning")
"""Partitions with large figures."""
MOST_TILES = 9
UNBROKEN = "\u00a0"
MOST_ROWS = 40
"""More of them are folded."""

Rows = Sequence[Mapping[str, Any]]


def short_rows(rows: Rows) -> Rows:
    """All rows, or those over many questions where there are more than `MOST_ROWS`."""
    return rows if len(rows) <= MOST_ROWS else [row for row in rows if row["partition"] in WHOLE]


def headline_tiles(rows: Rows) -> Iterator[dict[str, str]]:
    """The accuracy of each setting in large figures, by group where there are not too many."""
    known = [row for row in rows if row["partition"] in WHOLE and "accuracy" in row["metrics"]]
    if len(known) > MOST_TILES:
        known = [row for row in known if row["partition"] in ("all", "mean", "overall")]
    for row in known[:MOST_TILES]:
        metrics = row["metrics"]
        more = [f"Reranking Score {metrics[name]:+.2f}" for name in SIGNED if metrics.get(name) is not None]
        more += [f"parse rate {percent(metrics['parse_rate'])} %"] if metrics.get("parse_rate") is not None else []
        counts = row.get("counts", {})
        more += [f"{counts[name]:,} {name}" for name in ("failed", "invalid") if name in counts]
        name = f"{row['mode']}, {row['partition']}"
        what = ", ".join(one.replace(" ", UNBROKEN) for one in ("accuracy", *more))
        yield {"name": name, "value": f"{percent(metrics['accuracy'])}{UNBROKEN}%", "what": what}


def setting_tables(rows: Rows, published: Sequence[PublishedRow] = ()) -> list[ScoreTable]:
    """One table per main metric: a line per partition, a column per setting and per published system.

    Nothing where there is one setting only: `rows_table` says it all then.
    """
    settings = list(dict.fromkeys(str(row["mode"]) for row in rows))
    if len(settings) < 2:
        return []
    found = {(str(row["partition"]), str(row["mode"])): row["metrics"] for row in rows}
    partitions = list(dict.fromkeys(partition for partition, _ in found))
    beside = [row for row in published if row.partition in partitions]
    names = {row.system: f"{row.system} (published)" for row in beside}
    found |= {(row.partition, names[row.system]): row.metrics for row in beside}
    columns = (*settings, *names.values())
    tables = []
    for metric in [name for name in MAIN if any(name in row["metrics"] for row in rows)]:
        lines = [
            Row(
                (partition,),
                tuple(Cell(figure(found.get((partition, column), {}), metric)) for column in columns),
                "mean" if partition in WHOLE[:3] else "",
            )
            for partition in partitions
        ]
        title = SHOWN[metric].replace("\n", " ") + ("" if metric in SIGNED else " (%)")
        tables.append(without_empty(ScoreTable(title, ("partition",), columns, tuple(lines))))
    return tables


def sources_of(published: Sequence[PublishedRow]) -> list[str]:
    """Where published rows are from: the systems of each source, and the source."""
    systems: dict[str, dict[str, None]] = {}
    for row in published:
        systems.setdefault(row.source, {})[row.system] = None
    return [f"{', '.join(names)}: {source}" for source, names in systems.items()]


def rows_table(rows: Rows, published: Sequence[PublishedRow] = ()) -> ScoreTable:
    """Rows with the metrics of `answer_tables.SHOWN` (standard errors beside them), the published ones below."""
    every = [row["metrics"] for row in rows] + [row.metrics for row in published]
    names = [name for name in SHOWN if any(name in metrics for metrics in every)]
    lines = [
        Row(
            (str(row["mode"]), str(row["partition"])),
            (
                *(Cell(figure(row["metrics"], name)) for name in names),
                _seconds(row.get("timing", {}).get("seconds_per_item")),
                Cell(whole(row.get("counts", {}).get("questions"))),
            ),
            "mean" if row["partition"] in WHOLE[:3] else "",
        )
        for row in rows
    ]
    lines += [
        Row(
            (f"{row.system} (published)", row.partition),
            (*(Cell(figure(row.metrics, name)) for name in names), Cell(MISSING), Cell(MISSING)),
            "published",
        )
        for row in published
    ]
    columns = (*(SHOWN[name].replace("\n", " ") for name in names), "s / item", "questions")
    return without_empty(ScoreTable("rows of results.json", ("setting", "partition"), columns, tuple(lines)))


def seconds_text(value: float) -> str:
    """Seconds as tables and cards write them."""
    return f"{value:.2f}"


def _seconds(value: float | None) -> Cell:
    return Cell(MISSING if value is None else seconds_text(value))
