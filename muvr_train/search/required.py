"""The features that an evaluation needs of a store."""

from __future__ import annotations

from collections.abc import Sequence

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError, shorten
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.models.queries import MODES


def needed_modes(asked: Sequence[str] | None, served: Sequence[str]) -> Sequence[str]:
    """The modes whose features must be whole: those that are asked for by name, else all but tv+tag.

    Args:
        asked: None where nothing is asked for by name.
        served: what store and model can serve.
    """
    return asked or [mode for mode in served if mode != "tv+tag"]


def refuse_missing(store: FeatureStore, benchmark: Benchmark, modes: Sequence[str]) -> None:
    """Raise if any feature that an evaluation needs is not in the store.

    Raises:
        DataError: with counts and ids of the videos, of the texts and marked regions where a mode needs them, and of
            the tags of all tag expressions where they are what is evaluated or mode tv+tag is asked for.
    """
    videos = [video for video in benchmark.video_ids if not store.has(video)]
    texts = []
    if store.dims.text_dim is not None and any("text" in MODES.get(mode, ()) for mode in modes):
        texts = [q.id for q in benchmark.queries if q.text is not None and not store.has(q.id, "text")]
    rows = [row for part in benchmark.partitions for row in filter_rows(part)]
    asked = rows if benchmark.has_filters or "tv+tag" in modes else []
    pairs = dict.fromkeys(pair for row in asked for pair in row.pairs)
    tags = [f"{query} '{tag}'" for query, tag in pairs if not store.has(tag_key(query, tag), "tags")]
    regions = []
    if "tv+region" in modes:
        regions = [q.id for q in benchmark.queries if q.mask is not None and not store.has(q.id, "region")]
    if not videos and not texts and not tags and not regions:
        return
    lines = [f"{store.path} lacks features that benchmark {benchmark.name} needs."]
    if videos:
        lines.append(f"{len(videos)} videos without features: {shorten(videos, 50)}.")
    if texts:
        lines.append(f"{len(texts)} queries without a text vector: {shorten(texts, 50)}.")
    if tags:
        lines.append(f"{len(tags)} tags of queries without a vector: {shorten(tags, 50)}.")
    if regions:
        lines.append(f"{len(regions)} queries without features of their marked region: {shorten(regions, 50)}.")
    lines.append(f"Extract or import them. {benchmark.missing_advice}")
    if texts and not (videos or tags or regions):
        lines.append("Or pass benchmark.modes=[v], which needs no texts.")
    raise DataError("\n".join(lines))
