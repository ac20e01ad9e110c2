"""A picture of what a network sees: the similarity map of a query and one of its matches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Benchmark, Partition, Query
from muvr_train.data.batch import load_queries
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.asking import map_of
from muvr_train.models.functional import frame_maps
from muvr_train.models.retriever import Retriever
from muvr_train.search.planning import device_of


def save_similarity_picture(path: Path, model: Retriever, store: FeatureStore, benchmark: Benchmark) -> Path | None:
    """Draw frame cosines and network maps: the first query of up to five partitions against its first match.

    Returns:
        The path, or None where no query has a match with features.
    """
    found = (_first_match(partition, store) for partition in benchmark.partitions[:5])
    pairs = [match for match in found if match is not None]
    if not pairs:
        return None
    maps = [similarity_maps(model, store, benchmark.query_by_id[query], video) for query, video in pairs]
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    residual = getattr(model.network, "residual_scale", None) is not None
    rows = (
        "cosine of frames, best regions",
        "network's map" + (" (times a: added to the base score)" if residual else ""),
    )
    figure, axes = plt.subplots(2, len(pairs), figsize=(3.2 * len(pairs) + 1, 6.4), squeeze=False, layout="constrained")
    for column, (query, video) in enumerate(pairs):
        axes[0, column].set_title(f"{query}\n{video}", fontsize=8)
    for row, what in enumerate(rows):
        reach = max(float(np.abs(pair[row]).max()) for pair in maps) or 1.0  # all are 0: as before training
        low = -reach if min(float(pair[row].min()) for pair in maps) < 0 else 0.0
        for column, pair in enumerate(maps):
            frames_q, frames_n = pair[0].shape
            axis = axes[row, column]
            image = axis.imshow(
                pair[row],
                vmin=low,
                vmax=reach,
                cmap="RdBu_r" if low < 0 else "viridis",
                extent=(0, frames_n, frames_q, 0),
                aspect="auto",
            )
            for side in (axis.xaxis, axis.yaxis):
                side.set_major_locator(MaxNLocator(nbins=8, integer=True))
            axis.set_xlabel("frames of the match", fontsize=7)
        axes[row, 0].set_ylabel(f"{what}\nframes of the query", fontsize=8)
        figure.colorbar(image, ax=axes[row].tolist(), shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _first_match(partition: Partition, store: FeatureStore) -> tuple[str, str] | None:
    """Give the first query that has a match which is no query, both with features."""
    own = {query.id: query.video_id for query in partition.queries}
    shown = set(own.values())
    found = (
        (judgement.query, video)
        for judgement in partition.judgements
        for video in sorted(judgement.positives)
        if video not in shown and store.has(own[judgement.query]) and store.has(video)
    )
    return next(found, None)


def similarity_maps(model: Retriever, store: FeatureStore, query: Query, video: str) -> tuple[NDArray[np.float32], ...]:
    """Give the cosines of raw frames [T1, T2], and the network's own map (what is added to the cosines, if it adds).

    Raises:
        DataError: the query has no video.
    """
    model.eval()
    device = device_of(model)
    with torch.inference_mode():
        encoded = model.encode_query(load_queries(store, [query]).to(device))
        fine = store.tokens([video], "fine").to(device) if store.dims.fine_dim is not None else None
        database = model.encode_database(store.tokens([video]).to(device), fine)
        if encoded.index is None or encoded.query.video is None:
            raise DataError(f"query {query.id} has no video: no similarity map can be drawn")
        frames = frame_maps(encoded.query.video.x, database.raw.x, "max")[0, 0]
        refined = map_of(model.network, encoded.index, database.index)
        scale = getattr(model.network, "residual_scale", None)
        refined = refined if scale is None else scale * refined  # what is added to the base score
    return tuple(values.float().cpu().numpy() for values in (frames, refined))
