"""What reranking changed, as plain data for pages: before, after, difference, a perfect reranker; and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muvr_train.reports.rerank_tables import cost_lines
from muvr_train.reports.score_tables import Cell, Row, ScoreTable, largest_gallery, percent
from muvr_train.reports.write import DEFINITIONS
from muvr_train.results import RerankedRow

COLUMNS = ("before", "after", "difference", "perfect")


@dataclass(frozen=True)
class Gained:
    """A reranked row.

    Attributes:
        name: of the row.
        mode: the one that was reranked.
        short: of the mean, or of the only partition.
        whole: of every partition; None where there is one.
        costs: calls, failures, time and tokens, as name and text.
    """

    name: str
    mode: str
    short: ScoreTable
    whole: ScoreTable | None
    costs: tuple[tuple[str, str], ...]


def gained_of(name: str, facts: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Gained:
    """Put the `gains` and costs of a reranked row into tables, in percent; a recall@k beyond the gallery is left out.

    Args:
        name: of the row.
        facts: of the row, as in results.json.
        rows: its results, for the sizes of the galleries.
    """
    rows = list(rows)
    partitions = list(dict.fromkeys(str(gain["partition"]) for gain in facts["gains"]))
    largest = {partition: largest_gallery(rows, partition) for partition in partitions}
    gains = [gain for gain in facts["gains"] if _tells(str(gain["metric"]), largest[str(gain["partition"])])]
    main = "mean" if "mean" in partitions else partitions[-1]
    short = tuple(Row((str(gain["metric"]),), _cells(gain)) for gain in gains if gain["partition"] == main)
    title = "mean over partitions (%)" if main == "mean" else f"{main} (%)"
    whole = tuple(Row((str(gain["partition"]), str(gain["metric"])), _cells(gain)) for gain in gains)
    return Gained(
        name,
        str(facts["mode"]),
        ScoreTable(title, ("metric",), COLUMNS, short),
        ScoreTable("every partition (%)", ("partition", "metric"), COLUMNS, whole) if len(partitions) > 1 else None,
        tuple(cost_lines(facts)),
    )


def gained_rows(rows: Sequence[RerankedRow]) -> list[Gained]:
    """Those of rows that have an answerer."""
    return [gained_of(row.name, row.facts, row.results.rows) for row in rows if "gains" in row.facts]


def rerank_definitions(names: Iterable[str] = ("mAP", "uAP", "recall@k")) -> dict[str, str]:
    """What the figures of reranking mean."""
    names = (*names, *(name for name in DEFINITIONS if name.startswith("reranked.")))
    return {name: DEFINITIONS[name] for name in names}


def _tells(metric: str, gallery: int | None) -> bool:
    k = metric.partition("@")[2]
    return not (k.isdigit() and gallery is not None and int(k) > gallery)


def _cells(gain: Mapping[str, Any]) -> tuple[Cell, ...]:
    spread: Sequence[float] | None = gain["interval"]
    interval = "" if spread is None else " to ".join(f"{100 * value:+.1f}" for value in spread)
    before, after, perfect = (Cell(percent(gain[name])) for name in ("before", "after", "perfect"))
    return before, after, Cell(f"{100 * gain['difference']:+.1f}", interval=interval), perfect
