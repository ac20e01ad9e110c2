"""Figures on the page of answers: the headline, and the table of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.reports.answer_tables import SHOWN, SIGNED, figure
from muvr_train.reports.score_tables import MISSING, Cell, Row, ScoreTable, percent, without_empty

WHOLE = ("all", "mean", "overall", "perception", "reasoning")
"""Partitions with large figures."""
MOST_TILES = 9
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
        more += [f"parse rate {percent(metrics['parse_rate'])}"] if metrics.get("parse_rate") is not None else []
        name = f"{row['mode']}, {row['partition']}"
        yield {"name": name, "value": percent(metrics["accuracy"]), "what": ", ".join(["accuracy", *more])}


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
                Cell(f"{row.get('counts', {}).get('questions', MISSING)}"),
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
    columns = (*(SHOWN[name].replace("\n", " ") for name in names), "s / question", "questions")
    return without_empty(ScoreTable("rows of results.json", ("setting", "partition"), columns, tuple(lines)))


def _seconds(value: float | None) -> Cell:
    return Cell(MISSING if value is None else f"{value:.2f}")
