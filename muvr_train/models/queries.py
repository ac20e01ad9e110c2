"""Queries on their way to a model: which parts a mode keeps, and what absent parts and regions do to their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from muvr_train.errors import DataError, shorten
from muvr_train.models.fusion.base import part_present
from muvr_train.types import EncodedQuery, M, QueryBatch, Tokens

MODES: dict[str, tuple[str, ...]] = {
    "v": ("video",),
    "t": ("text",),
    "tv": ("video", "text"),
    "tv+tag": ("video", "text", "tags"),
    "tv+region": ("video", "text", "region"),
}
"""MUVR's query modes and the parts that each may use."""


@dataclass(frozen=True)
class Asked:
    """Queries that the head has prepared, and as whom they vote under the modes that share their part scores."""

    query: EncodedQuery
    modes: dict[str, QueryBatch]


def prepared(query: QueryBatch) -> QueryBatch:
    """L2-normalise the tokens of every part, in float32; rows of absent parts become zeros under a False mask."""

    def own(name: str, part: M | None) -> M | None:
        if part is None:
            return None
        present = part_present(query, name)
        part = part.to(dtype=torch.float32).normalized()
        return part if bool(present.all()) else part.each(lambda value: blank(value, present))

    video, text = own("video", query.video), own("text", query.text)
    return replace(query, video=video, text=text, tags=own("tags", query.tags), region=own("region", query.region))


def focused(query: QueryBatch) -> QueryBatch:
    """Put what is inside the region of a query's video in the place of that video, where a query has both parts.

    A region of one vector a frame stands for all regions of the frame. Weights of frames are dropped.
    """
    video, region = query.video, query.region
    has_both = part_present(query, "video") & part_present(query, "region")
    if video is None or region is None or not bool(has_both.any()):
        return replace(query, region=None)
    length, places = max(video.mask.shape[1], region.mask.shape[1]), video.x.shape[2]
    inside = Tokens(region.x.expand(-1, -1, places, -1), region.mask).pad_to(length)
    whole = Tokens(video.x, video.mask).pad_to(length)
    rows = has_both[:, None]
    mask = torch.where(rows, inside.mask, whole.mask)
    x = torch.where(rows[:, :, None, None], inside.x, whole.x)
    return replace(query, video=Tokens(x, mask), region=None)


def restrict(q: EncodedQuery, parts: Sequence[str]) -> EncodedQuery:
    """Hide every part that is not named, its tokens included, so that no head can look at it."""
    query, index, plain = q.query.restrict(parts), q.index, q.plain
    if plain is not None and "region" not in parts:
        query, index, plain = replace(query, video=plain[0]), plain[1], None
    query = replace(
        query,
        video=query.video if "video" in parts else None,
        text=query.text if "text" in parts else None,
        tags=query.tags if "tags" in parts else None,
    )
    return EncodedQuery(query, None) if query.video is None else EncodedQuery(query, index, plain)


def blank(rows: Tensor, present: Tensor) -> Tensor:
    """Rows [Q, ...] with 0 (False) where `present` [Q] is False."""
    return torch.where(present.view(-1, *(1,) * (rows.ndim - 1)), rows, torch.zeros_like(rows))


def check_votes(query: QueryBatch, what: str) -> None:
    """Every query needs a part that it has, whose tokens are there."""
    tokens = {"video": query.video is not None, "text": query.text is not None, "tags": False, "region": False}
    votes = [part_present(query, part).cpu() for part in query.present if tokens.get(part, True)]
    has_vote = torch.stack(votes).any(dim=0) if votes else torch.zeros(len(query), dtype=torch.bool)
    if not bool(has_vote.all()):
        silent = [identifier for identifier, flag in zip(query.ids, has_vote.tolist(), strict=True) if not flag]
        raise DataError(
            f"{what}: {len(silent)} queries have none of the parts that are asked for ({shorten(silent)}); "
            "leave these queries out, add the missing features, or choose another mode"
        )
