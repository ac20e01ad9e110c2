"""The one evaluation: evaluate.py, the callback during training and the tests all call `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.data.batch import load_queries
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.store import FeatureStore
from muvr_train.metrics.aggregate import PartitionMetrics, evaluate_partition, mean_over_partitions, relevance_matrix
from muvr_train.metrics.ranks import Ties
from muvr_train.models.retriever import MODES, Retriever
from muvr_train.results import Results
from muvr_train.search.exhaustive import score_database
from muvr_train.types import EncodedDatabase, QueryBatch

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


def _database_blocks(
    model: Retriever, store: FeatureStore, ids: Sequence[str], size: int
) -> Callable[[], Iterator[EncodedDatabase]]:
    device = device_of(model)
    has_fine = store.dims.fine_dim is not None

    def blocks() -> Iterator[EncodedDatabase]:
        for start in range(0, len(ids), size):
            block = ids[start : start + size]
            fine = store.tokens(block, "fine").to(device) if has_fine else None
            yield model.encode_database(store.tokens(block).to(device), fine)

    return blocks


def _evaluate_partition(
    model: Retriever,
    store: FeatureStore,
    partition: Partition,
    modes: Sequence[str],
    protocol: Protocol,
    results: Results,
) -> Iterator[tuple[str, PartitionMetrics, dict[str, int]]]:
    official = protocol.on_missing == "official"
    queries = [query for query in partition.queries if store.has(query.id)]
    database = [video for video in partition.database if store.has(video)]
    if not queries or not database:
        raise DataError(f"partition {partition.name}: no query or no database video has features in {store.path}")
    blocks = _database_blocks(model, store, database, protocol.database_block)
    batch = load_queries(store, queries, frames_as_text=official and bool(set(modes) - {"v"}))
    scored = _score_modes(model, batch, blocks, modes)
    judgements = {judgement.query: judgement for judgement in partition.judgements}
    listed = frozenset(partition.database)
    for mode in modes:
        rows, matrix = scored[mode]
        ids = [queries[row].id for row in rows]
        judged = [judgements[query_id] for query_id in ids]
        _refuse_nan(matrix, ids, database)
        relevance = relevance_matrix(ids, [judgement.positives for judgement in judged], database)
        n_positive = np.array([len(listed & judgement.positives.keys()) for judgement in judged], dtype=np.int64)
        counted = np.array([judgement.counted for judgement in judged])
        metrics = evaluate_partition(matrix, relevance, n_positive, counted, ks=protocol.ks, ties=protocol.ties)
        counts = {
            **metrics.counts,
            "missing_queries": len(partition.queries) - len(queries),
            "missing_database": len(partition.database) - len(database),
            "queries_without_text": len(queries) - len(rows),
            "self_removed": int((relevance == -1).sum()),
        }
        results.per_query.extend(_per_query(mode, partition.name, ids, n_positive, counted, metrics))
        yield mode, metrics, counts


def _score_modes(
    model: Retriever, batch: QueryBatch, blocks: Callable[[], Iterator[EncodedDatabase]], modes: Sequence[str]
) -> dict[str, tuple[list[int], np.ndarray]]:
    """Score each mode for the queries that have a part of it: row numbers [Q'] and scores float32 [Q', N]."""
    batch = batch.to(device_of(model))
    groups: dict[tuple[int, ...], list[str]] = {}
    for mode in modes:
        able = torch.stack([batch.present[part] for part in MODES[mode]]).any(dim=0)
        groups.setdefault(tuple(able.nonzero().flatten().tolist()), []).append(mode)
    scored: dict[str, tuple[list[int], np.ndarray]] = {}
    for rows, group in groups.items():
        part = batch if len(rows) == len(batch) else batch[torch.tensor(rows, dtype=torch.long)]
        matrices = score_database(model, part, blocks, group)
        scored |= {mode: (list(rows), matrices[mode]) for mode in group}
    return scored


def device_of(model: torch.nn.Module) -> torch.device:
    """Give the device a model lives on; CPU for one without weights."""
    tensors = [*model.parameters(), *model.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


def _refuse_nan(scores: np.ndarray, queries: Sequence[str], database: Sequence[str]) -> None:
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{len(bad)} scores are not finite; the first is query {queries[row]} against video {database[column]}: "
            "look at the features of both and at the checkpoint"
        )


def _per_query(
    mode: str,
    partition: str,
    ids: Sequence[str],
    n_positive: np.ndarray,
    counted: np.ndarray,
    metrics: PartitionMetrics,
) -> Iterator[dict[str, object]]:
    for row, query_id in enumerate(ids):
        values = {name: float(column[row]) for name, column in metrics.per_query.items()}
        yield {
            "query": query_id,
            "partition": partition,
            "mode": mode,
            "positives": int(n_positive[row]),
            "counted": bool(counted[row]),
            **values,
        }


def _sum_counts(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(count[name] for count in counts) for name in counts[0]} if counts else {}
