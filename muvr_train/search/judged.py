"""Scores of one partition together with what is right: all that a metric needs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Partition
from muvr_train.data.batch import load_queries
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import MODES, Retriever
from muvr_train.search.exhaustive import score_database
from muvr_train.types import EncodedDatabase, QueryBatch


@dataclass(frozen=True)
class JudgedScores:
    """What a model gave for the queries of a partition that have a part of the mode, and the judgements.

    Attributes:
        queries: Q ids.
        database: N ids of the database videos that have features.
        scores: float32 [Q, N].
        relevance: int8 [Q, N]: 1 match, 0 no match, -1 the query itself.
        n_positive: int64 [Q], annotated positives in the gallery, found or not.
        counted: bool [Q], False where the official program leaves the query out of mAP.
    """

    queries: tuple[str, ...]
    database: tuple[str, ...]
    scores: NDArray[np.float32]
    relevance: NDArray[np.int8]
    n_positive: NDArray[np.int64]
    counted: NDArray[np.bool_]


def score_partition(
    model: Retriever,
    store: FeatureStore,
    partition: Partition,
    modes: Sequence[str],
    frames_as_text: bool = False,
    block: int = 256,
) -> dict[str, JudgedScores]:
    """Score every query against every database video of a partition that has features.

    Args:
        model: on its device.
        store: the features; ids it lacks are passed over (`evaluation.refuse_missing` comes first where that is wrong).
        partition: queries, database and judgements.
        modes: of v, t, tv.
        frames_as_text: the official rule for queries without a text vector, see `load_queries`.
        block: database videos encoded and scored at a time; changes memory, not results.

    Raises:
        DataError: nothing has features, or a score is not finite (query and video are named).
    """
    queries = [query for query in partition.queries if store.has(query.id)]
    database = tuple(video for video in partition.database if store.has(video))
    if not queries or not database:
        raise DataError(f"partition {partition.name}: no query or no database video has features in {store.path}")
    batch = load_queries(store, queries, frames_as_text=frames_as_text).to(device_of(model))
    blocks = _database_blocks(model, store, database, block)
    judgements = {judgement.query: judgement for judgement in partition.judgements}
    listed = frozenset(partition.database)
    judged: dict[str, JudgedScores] = {}
    for rows, group in _groups(batch, modes).items():
        part = batch if len(rows) == len(batch) else batch[torch.tensor(rows, dtype=torch.long)]
        found = [judgements[query_id] for query_id in part.ids]
        relevance = relevance_matrix(part.ids, [judgement.positives for judgement in found], database)
        n_positive = np.array([len(listed & judgement.positives.keys()) for judgement in found], dtype=np.int64)
        counted = np.array([judgement.counted for judgement in found], dtype=bool)
        for mode, scores in score_database(model, part, blocks, group).items():
            _refuse_nan(scores, part.ids, database)
            judged[mode] = JudgedScores(part.ids, database, scores, relevance, n_positive, counted)
    return judged


def relevance_matrix(
    query_ids: Sequence[str], positives: Sequence[Mapping[str, str]], database_ids: Sequence[str]
) -> NDArray[np.int8]:
    """Relevance as the official evaluator has it: 1 for positives, -1 for the query's own video, 0 for all others.

    Args:
        query_ids: [Q] the rows.
        positives: [Q] positives of each row by database id; those that are not among the columns are passed over (the
            caller counts them in `n_positive`).
        database_ids: [N] the columns.

    Returns:
        int8 [Q, N].
    """
    column = {video: index for index, video in enumerate(database_ids)}
    relevance = np.zeros((len(query_ids), len(database_ids)), dtype=np.int8)
    for row, (query, matches) in enumerate(zip(query_ids, positives, strict=True)):
        relevance[row, [column[video] for video in matches if video in column]] = 1
        if query in column:
            relevance[row, column[query]] = -1
    return relevance


def device_of(model: torch.nn.Module) -> torch.device:
    """Give the device a model lives on."""
    return next(iter([*model.parameters(), *model.buffers()])).device


def _groups(batch: QueryBatch, modes: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
    """Modes by the row numbers of the queries that have a part of them."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for mode in modes:
        able = torch.stack([batch.present[part] for part in MODES[mode]]).any(dim=0)
        groups.setdefault(tuple(able.nonzero().flatten().tolist()), []).append(mode)
    return groups


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


def _refuse_nan(scores: NDArray[np.float32], queries: Sequence[str], database: Sequence[str]) -> None:
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{len(bad)} scores are not finite; the first is query {queries[row]} against video {database[column]}: "
            "look at the features of both and at the checkpoint"
        )
