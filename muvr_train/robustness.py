"""What an evaluation adds to its rows when it is asked to: intervals, the noise check, levels, and what was missed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Partition
from muvr_train.metrics.aggregate import PartitionMetrics
from muvr_train.metrics.bootstrap import draw_topics, interval, resample_partition, undefined
from muvr_train.metrics.noise import KINDS, changed_pairs, noisy_map
from muvr_train.metrics.ranks import rank_rows
from muvr_train.metrics.subsets import evaluate_subset
from muvr_train.results import Results
from muvr_train.search.details import first_missed, top_false
from muvr_train.search.filter_scores import expression_groups
from muvr_train.search.judged import JudgedScores
from muvr_train.search.levels import levels_of, positives_of_level, ranked_levels

if TYPE_CHECKING:
    from muvr_train.evaluation import Protocol

ONE_TOPIC = "no interval: only one search topic has counted queries"
LACKING = "no interval: a partition has none"
MEAN_OF = ("noise", "level", "operator", "sign")
Samples = dict[str, NDArray[np.float64]]


def add_extras(
    results: Results,
    row: dict[str, Any],
    partition: Partition,
    judged: JudgedScores,
    metrics: PartitionMetrics,
    protocol: Protocol,
) -> None:
    """Add to a fresh row of a partition what the protocol asks for.

    Args:
        results: gets breakdowns, and keeps the resampled values for `add_mean_extras`.
        row: gets `intervals`.
        partition: of the row.
        judged: its scores.
        metrics: its metrics.
        protocol: how.
    """
    where = {name: row[name] for name in ("benchmark", "mode", "partition")}
    if protocol.bootstrap:
        topics = {query.id: query.topic for query in partition.queries}
        draws = draw_topics([topics[query] for query in judged.queries], protocol.bootstrap)
        samples = resample_partition(
            judged.scores,
            judged.relevance,
            judged.n_positive,
            judged.counted,
            metrics.per_query,
            draws,
            protocol.ties,
            "uAP" in metrics.metrics,
        )
        results.resampled[row["mode"], partition.name] = samples
        add_intervals(row, samples, ONE_TOPIC)
    if protocol.noise:
        results.breakdowns.extend({**where, **part} for part in _noise(partition, judged, protocol))
    if judged.tagged:
        results.breakdowns.extend({**where, **part} for part in _expression_groups(partition, judged, metrics))
    elif protocol.details:
        results.breakdowns.extend({**where, **part} for part in _levels(partition, judged, metrics, protocol))


def query_extras(partition: Partition, judged: JudgedScores, metrics: PartitionMetrics) -> list[dict[str, object]]:
    """The columns `top_false`, `first_missed` and `first_missed_rank` of per_query.csv, for every row."""
    groups = metrics.groups or rank_rows(judged.scores, judged.relevance)
    own = {query.id: query.video_id for query in partition.queries}
    unscored = frozenset(partition.database) - frozenset(judged.database)
    lines: list[dict[str, object]] = []
    for row, query in enumerate(judged.queries):
        missed = first_missed(judged, row, groups, unscored - {own[query]})
        lines.append(
            {
                "top_false": json.dumps(top_false(judged, row), ensure_ascii=False),
                "first_missed": "" if missed is None else missed.video,
                "first_missed_rank": "" if missed is None or missed.rank is None else missed.rank,
            }
        )
    return lines


def add_mean_extras(results: Results, averaged: Collection[str]) -> None:
    """Add to the rows of the mean over partitions, and to the breakdowns, what follows from the partitions' extras.

    Args:
        results: with every row.
        averaged: names of the partitions that the mean is over.
    """
    samples = results.resampled.items()
    for row in results.rows:
        parts = [part for (mode, name), part in samples if mode == row["mode"] and name in averaged]
        if row["partition"] == "mean" and parts:
            common = [name for name in parts[0] if all(name in part for part in parts)]
            add_intervals(row, {name: np.mean([part[name] for part in parts], axis=0) for name in common}, LACKING)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for part in results.breakdowns:
        if part["group"] in MEAN_OF and part["partition"] in averaged:
            groups.setdefault((part["group"], part["mode"], part["name"]), []).append(part)
    for parts in groups.values():
        counts = {name: sum(part["counts"][name] for part in parts) for name in parts[0]["counts"]}
        mean = {**parts[0], "partition": "mean", "counts": {**counts, "partitions": len(parts)}}
        if "repeats" in mean:
            mean.update(_mean_and_spread(np.mean([part["repeats"] for part in parts], axis=0)))
        else:
            names = parts[0]["metrics"]
            mean["metrics"] = {name: float(np.mean([part["metrics"][name] for part in parts])) for name in names}
        results.breakdowns.append(mean)


def add_intervals(row: dict[str, Any], samples: Samples, otherwise: str) -> None:
    """Add the intervals of resampled metrics to a row; a note says `otherwise` where there are none."""
    names = [name for name in row["metrics"] if name in ("mAP", "uAP") or name.startswith("recall@")]
    row["intervals"] = {name: interval(samples[name]) if name in samples else None for name in names}
    lost = {name: undefined(samples[name]) for name in ("mAP", "uAP") if name in samples}
    notes = [f"interval of {name}: {text}" for name, text in lost.items() if text] if samples else [otherwise]
    if notes:
        row["notes"] = notes


def _expression_groups(
    partition: Partition, judged: JudgedScores, metrics: PartitionMetrics
) -> Iterator[dict[str, Any]]:
    """The means over the rows of each operator and sign of tag expressions."""
    for group, name, members in expression_groups(partition, judged.judgements):
        values = {
            "mAP" if key == "AP" else key: float(column[members].mean()) for key, column in metrics.per_query.items()
        }
        yield {"group": group, "name": name, "metrics": values, "counts": {"expressions": int(members.sum())}}


def _levels(
    partition: Partition, judged: JudgedScores, metrics: PartitionMetrics, protocol: Protocol
) -> Iterator[dict[str, Any]]:
    names = ranked_levels(judged)
    for level in levels_of(partition):
        n_positive = positives_of_level(partition, judged, level)
        counted = judged.counted & (n_positive > 0)
        if counted.any():
            found = evaluate_subset(
                judged.scores,
                judged.relevance,
                metrics,
                names == level,
                n_positive,
                counted,
                protocol.ks,
                protocol.ties,
            )
            yield {"group": "level", "name": level, "metrics": found.metrics, "counts": found.counts}


def _noise(partition: Partition, judged: JudgedScores, protocol: Protocol) -> Iterator[dict[str, Any]]:
    kept = judged.counted
    data = judged.scores[kept], judged.relevance[kept], judged.n_positive[kept]
    share = protocol.noise or 0.0
    counts = {"positives": int(data[2].sum()), "changed_pairs": changed_pairs(data[2], share)}
    for kind in KINDS:
        values = noisy_map(*data, kind, share, ties=protocol.ties, trapezoids=partition.trapezoids)
        if len(values):
            yield {"group": "noise", "name": kind, "share": share, **_mean_and_spread(values), "counts": counts}


def _mean_and_spread(values: NDArray[np.float64]) -> dict[str, Any]:
    metrics = {"mAP": float(values.mean()), "mAP_std": float(values.std(ddof=1))}
    return {"metrics": metrics, "repeats": [float(value) for value in values]}
