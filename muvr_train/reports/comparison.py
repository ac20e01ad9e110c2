"""Differences between runs on the same queries: intervals, p values and effect sizes, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from muvr_train.errors import DataError
from muvr_train.metrics.bootstrap import draw_topics, interval, resampled_means, undefined
from muvr_train.metrics.ranks import Floats
from muvr_train.metrics.significance import DRAWS, EXACT, effect_size, holm, sign_flip_p
from muvr_train.reports.matching import Block, common_blocks
from muvr_train.reports.runs import Key, Run

DEFINITIONS = {
    "value": "mean over the counted queries of a partition; `mean` is the plain mean over partitions, "
    "`mean of common` that over the partitions that every run has",
    "interval": "95 % percentile interval over bootstrap resamples of the search topics of each partition",
    "difference": "run minus the first run, on the same queries; its interval resamples the same topics for both",
    "p": "two-sided paired permutation test that flips the sign of whole topics: all patterns of up to "
    f"{EXACT} topics, else {DRAWS:,} random ones; `mean`: over the topics of all partitions, each with its weight and "
    "flipped in all its partitions at once",
    "p_holm": "p after Holm's correction for the number of runs that are compared with the first",
    "effect_size": "Cohen's d_z: mean difference of the topics in units of its standard deviation; `mean`: over all "
    "topics, of a topic of several partitions its mean",
    "queries": "counted queries, or with tag expressions the counted pairs of a query and an expression (`asked`)",
    "topics": "search topics with counted queries, each once",
}
MEANS = "mean", "mean of common"
"""What the mean over partitions is called: over all, and where a run lacks some of them."""
UAP_NOTE = (
    "uAP has intervals but no p value: it ranks the pairs of all queries at once, and scores of two models cannot be "
    "swapped within one ranking"
)
UAP_WITHOUT = (
    "uAP has no paired interval here: it needs the resampled values that an evaluation with benchmark.bootstrap > 0 "
    "leaves in resampled.npz, of as many resamples in each run"
)


@dataclass(frozen=True)
class Paired:
    """What K runs reach on one partition, as it enters the mean over partitions.

    Attributes:
        values: [K] the metric.
        samples: [K, B] resampled, None where there are none.
        shares: [K - 1, T] what each topic adds to the difference to the first run; None for uAP.
        topics: [K - 1, T] mean difference of each topic; None for uAP.
        names: [T] the topics.
        queries: counted ones.
    """

    values: Floats
    samples: Floats | None
    shares: Floats | None
    topics: Floats | None
    names: tuple[str, ...]
    queries: frozenset[Key]

    @property
    def size(self) -> int:
        """T."""
        return len(self.names)


def compare_runs(
    runs: Sequence[Run],
    metric: str = "mAP",
    mode: str | None = None,
    common: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare runs with the first of them.

    Args:
        runs: two or more, on the same queries.
        metric: `mAP`, `uAP`, or a per-query metric as it is named in per_query.csv.
        mode: one mode; None for all that every run has.
        common: allow different query sets and compare the queries that all have.
        resamples: B, for intervals.
        seed: of the draws.

    Returns:
        `benchmark`, `metric`, `runs` (names), `rows` (one per mode and partition: `values`, `intervals` [K] and
        `differences` [K - 1]), `notes` and `definitions`; fractions, ready for JSON.

    Raises:
        ConfigError: an unknown metric or mode.
        DataError: the runs are not about the same queries, galleries or benchmark.
    """
    blocks = common_blocks(runs, "mAP" if metric == "uAP" else metric, mode, common)
    if metric == "uAP" and not all(block.whole for block in blocks):
        raise DataError("uAP ranks all queries of a partition together: it cannot be compared on the common ones only")
    rows, notes = [], [*_training_notes(runs), *([UAP_NOTE] if metric == "uAP" else [])]
    for chosen in dict.fromkeys(block.mode for block in blocks):
        parts = {block.partition: block for block in blocks if block.mode == chosen}
        paired = {name: _paired(runs, block, metric, resamples, seed) for name, block in parts.items()}
        lacking = _partitions(runs, chosen) - paired.keys()
        own = _mode_rows(runs, chosen, paired, lacking)
        rows += own
        notes += [f"{chosen}{text}" for text in _mode_notes(metric, paired, lacking, own)]
        if metric == "uAP" and any(part.samples is None and part.size > 1 for part in paired.values()):
            notes.append(UAP_WITHOUT)
    return {
        "benchmark": runs[0].benchmark,
        "metric": metric,
        "runs": [{"name": run.name, "path": str(run.path)} for run in runs],
        "rows": rows,
        "notes": list(dict.fromkeys(notes)),
        "definitions": DEFINITIONS,
    }


def shown_rows(rows: Sequence[Mapping[str, Any]], means: bool = False) -> list[Mapping[str, Any]]:
    """The rows of one mode as they are shown: without a mean over one partition, or the `means` alone."""
    if [row["partition"] for row in rows[1:]] == ["mean"]:
        return list(rows[:1])
    return [row for row in rows if row["partition"] in MEANS or not means]


def _mode_rows(
    runs: Sequence[Run], mode: str, paired: Mapping[str, Paired], lacking: AbstractSet[str]
) -> list[dict[str, Any]]:
    """The rows of a mode: one per partition, then the mean; partitions that a run lacks are left out of it."""
    rows = [_row(runs, mode, name, part) for name, part in paired.items()]
    averaged = runs[0].meta.get("averaged") or paired.keys() | lacking
    inside = [part for name, part in paired.items() if name in averaged]
    return [*rows, _row(runs, mode, MEANS[not lacking.isdisjoint(averaged)], _mean(inside))] if inside else rows


def _mode_notes(
    metric: str, paired: Mapping[str, Paired], lacking: AbstractSet[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """How to read the rows of a mode; each goes on after the mode's name."""
    for name, part in paired.items():
        if part.samples is not None and (text := undefined(part.samples[0])):
            yield f", {name}: {text}"
    if lacking:
        yield f": {', '.join(sorted(lacking))}: not in every run, left out"
    if any(part.size < 2 for part in paired.values()):
        yield ": a partition with one search topic has no interval, and so the mean has none"
    few = [row["partition"] for row in rows if row["topics"] > 1 and 2.0 ** (1 - row["topics"]) >= 0.05]
    if metric != "uAP" and few:
        yield f": {', '.join(few)}: with five topics or fewer no p value can be below 0.05, and intervals are narrow"


def _training_notes(runs: Sequence[Run]) -> list[str]:
    """Which runs are not trained; which were on some partitions only, where not all were on the same ones."""
    notes = [
        f"{run.name}: its best.ckpt is of step 0: no evaluation was better than that of the untrained model, whose "
        "results these are"
        for run in runs
        if run.best_step == 0
    ]
    named = [run.meta.get("protocol", {}).get("train_partitions") for run in runs]
    if all(names == named[0] for names in named):
        return notes
    pairs = zip(runs, named, strict=True)
    return notes + [f"{run.name}: trained on the topics of {', '.join(names)} only" for run, names in pairs if names]


def _partitions(runs: Sequence[Run], mode: str) -> set[str]:
    """Those that any run has in a mode."""
    return {partition for run in runs for known, partition in run.lines if known == mode}


def _paired(runs: Sequence[Run], block: Block, metric: str, resamples: int, seed: int) -> Paired:
    draws = draw_topics(block.topics, resamples, seed)
    number = draws.sums(block.counted)
    names = tuple(topic for topic, counted in zip(draws.topics, number > 0, strict=True) if counted)
    queries = frozenset(key for key, counted in zip(block.keys, block.counted, strict=True) if counted)
    if not queries:
        raise DataError(f"partition {block.partition}, mode {block.mode}: no query is counted")
    if metric == "uAP":
        values, samples = _uap(runs, block)
        return Paired(values, samples if len(names) > 1 else None, None, None, names, queries)
    values = block.values[:, block.counted].mean(axis=1)
    samples = resampled_means(block.values, block.counted, draws) if len(names) > 1 else None
    sums = draws.sums((block.values[1:] - block.values[0]) * block.counted)[:, number > 0]
    return Paired(values, samples, sums / len(queries), sums / number[number > 0], names, queries)


def _uap(runs: Sequence[Run], block: Block) -> tuple[Floats, Floats | None]:
    key = block.mode, block.partition
    for run in runs:
        if "uAP" not in run.rows.get(key, {}).get("metrics", {}):
            raise DataError(f"{run.name} has no uAP of mode {block.mode}, partition {block.partition}")
    values = np.array([run.rows[key]["metrics"]["uAP"] for run in runs])
    found = [run.resampled.get(key) for run in runs]
    known = [samples for samples in found if samples is not None]
    if len(known) < len(runs) or len({len(samples) for samples in known}) > 1:
        return values, None
    return values, np.stack(known)


def _mean(parts: Sequence[Paired]) -> Paired:
    known = [part.samples for part in parts if part.samples is not None]
    shares = [part.shares for part in parts if part.shares is not None]
    topics = [part.topics for part in parts if part.topics is not None]
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    same = np.array([[name == own for own in names] for part in parts for name in part.names], dtype=np.float64)
    return Paired(
        np.mean([part.values for part in parts], axis=0),
        np.mean(known, axis=0) if len(known) == len(parts) else None,
        np.concatenate(shares, axis=1) @ same / len(parts) if shares else None,
        np.concatenate(topics, axis=1) @ same / same.sum(axis=0) if topics else None,
        names,
        frozenset().union(*(part.queries for part in parts)),
    )


def _row(runs: Sequence[Run], mode: str, partition: str, part: Paired) -> dict[str, Any]:
    tested = part.shares is not None and part.size > 1
    p_values = [sign_flip_p(shares) for shares in part.shares] if tested and part.shares is not None else None
    adjusted = holm(p_values) if p_values is not None else None
    differences = []
    for index, run in enumerate(runs[1:]):
        differences.append(
            {
                "run": run.name,
                "difference": float(part.values[index + 1] - part.values[0]),
                "interval": None if part.samples is None else interval(part.samples[index + 1] - part.samples[0]),
                "p": None if p_values is None else p_values[index],
                "p_holm": None if adjusted is None else adjusted[index],
                "effect_size": None if part.topics is None else effect_size(part.topics[index]),
            }
        )
    return {
        "mode": mode,
        "partition": partition,
        "queries": len(part.queries),
        "asked": "expressions" if any(expression for _, expression in part.queries) else "queries",
        "topics": part.size,
        "values": [float(value) for value in part.values],
        "intervals": [None if part.samples is None else interval(part.samples[k]) for k in range(len(runs))],
        "differences": differences,
    }
