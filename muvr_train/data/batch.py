"""What one training step gets, and how queries are loaded from a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from muvr_train.benchmarks.expressions import Expression
from muvr_train.benchmarks.types import Query
from muvr_train.data.tags import load_tags
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.types import Masked, QueryBatch, TextTokens, Tokens

M = TypeVar("M", bound=Masked)
REGION = "region"
"""The stream of what is inside the marked regions of queries, by the ids of queries."""


@dataclass(frozen=True)
class Batch:
    """One training step: Q queries, N database videos, and what is right; or one process's share of it.

    Where several processes share a batch, `queries` are the rows `group.share(Q)` of it, and `database` and `fine` its
    videos `group.share(N)`; ids and relevance are those of the whole batch in every process. A share may be empty:
    tokens [0, 1, R, D].

    Attributes:
        queries: this process's own queries.
        database: its own database videos.
        fine: their second region grid, for the text path; None where the store has one grid only.
        database_ids: all N ids.
        relevance: float [Q, N]: 1 match, 0 no match, -1 not judged (also a query's own column).
        query_ids: all Q ids; left out, those of `queries`.
        tag_relevance: float [Q, N], what is right of the scores of tags alone; None where no query has tags.
    """

    queries: QueryBatch
    database: Tokens
    fine: Tokens | None
    database_ids: tuple[str, ...]
    relevance: Tensor
    query_ids: tuple[str, ...] = ()
    tag_relevance: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_ids", self.query_ids or self.queries.ids)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Move every tensor; with `non_blocking` copies from pinned memory to a GPU run on the side."""
        return self._each(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Copy what is in ordinary memory to pinned memory."""
        return self._each(lambda part: part.pin_memory() if part.device.type == "cpu" else part)

    def _each(self, move: Callable[[Tensor], Tensor]) -> Batch:
        database, shared = self.database.each(move), self.queries.video is self.database
        queries = (replace(self.queries, video=None) if shared else self.queries).each(move)
        queries = replace(queries, video=database) if shared else queries
        fine = None if self.fine is None else self.fine.each(move)
        tags = None if self.tag_relevance is None else move(self.tag_relevance)
        moved = replace(self, queries=queries, database=database, fine=fine)
        return replace(moved, relevance=move(self.relevance), tag_relevance=tags)


def scatter_rows(part: M, rows: Sequence[int], total: int) -> M:
    """Spread a batch over `total` rows; rows that are not named hold zeros under a False mask."""
    if list(rows) == list(range(total)):
        return part
    index = torch.tensor(rows).to(part.x.device, non_blocking=True)

    return part.each(lambda value: value.new_zeros((total, *value.shape[1:])).index_copy_(0, index, value))


def load_queries(
    store: FeatureStore,
    queries: Sequence[Query],
    videos: Tokens | None = None,
    frames_as_text: bool = False,
    expressions: Sequence[Expression | None] | None = None,
    regions: bool = False,
) -> QueryBatch:
    """Load the parts of queries that the store holds.

    Args:
        store: cached features.
        queries: Q queries.
        videos: the query videos where they are already at hand (augmented ones in training), Q rows.
        frames_as_text: give a query without a text vector its own frames as the text, as the official evaluator does
            (8 frames are averaged to one there).
        expressions: [Q] the tag expression of each query, None for one without; left out where tags are not asked for.
        regions: load what is inside the marked regions of queries, where the store has it (`has_regions`).

    Returns:
        The batch; `present` says what was found: `video` and `text`, and what is asked for of `tags` and `region`.

    Raises:
        DataError: a tag has no vector, or frames cannot stand in for a text.
    """
    ids, shown = [query.id for query in queries], [query.video_id for query in queries]
    with_video = [row for row, video_id in enumerate(shown) if videos is not None or store.has(video_id)]
    if videos is None and with_video:
        videos = scatter_rows(store.tokens([shown[row] for row in with_video]), with_video, len(ids))
    rows, texts = list[int](), list[TextTokens]()
    if store.dims.text_dim is not None:
        rows = [row for row, query_id in enumerate(ids) if store.has(query_id, "text")]
        texts = [store.texts([ids[row] for row in rows])] if rows else []
    bare = sorted(set(with_video) - set(rows)) if frames_as_text else []
    if bare:
        rows, texts = rows + bare, [*texts, TextTokens.pack([_own_frames(store, shown[row]) for row in bare])]
    text = scatter_rows(TextTokens.cat(texts), rows, len(ids)) if rows else None
    present = {"video": _flags(with_video, ids), "text": _flags(rows, ids)}
    tags = None if expressions is None else load_tags(store, ids, expressions)
    if expressions is not None:
        present["tags"] = torch.tensor([expression is not None for expression in expressions], dtype=torch.bool)
    if not (regions and has_regions(store)):
        return QueryBatch(tuple(ids), videos, text, present, tags)
    marked = [row for row, query_id in enumerate(ids) if store.has(query_id, REGION)]
    inside = scatter_rows(store.tokens([ids[row] for row in marked], REGION), marked, len(ids)) if marked else None
    return QueryBatch(tuple(ids), videos, text, {**present, "region": _flags(marked, ids)}, tags, inside)


def has_regions(store: FeatureStore) -> bool:
    """Whether a store holds features of marked regions that can stand in the place of a video's."""
    if REGION not in store.streams:
        return False
    (places, dim), (regions, size) = store.shape(REGION), store.shape()
    return dim == size and places in (1, regions)


def unfit_regions(store: FeatureStore) -> str | None:
    """Say why the features of marked regions that a store holds are of no use; None where they are, or it has none."""
    if REGION not in store.streams or has_regions(store):
        return None
    places, dim = store.shape(REGION)
    regions, size = store.shape()
    return (
        f"{store.path}: the features of marked regions are {places} x {dim} numbers a frame and those of videos "
        f"{regions} x {size}, so they cannot take their place, and there is no mode tv+region. Use one encoder for both"
    )


def _own_frames(store: FeatureStore, video_id: str) -> Tensor:
    frames = store.tensors([video_id])[0]
    if frames.shape[1] != 1 or frames.shape[2] != (store.dims.text_dim or frames.shape[2]):
        raise DataError(
            f"{video_id} has no text vector, and its frames ({frames.shape[1]} regions x {frames.shape[2]}) cannot "
            f"take its place ({store.dims.text_dim} numbers): extract the text, or leave out the modes t and tv"
        )
    rows = frames[:, 0]
    return rows.mean(dim=0, keepdim=True) if len(rows) == 8 else rows


def _flags(rows: Sequence[int], ids: Sequence[str]) -> Tensor:
    flags = torch.zeros(len(ids), dtype=torch.bool)
    flags[list(rows)] = True
    return flags
