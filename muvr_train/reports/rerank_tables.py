"""What reranking gains and what it costs: before, after, and with a reranker that makes no mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.metrics.bootstrap import interval
from muvr_train.results import RerankedRow, Results

COSTS = {
    "pairs_per_query": "pairs",
    "seconds_per_query": "seconds",
    "prompt_tokens_per_query": "prompt tokens",
    "completion_tokens_per_query": "answer tokens",
}


def gains(
    before: Results, after: Results, perfect: Results, mode: str, averaged: Collection[str]
) -> list[dict[str, Any]]:
    """Compare reranked results with the retrieval's, partition by partition and in the mean.

    Args:
        before: of the retrieval.
        after: reranked.
        perfect: of a reranker that makes no mistake.
        mode: the one that was reranked.
        averaged: names of the partitions that the mean is over.

    Returns:
        One entry per partition and metric: `before`, `after`, `difference`, its 95 % `interval` (None where topics were
        not resampled) and `perfect`.
    """
    found = []
    for row in after.rows:
        partition = str(row["partition"])
        old, best = before.metrics(mode, partition), perfect.metrics(mode, partition)
        names = tuple(averaged) if partition == "mean" else (partition,)
        new = after.metrics(mode, partition)
        for metric in [name for name in ("mAP", "uAP") if name in new] + [name for name in new if "recall@" in name]:
            found.append(
                {
                    "partition": partition,
                    "metric": metric,
                    "before": old[metric],
                    "after": new[metric],
                    "difference": new[metric] - old[metric],
                    "interval": _interval(before, after, mode, names, metric),
                    "perfect": best[metric],
                }
            )
    return found


def _interval(before: Results, after: Results, mode: str, names: Collection[str], metric: str) -> list[float] | None:
    """Both were resampled by the same draws, so their difference is that of each resample."""
    there = [name for name in names if (mode, name) in after.resampled]
    pairs = [(before.resampled[mode, name].get(metric), after.resampled[mode, name].get(metric)) for name in there]
    differences = [new - old for old, new in pairs if old is not None and new is not None]
    if not differences or len(differences) < len(pairs):
        return None
    return interval(np.mean(differences, axis=0))


def rerank_table(row: RerankedRow, partition: str = "mean") -> Table:
    """Show the metrics of a partition before and after, in percent, and what the calls cost.

    A recall@k where k is larger than every gallery is left out.
    """
    facts = row.facts
    where = "mean over partitions" if partition == "mean" else partition
    title = f"{row.name}, mode {facts['mode']}, {where} (%)"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for heading in ("before", "after", "difference [95 %]", "perfect"):
        table.add_column(heading, justify="right")
    gallery = max(part["counts"]["database"] for part in row.results.rows if part["partition"] != "mean")  # type: ignore[index]
    for gain in facts["gains"]:
        k = gain["metric"].removeprefix("recall@")
        if gain["partition"] == partition and not (k.isdigit() and int(k) > gallery):
            table.add_row(f"R@{k}" if k.isdigit() else k, *_cells(gain))
    table.add_section()
    for name, value in cost_lines(facts):
        table.add_row(name, "", value, "", "")
    return table


def print_reranked(rows: Sequence[RerankedRow], console: Console | None = None) -> None:
    """Print the table of each row that has an answerer."""
    console = console or Console(width=None if Console().is_terminal else 140)
    for row in rows:
        if "gains" in row.facts:
            console.print(rerank_table(row))


def _cells(gain: Mapping[str, Any]) -> list[str]:
    before, after, perfect = (f"{100 * gain[name]:.1f}" for name in ("before", "after", "perfect"))
    spread = "" if gain["interval"] is None else " [{:+.1f}, {:+.1f}]".format(*(100 * x for x in gain["interval"]))
    return [before, after, f"{100 * gain['difference']:+.1f}{spread}", perfect]


def cost_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name calls, failures, time and tokens of a reranked row; unknown ones are left out."""
    for name in ("calls", "from_file", "failed", "invalid"):
        yield f"pairs {name.replace('_', ' ')}" if name != "calls" else name, f"{facts['counts'][name]:,}"
    for key, name in COSTS.items():
        if facts["cost"][key] is not None:
            yield f"{name} a {facts['cost_per']}", f"{facts['cost'][key]:,.{0 if 'tokens' in key else 2}f}"


def cost_line(facts: Mapping[str, Any]) -> str:
    """The same as one line."""
    return ", ".join(f"{name} {value}" for name, value in cost_lines(facts))
