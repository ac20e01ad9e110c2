"""The one evaluation: evaluate.py, the callback during training and the tests all call `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.store import FeatureStore
from muvr_train.metrics.aggregate import PartitionMetrics, evaluate_partition, mean_over_partitions
from muvr_train.metrics.ranks import Ties
from muvr_train.models.retriever import MODES, Retriever
from muvr_train.results import Results
from muvr_train.search.judged import JudgedScores, score_partition

KS = (1, 5, 10, 200, 500, 1000, 2000)


@dataclass(frozen=True)
class Protocol:
    """How an evaluation is done.

    Attributes:
        modes: of v, t, tv; None takes what store and model can serve.
        ks: cut-offs of recall@k.
        ties: average (expected value under random order), optimistic or pessimistic.
        on_missing: `error` refuses to be partial; `official` lets missing queries drop out and counts missing database
            videos as not retrieved, as the official MUVR program does.
        database_block: videos encoded and scored at a time; changes memory, not results.
    """

    modes: tuple[str, ...] | None = None
    ks: tuple[int, ...] = KS
    ties: Ties = "average"
    on_missing: str = "error"
    database_block: int = 256


def supported_modes(model: Retriever, store: FeatureStore) -> tuple[str, ...]:
    """Give the modes that a store and a model can serve: v, and t and tv where both know texts."""
    with_text = store.dims.text_dim is not None and model.text_part is not None
    return ("v", "t", "tv") if with_text else ("v",)


def evaluate(model: Retriever, store: FeatureStore, benchmark: Benchmark, protocol: Protocol | None = None) -> Results:
    """Evaluate a model on every partition of a benchmark.

    Args:
        model: on its device; put into eval mode for the duration.
        store: features of all queries and database videos.
        benchmark: already reduced to the queries that are to be scored.
        protocol: how.

    Raises:
        DataError: features are missing under `on_missing: error` (all ids are counted, the first are listed), or a
            score is not a number.
        ConfigError: a mode that store or model cannot serve.
    """
    protocol = protocol or Protocol()
    modes = protocol.modes or supported_modes(model, store)
    _check_modes(modes, model, store)
    if protocol.on_missing == "error":
        refuse_missing(store, benchmark, modes)
    results = Results(benchmark.name)
    per_mode: dict[str, list[PartitionMetrics]] = {mode: [] for mode in modes}
    for partition in benchmark.partitions:
        for mode, metrics, counts in _evaluate_partition(model, store, partition, modes, protocol, results):
            per_mode[mode].append(metrics)
            results.rows.append(
                {
                    "benchmark": benchmark.name,
                    "mode": mode,
                    "partition": partition.name,
                    "metrics": dict(metrics.metrics),
                    "counts": counts,
                }
            )
    for mode, metrics_list in per_mode.items():
        total = _sum_counts([row["counts"] for row in results.rows if row["mode"] == mode])  # type: ignore[misc]
        mean = mean_over_partitions(metrics_list)
        results.rows.append(
            {"benchmark": benchmark.name, "mode": mode, "partition": "mean", "metrics": mean.metrics, "counts": total}
        )
    return results


def refuse_missing(store: FeatureStore, benchmark: Benchmark, modes: Sequence[str]) -> None:
    """Raise if any feature that an evaluation needs is not in the store.

    Raises:
        DataError: with counts and ids of the videos, and of the texts where a mode needs them.
    """
    videos = [video for video in benchmark.video_ids if not store.has(video)]
    texts = []
    if set(modes) & {"t", "tv"}:
        texts = [q.id for q in benchmark.queries if q.text is not None and not store.has(q.id, "text")]
    if not videos and not texts:
        return
    lines = [f"{store.path} lacks features that benchmark {benchmark.name} needs."]
    if videos:
        lines.append(f"{len(videos)} videos without features: {shorten(videos, 50)}.")
    if texts:
        lines.append(f"{len(texts)} queries without a text vector: {shorten(texts, 50)}.")
    lines.append(
        "Extract or import them, or pass on_missing=official to count them as not retrieved and show the counts."
    )
    raise DataError("\n".join(lines))


def _check_modes(modes: Sequence[str], model: Retriever, store: FeatureStore) -> None:
    able = supported_modes(model, store)
    for mode in modes:
        if mode not in MODES:
            raise ConfigError(f"benchmark.modes: unknown mode '{mode}', choose from {', '.join(MODES)}")
        if mode not in able:
            raise ConfigError(
                f"benchmark.modes: mode {mode} needs texts, but the store {store.path} and this model serve only "
                f"{', '.join(able)}"
            )


def _evaluate_partition(
    model: Retriever,
    store: FeatureStore,
    partition: Partition,
    modes: Sequence[str],
    protocol: Protocol,
    results: Results,
) -> Iterator[tuple[str, PartitionMetrics, dict[str, int]]]:
    as_text = protocol.on_missing == "official" and bool(set(modes) - {"v"})
    judged = score_partition(model, store, partition, modes, as_text, protocol.database_block)
    with_features = sum(store.has(query_id) for query_id in partition.query_ids)
    for mode in modes:
        found = judged[mode]
        metrics = evaluate_partition(
            found.scores, found.relevance, found.n_positive, found.counted, ks=protocol.ks, ties=protocol.ties
        )
        counts = {
            **metrics.counts,
            "missing_queries": len(partition.queries) - with_features,
            "missing_database": len(partition.database) - len(found.database),
            "queries_without_text": with_features - len(found.queries),
            "self_removed": int((found.relevance == -1).sum()),
        }
        results.per_query.extend(_per_query(mode, partition, found, metrics))
        yield mode, metrics, counts


def _per_query(
    mode: str, partition: Partition, found: JudgedScores, metrics: PartitionMetrics
) -> Iterator[dict[str, object]]:
    topics = {query.id: query.topic for query in partition.queries}
    for row, query_id in enumerate(found.queries):
        values = {name: float(column[row]) for name, column in metrics.per_query.items()}
        yield {
            "query": query_id,
            "partition": partition.name,
            "topic": topics[query_id],
            "mode": mode,
            "positives": int(found.n_positive[row]),
            "counted": bool(found.counted[row]),
            **values,
        }


def _sum_counts(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(count[name] for count in counts) for name in counts[0]} if counts else {}
