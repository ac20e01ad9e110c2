"""Small random queries and videos in which parts are missing, short, padded, or spoilt on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from muvr_train.types import M, QueryBatch, StoreDims, Tags, TextTokens, Tokens

SPOILT = (3.0, float("nan"))
"""What absent values are overwritten with: noise of this size, or NaN."""


@dataclass(frozen=True)
class Item:
    """One query without padding: `video` and `region` [T, R, D], `text` [L, D_text], `tags` [K, D_text], `sign` [K]."""

    name: str
    video: Tensor | None = None
    text: Tensor | None = None
    tags: Tensor | None = None
    sign: Tensor | None = None
    either: bool = False
    region: Tensor | None = None


@dataclass(frozen=True)
class World:
    """Queries of every combination of parts and database videos `videos` [T, R, D] (`fine` where texts have a grid)."""

    dims: StoreDims
    items: list[Item]
    videos: list[Tensor]
    fine: list[Tensor] | None

    def database(self, places: Sequence[int] | None = None, padding: int = 0, spoilt: bool = False) -> Database:
        """Pack videos (all of them, or those at `places`) and their finer grid."""

        def packed(videos: list[Tensor]) -> Tokens:
            chosen = videos if places is None else [videos[place] for place in places]
            tokens = Tokens.pack(chosen)
            tokens = tokens.pad_to(tokens.mask.shape[1] + padding)
            return spoil_padding(tokens) if spoilt else tokens

        return packed(self.videos), None if self.fine is None else packed(self.fine)


Database = tuple[Tokens, Tokens | None]
PARTS: tuple[str, ...] = ("video+text", "video", "text", "video+text", "video+text+tags", "video+text+tags")
PARTS += ("video+text+region", "video+tags", "text+tags", "video+text+region")


def make_world(dims: StoreDims, seed: int = 0) -> World:
    """Random vectors; 1 to 9 frames, 1 to 3 words and tags."""
    generator = torch.Generator().manual_seed(seed)

    def vectors(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    kinds = PARTS if dims.text_dim else ("video", "video", "video+region", "video")
    lengths = (5, 1, 3, 9, 2, 4, 6, 7, 1, 1)
    items = []
    for place, (kind, frames) in enumerate(zip(kinds, lengths, strict=False)):
        parts, size = kind.split("+"), dims.text_dim or 0
        tags = vectors(1 + place % 3, size) if "tags" in parts else None
        items.append(
            Item(
                f"{place} ({kind})",
                vectors(frames, dims.regions, dims.dim) if "video" in parts else None,
                vectors(1 + place % 3, size) if "text" in parts else None,
                tags,
                None if tags is None else torch.tensor([(-1.0) ** k for k in range(len(tags))]),
                place % 2 == 1,
                vectors(max(1, frames - 1), 1, dims.dim) if "region" in parts else None,
            )
        )
    counts = (4, 9, 1, 6, 2, 3)
    fine = [vectors(t, dims.fine_regions or 1, dims.fine_dim) for t in counts] if dims.fine_dim else None
    videos = [vectors(t, dims.regions, dims.dim) for t in counts]
    if items[1].video is not None:
        videos[2] = -items[1].video  # one frame against one frame: nothing may beat their cosine of -1
    return World(dims, items, videos, fine)


def pack_queries(items: Sequence[Item]) -> QueryBatch:
    """Queries as the data loader packs them: zeros and a False mask where a part is absent, None where all lack it."""
    flags = {
        part: torch.tensor([getattr(item, part) is not None for item in items])
        for part in ("video", "text", "tags", "region")
    }

    def packed(part: str) -> tuple[Tensor, Tensor] | None:
        values = [getattr(item, part) for item in items]
        like = next((value for value in values if value is not None), None)
        if like is None:
            return None
        tokens = TextTokens.pack([like[:0] if value is None else value for value in values])
        return tokens.x, tokens.mask

    video, text, tags, region = (packed(part) for part in flags)
    conditions = None
    if tags is not None:
        signs = TextTokens.pack([torch.zeros(0) if item.sign is None else item.sign for item in items]).x
        either = torch.tensor([item.either for item in items])[:, None] & tags[1]
        conditions = Tags(*tags, signs, either)
    return QueryBatch(
        tuple(item.name for item in items),
        None if video is None else Tokens(*video),
        None if text is None else TextTokens(*text),
        flags,
        conditions,
        None if region is None else Tokens(*region),
    )


def padded_queries(query: QueryBatch, by: int) -> QueryBatch:
    """Append masked zeros to every part."""
    return _each_part(query, lambda part, _: part.pad_to(part.mask.shape[1] + by))


def spoil_padding(tokens: M) -> M:
    """Overwrite the vectors that the mask declares unreal with large noise."""
    noise = 3 * torch.randn(tokens.x.shape, generator=torch.Generator().manual_seed(5))
    real = tokens.mask.view(*tokens.mask.shape, *(1,) * (tokens.x.ndim - 2))
    return replace(tokens, x=torch.where(real, tokens.x, noise))


def spoil_padded_queries(query: QueryBatch) -> QueryBatch:
    """Overwrite the padding of every part."""
    return _each_part(query, lambda part, _: spoil_padding(part))


def spoil_absent(query: QueryBatch, size: float) -> QueryBatch:
    """Give queries values of the parts that they lack, as where a part is hidden in training: only `present` tells."""

    def spoil(part: M, name: str) -> M:
        absent = ~query.present[name]
        noise = size * torch.randn(part.x.shape, generator=torch.Generator().manual_seed(6))
        rows = absent.view(-1, *(1,) * (part.x.ndim - 1))
        part = replace(part, x=torch.where(rows, noise, part.x), mask=part.mask | absent[:, None])
        return replace(part, sign=part.sign.masked_fill(absent[:, None], 1.0)) if isinstance(part, Tags) else part

    return _each_part(query, spoil)


def _each_part(query: QueryBatch, change: Callable[[Any, str], Any]) -> QueryBatch:
    parts = {name: getattr(query, name) for name in ("video", "text", "tags", "region")}
    changed: dict[str, Any] = {name: None if part is None else change(part, name) for name, part in parts.items()}
    return replace(query, **changed)


def blanked(tokens: Tokens, place: int) -> Tokens:
    """One video without a real frame."""
    return replace(tokens, mask=tokens.mask & (torch.arange(len(tokens)) != place)[:, None])
