"""The one evaluation: evaluate.py, the callback during training and the tests all go through `evaluate_scores`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.budget import demands, refuse_small_budget
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.judging import judged_rows
from muvr_train.left_out import NO_EXPRESSION, NO_LIST, NO_MATCH, NO_REGION, Reasons, left_out
from muvr_train.metrics.aggregate import PartitionMetrics, evaluate_partition, mean_over_partitions
from muvr_train.metrics.ranks import Ties
from muvr_train.metrics.trapezoids import with_trapezoids
from muvr_train.models.retriever import Retriever
from muvr_train.processes import SINGLE, Group
from muvr_train.results import Kept, Results
from muvr_train.robustness import add_extras, add_mean_extras, query_extras
from muvr_train.search.filter_scores import TagSettings
from muvr_train.search.judged import JudgedScores
from muvr_train.search.protocols import GivenFilters
from muvr_train.search.required import needed_modes
from muvr_train.search.sources import TAGGED, ModelScores, ScoreSource
from muvr_train.search.texts import check_modes, official_texts, served_modes, text_notes

log = logging.getLogger(__name__)
KS = (1, 5, 10, 200, 500, 1000, 2000)


@dataclass(frozen=True)
class Protocol:
    """How an evaluation is done.

    Attributes:
        modes: of v, t, tv, tv+tag, tv+region; None takes what is worth a row, see `texts.served_modes`.
        ks: cut-offs of recall@k.
        ties: average (expected value under random order), optimistic or pessimistic.
        on_missing: `error` refuses to be partial; `official` lets missing queries drop out and counts missing database
            videos as not retrieved, as the official MUVR program does; see also `texts.official_texts`.
        memory_budget: bytes that scoring may hold, see `exhaustive.block_bytes`; None for a quarter of what is free.
        keep_scores: keep the scores in the results, for reports; of MUVR-Filter only those of the first mode of tags,
            and of mode tv+tag.
        bootstrap: resamples of the search topics, for 95 % intervals; 0 for none.
        noise: share of the positives that the annotation noise check changes; None for no check.
        details: metrics per level, and for every query its best-scored non-matches and its first missed match.
        tags: rows of MUVR-Filter. Tag expressions have no uAP: scores of one query under different expressions are not
            one ranking (the official program writes 0).
    """

    modes: tuple[str, ...] | None = None
    ks: tuple[int, ...] = KS
    ties: Ties = "average"
    on_missing: str = "error"
    memory_budget: int | None = None
    keep_scores: bool = False
    bootstrap: int = 0
    noise: float | None = None
    details: bool = False
    tags: TagSettings = field(default_factory=TagSettings)


def evaluate(
    model: Retriever,
    store: FeatureStore,
    benchmark: Benchmark,
    protocol: Protocol | None = None,
    group: Group = SINGLE,
) -> Results:
    """Evaluate a model on every partition of a benchmark.

    Args:
        model: on its device; put into eval mode for the duration.
        store: features of all queries and database videos.
        benchmark: already reduced to the queries that are to be scored.
        protocol: how.
        group: processes that share the scoring. All call this with the same arguments and get the same results.

    Raises:
        DataError: features are missing under `on_missing: error` (all ids are counted, the first are listed), or a
            score is not a number.
        ConfigError: a mode that store or model cannot serve.
    """
    protocol = protocol or Protocol()
    as_text = official_texts(protocol.on_missing, benchmark)
    source = ModelScores(model, store, as_text, protocol.memory_budget, group)
    return evaluate_scores(source, benchmark, protocol)


def evaluate_scores(source: ScoreSource, benchmark: Benchmark, protocol: Protocol | None = None) -> Results:
    """Evaluate whatever gives scores; see `evaluate`.

    A partition that has no row in a mode (nothing scored, no query with the mode's part, no query that counts) is left
    out of that mode and of its mean: `Results.notes` says so, and the counts of the mean say how many `partitions`.

    Raises:
        DataError: nothing is left of a mode that was asked for by name, or nothing at all.
    """
    protocol = protocol or Protocol()
    modes = protocol.modes or served_modes(source, benchmark)
    check_modes(modes, source)
    if protocol.on_missing == "error":
        source.refuse_missing(benchmark, needed_modes(protocol.modes, source.modes))
    refuse_small_budget(source, demands(source, benchmark, modes))
    results = Results(benchmark.name)
    averaged = benchmark.averaged or [partition.name for partition in benchmark.partitions]
    per_mode: dict[str, list[PartitionMetrics]] = {} if benchmark.has_filters else {mode: [] for mode in modes}
    every = not benchmark.has_filters or isinstance(source, GivenFilters)
    reasons: Reasons = {}
    for partition, mode, judged, counts in judged_rows(source, benchmark, modes, protocol.tags, protocol.ties, reasons):
        per_mode.setdefault(mode, [])
        if not judged.counted.any():
            reasons[partition.name, mode] = NO_MATCH if partition.divisor == "found" else NO_LIST
            continue
        metrics = _add_row(results, partition, mode, judged, counts, protocol)
        if protocol.keep_scores and (every or mode in (TAGGED, protocol.tags.kept)):
            results.kept.append(Kept(partition, mode, judged, metrics.groups, metrics.pooled))
        if partition.name in averaged:
            per_mode[mode].append(metrics)
    results.notes = left_out(results, benchmark.partitions, tuple(per_mode), reasons)
    results.notes += text_notes(source, benchmark, modes)
    for note in results.notes:
        usual = protocol.modes is None and note.endswith((NO_EXPRESSION, NO_REGION))
        log.log(logging.DEBUG if usual else logging.WARNING, note)
    _add_means(results, per_mode, averaged, optional=protocol.modes is None)
    if not results.rows:
        raise DataError(f"benchmark {benchmark.name}: no query with features has a tag expression that is evaluated")
    add_mean_extras(results, averaged)
    return results


def _add_means(
    results: Results, per_mode: dict[str, list[PartitionMetrics]], averaged: Collection[str], optional: bool
) -> None:
    """Add the row `mean` of each mode; a mode without any partition is refused, or passed over if others have some."""
    for mode, metrics in per_mode.items():
        if not metrics and optional and any(per_mode.values()):
            continue
        if not metrics:
            why = "; ".join(results.notes)
            raise DataError(f"benchmark {results.benchmark}: no partition is left in mode {mode}: {why}")
        rows = [row for row in results.rows if row["mode"] == mode and row["partition"] in averaged]
        counts: list[Any] = [row["counts"] for row in rows]
        total = {name: sum(count[name] for count in counts) for name in counts[0]}
        results.rows.append(
            {
                "benchmark": results.benchmark,
                "mode": mode,
                "partition": "mean",
                "metrics": mean_over_partitions(metrics).metrics,
                "counts": {**total, "partitions": len(metrics)},
            }
        )


def _add_row(
    results: Results, partition: Partition, mode: str, judged: JudgedScores, special: dict[str, int], protocol: Protocol
) -> PartitionMetrics:
    metrics = evaluate_partition(
        judged.scores,
        judged.relevance,
        judged.n_positive,
        judged.counted,
        ks=protocol.ks,
        ties=protocol.ties,
        pooled=not judged.tagged,
    )
    if partition.trapezoids:
        metrics = with_trapezoids(
            metrics, judged.scores, judged.relevance, judged.n_positive, judged.counted, protocol.ties
        )
    own = {query.id: query.video_id for query in partition.queries}
    column = {video: place for place, video in enumerate(judged.database)}
    selves = [(row, column[own[query]]) for row, query in enumerate(judged.queries) if own[query] in column]
    counts = {
        **metrics.counts,
        "missing_database": len(partition.database) - len(judged.database),
        "self_removed": sum(int(judged.relevance[place] == -1) for place in selves),
        **special,
    }
    row: dict[str, object] = {
        "benchmark": results.benchmark,
        "mode": mode,
        "partition": partition.name,
        "metrics": dict(metrics.metrics),
        "counts": counts,
    }
    results.rows.append(row)
    add_extras(results, row, partition, judged, metrics, protocol)
    more = query_extras(partition, judged, metrics) if protocol.details else [{}] * len(judged.judgements)
    lines = _per_query(mode, partition, judged, metrics)
    results.per_query.extend({**line, **extra} for line, extra in zip(lines, more, strict=True))
    return metrics


def _per_query(
    mode: str, partition: Partition, judged: JudgedScores, metrics: PartitionMetrics
) -> Iterator[dict[str, object]]:
    topics = {query.id: query.topic for query in partition.queries}
    for row, judgement in enumerate(judged.judgements):
        yield {
            "query": judgement.query,
            **({} if judgement.expression is None else {"expression": judgement.expression}),
            "partition": partition.name,
            "topic": topics[judgement.query],
            "mode": mode,
            "positives": int(judged.n_positive[row]),
            "counted": bool(judged.counted[row]),
            **{name: float(column[row]) for name, column in metrics.per_query.items()},
        }
