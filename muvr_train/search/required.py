"""The features that an evaluation needs of a store."""

from __future__ import annotations

from collections.abc import Sequence

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError, shorten
from muvr_train.features.store import FeatureStore, tag_key


def refuse_missing(store: FeatureStore, benchmark: Benchmark, modes: Sequence[str]) -> None:
    """Raise if any feature that an evaluation needs is not in the store.

    Raises:
        DataError: with counts and ids of the videos, of the texts where a mode needs them, and of the tags of all
            tag expressions.
    """
    videos = [video for video in benchmark.video_ids if not store.has(video)]
    texts = []
    if set(modes) & {"t", "tv"}:
        texts = [q.id for q in benchmark.queries if q.text is not None and not store.has(q.id, "text")]
    pairs = dict.fromkeys(pair for part in benchmark.partitions for row in filter_rows(part) for pair in row.pairs)
    tags = [f"{query} '{tag}'" for query, tag in pairs if not store.has(tag_key(query, tag), "tags")]
    if not videos and not texts and not tags:
        return
    lines = [f"{store.path} lacks features that benchmark {benchmark.name} needs."]
    if videos:
        lines.append(f"{len(videos)} videos without features: {shorten(videos, 50)}.")
    if texts:
        lines.append(f"{len(texts)} queries without a text vector: {shorten(texts, 50)}.")
    if tags:
        lines.append(f"{len(tags)} tags of queries without a vector: {shorten(tags, 50)}.")
    lines.append(f"Extract or import them. {benchmark.missing_advice}")
    if texts and not videos and not tags:
        lines.append("Or pass benchmark.modes=[v], which needs no texts.")
    raise DataError("\n".join(lines))
