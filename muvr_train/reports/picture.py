"""A picture of what a network sees: the similarity map of a query and one of its matches."""

from __future__ import annotations

from pathlib import Path

import torch

from muvr_train.benchmarks.types import Benchmark
from muvr_train.data.batch import load_queries
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import Retriever


def save_similarity_picture(path: Path, model: Retriever, store: FeatureStore, benchmark: Benchmark) -> Path | None:
    """Draw the map of the first query (of each of up to five partitions) against its first match that has features.

    Returns:
        The path, or None where no query has a match with features.
    """
    pairs = []
    for partition in benchmark.partitions[:5]:
        found = (
            (judgement.query, video)
            for judgement in partition.judgements
            for video in sorted(judgement.positives)
            if video != judgement.query and store.has(judgement.query) and store.has(video)
        )
        pairs += [pair for pair in [next(found, None)] if pair is not None]
    if not pairs:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(pairs), figsize=(3.6 * len(pairs), 3.9), squeeze=False, layout="constrained")
    by_id = benchmark.query_by_id
    device = next((tensor.device for tensor in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    model.eval()
    for axis, (query_id, video) in zip(axes[0], pairs, strict=True):
        with torch.inference_mode():
            query = model.encode_query(load_queries(store, [by_id[query_id]]).to(device))
            fine = store.tokens([video], "fine").to(device) if store.dims.fine_dim is not None else None
            database = model.encode_database(store.tokens([video]).to(device), fine)
            if query.index is None:
                continue
            values = model.network.similarity_map(query.index, database.index)[0, 0].float().cpu().numpy()
        low, high = model.network.range
        image = axis.imshow(
            values, vmin=min(low, float(values.min())), vmax=max(high, float(values.max())), aspect="auto"
        )
        axis.set_title(f"{query_id}\n{video}", fontsize=8)
        axis.set_xlabel("frames of the match", fontsize=8)
        axis.set_ylabel("frames of the query", fontsize=8)
    figure.colorbar(image, ax=axes[0].tolist(), shrink=0.8, label="similarity")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
