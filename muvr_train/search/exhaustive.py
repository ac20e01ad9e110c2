"""Scores of every query against every database video, in bounded memory and independent of the block sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from muvr_train.models.retriever import Retriever
from muvr_train.types import EncodedDatabase, QueryBatch


def score_database(
    model: Retriever,
    queries: QueryBatch,
    database_blocks: Callable[[], Iterator[EncodedDatabase]],
    modes: Sequence[str],
    query_block: int = 64,
) -> dict[str, np.ndarray]:
    """Score queries against a database that arrives in encoded blocks.

    Args:
        model: the retriever, used in eval mode without gradients.
        queries: Q queries, on the model's device.
        database_blocks: gives a fresh iterator over the encoded blocks of N videos in all, in order.
        modes: of `v` (video), `t` (text), `tv` (both).
        query_block: queries scored at a time; changes memory, not results.

    Returns:
        float32 [Q, N] for each mode.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            encoded = [
                model.encode_query(queries[slice(start, start + query_block)])
                for start in range(0, len(queries), query_block)
            ]
            columns: dict[str, list[np.ndarray]] = {mode: [] for mode in modes}
            for block in database_blocks():
                parts = [model.score_modes(query, block, modes) for query in encoded]
                for mode in modes:
                    columns[mode].append(torch.cat([part[mode].float() for part in parts]).cpu().numpy())
    finally:
        model.train(was_training)
    return {mode: np.concatenate(blocks, axis=1) for mode, blocks in columns.items()}
