"""What a model scores for a partition, known from the sizes in a store before any token is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from muvr_train.benchmarks.types import Query
from muvr_train.data.batch import REGION, has_regions, load_queries
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.models.queries import MODES
from muvr_train.models.retriever import Retriever
from muvr_train.search.exhaustive import QUERY_COPIES, REWRITTEN_COPIES, Scorer, query_scorer, rewritten_modes
from muvr_train.search.shares import Rows, Work
from muvr_train.types import QueryBatch, TextTokens

FOCUSED = "tv+region"
"""The mode of queries with a marked region."""
AVERAGED = 8
"""Frames that stand in for a text as their mean, by the official rule."""


@dataclass(frozen=True)
class QuerySizes:
    """The parts of Q queries as `load_queries` gives them, without their tokens.

    Attributes:
        present: bool [Q] by part, which queries have it.
        video: frames of the longest video; 0 where there is none, here and below.
        text: words of the longest text.
        region: frames of the longest region.
    """

    present: Mapping[str, Sequence[bool]]
    video: int
    text: int
    region: int

    @classmethod
    def of(
        cls, store: FeatureStore, queries: Sequence[Query], frames_as_text: bool = False, regions: bool = False
    ) -> QuerySizes:
        """Look the sizes up; the arguments are those of `load_queries`."""
        ids, shown = [query.id for query in queries], [query.video_id for query in queries]
        video = _lengths(store, shown, "video")
        text = _lengths(store, ids, "text" if store.dims.text_dim is not None else "")
        if frames_as_text:
            averaged = [1 if frames == AVERAGED else frames for frames in video]
            text = [own if words is None else words for words, own in zip(text, averaged, strict=True)]
        lengths = {"video": video, "text": text, REGION: _lengths(store, ids, REGION if regions else "")}
        present = {part: [length is not None for length in own] for part, own in lengths.items()}
        return cls(
            present,
            *(max((length or 1 for length in own if length is not None), default=0) for own in lengths.values()),
        )

    def held(self, store: FeatureStore, rewritten: int = 0) -> int:
        """Bytes that the tokens take while they are scored; those of a region once more as those of a video.

        Args:
            store: that they are of.
            rewritten: modes for which the fusion head keeps videos of its own, see `rewritten_modes`.
        """
        count, (places, dim) = 4 * len(self.present["video"]), store.shape()
        video = count * self.video * places * dim
        total = video + count * self.text * (store.dims.text_dim or 0)
        if self.region:
            wide = count * max(self.video, self.region) * places * dim if self.video else 0
            total, video = total + count * self.region * store.shape(REGION)[0] * dim + wide, max(video, wide)
        return QUERY_COPIES * total + REWRITTEN_COPIES * rewritten * video


def query_work(
    model: Retriever,
    store: FeatureStore,
    queries: Sequence[Query],
    database: tuple[str, ...],
    modes: Sequence[str],
    frames_as_text: bool,
) -> Work:
    """What is scored for queries: those that have a part of the same modes are rows of one kind.

    The tokens are read once, when the first rows are about to be scored.
    """
    as_text, regions = frames_as_text and bool(set(modes) - {"v"}), FOCUSED in modes and has_regions(store)
    sizes = QuerySizes.of(store, queries, as_text, regions)

    @cache
    def batch() -> QueryBatch:
        return load_queries(store, queries, frames_as_text=as_text, regions=regions).to(device_of(model))

    def scorer(places: tuple[int, ...], names: Sequence[str]) -> Callable[[], Scorer]:
        def make() -> Scorer:
            part = batch() if len(places) == len(queries) else batch()[torch.tensor(places, dtype=torch.long)]
            return query_scorer(model, part if FOCUSED in names else replace(part, region=None), names)

        return make

    rows = [
        Rows(tuple(queries[place].id for place in places), tuple(names), scorer(places, names))
        for places, names in _groups(sizes.present, modes).items()
    ]
    frames = 0 if set(modes) == {"t"} else max(sizes.video, sizes.region)
    return Work(database, tuple(rows), sizes.held(store, rewritten_modes(model.head, modes)), frames)


def tag_work(
    model: Retriever,
    store: FeatureStore,
    pairs: Sequence[tuple[str, str]],
    vectors: TextTokens,
    database: tuple[str, ...],
) -> tuple[Work, list[int]]:
    """What is scored for tags of queries, equal vectors once.

    Args:
        model: with a text part.
        store: the features.
        pairs: [P] query and tag.
        vectors: theirs.
        database: ids of the videos.

    Returns:
        The work, and [P] the row of each pair.

    Raises:
        DataError: the model has no text part.
    """
    score_text = model.text_part
    if score_text is None:
        raise DataError(f"tags need a text part, but {store.path} holds no text vectors")
    flat = torch.cat([vectors.x.flatten(1), vectors.mask.float()], dim=1).cpu().numpy()
    keys = [row.tobytes() for row in flat]
    first = {key: position for position, key in reversed(list(enumerate(keys)))}
    number = {key: row for row, key in enumerate(first)}
    tags = vectors[torch.tensor(list(first.values()))].to(device_of(model)).normalized()
    ids = tuple(tag_key(*pairs[position]) for position in first.values())
    rows = Rows(ids, ("tags",), lambda: lambda block: {"tags": score_text(tags, block.fine)})
    return Work(database, (rows,)), [number[key] for key in keys]


def device_of(model: torch.nn.Module) -> torch.device:
    """Give the device a model lives on."""
    return next(iter([*model.parameters(), *model.buffers()])).device


def _lengths(store: FeatureStore, ids: Sequence[str], stream: str) -> list[int | None]:
    return [store.length(one, stream) if store.has(one, stream) else None for one in ids]


def _groups(present: Mapping[str, Sequence[bool]], modes: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
    """Modes by the numbers of the queries that have a part of them; mode tv+region asks for a region."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for mode in modes:
        flags = [present[part] for part in ([REGION] if mode == FOCUSED else MODES[mode])]
        places = tuple(place for place, able in enumerate(zip(*flags, strict=True)) if any(able))
        groups.setdefault(places, []).append(mode)
    groups.pop((), None)
    return groups
