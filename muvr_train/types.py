"""The values that pass between the rooms of the package, and the one legend of shape letters.

Q queries, N database videos, B batch, T frames, R regions per frame (1 for global features), D feature size,
L text tokens, K tags. `mask` is True where an entry is real. Masking means -inf before a max and exclusion from a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

M = TypeVar("M", bound="Masked")


@dataclass(frozen=True)
class Masked:
    """A padded batch: `x` [B, T, ...] and `mask` bool [B, T], True where an entry is real."""

    x: Tensor
    mask: Tensor

    def __post_init__(self) -> None:
        if self.mask.dtype != torch.bool or self.mask.shape != self.x.shape[:2]:
            raise ValueError(
                f"mask must be bool {tuple(self.x.shape[:2])}, got {self.mask.dtype} {tuple(self.mask.shape)}"
            )

    def __len__(self) -> int:
        return self.x.shape[0]

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def each(self: M, change: Callable[[Tensor], Tensor]) -> M:
        """Change every tensor."""
        return replace(self, **{name: change(value) for name, value in self._tensors().items()})

    def __getitem__(self: M, rows: slice | Tensor) -> M:
        """Choose videos (texts) by a slice or by an index tensor."""
        return self.each(lambda value: value[rows])

    def to(self: M, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> M:
        """Move; `dtype` applies to floating-point tensors only."""
        return self.each(lambda value: value.to(device=device, dtype=dtype if value.is_floating_point() else None))

    def pad_to(self: M, length: int) -> M:
        """Append masked zeros until the second dimension is `length`."""
        extra = length - self.mask.shape[1]
        if extra < 0:
            raise ValueError(f"cannot pad {self.mask.shape[1]} entries to {length}")
        pads = {name: (0, 0) * (value.ndim - 2) + (0, extra) for name, value in self._tensors().items()}
        return replace(self, **{name: F.pad(value, pads[name]) for name, value in self._tensors().items()})

    @classmethod
    def cat(cls: type[M], items: Sequence[M]) -> M:
        """Concatenate along the first dimension, padding all to the longest."""
        length = max(item.mask.shape[1] for item in items)
        padded = [item.pad_to(length)._tensors() for item in items]
        return cls(**{name: torch.cat([tensors[name] for tensors in padded]) for name in padded[0]})

    @classmethod
    def pack(cls: type[M], items: Sequence[Tensor]) -> M:
        """Pad tensors [T_i, ...] of different lengths into one batch."""
        length = max(item.shape[0] for item in items)
        x = items[0].new_zeros((len(items), length, *items[0].shape[1:]))
        mask = torch.zeros((len(items), length), dtype=torch.bool, device=x.device)
        for row, item in enumerate(items):
            x[row, : item.shape[0]] = item
            mask[row, : item.shape[0]] = True
        return cls(x, mask)

    def normalized(self: M) -> M:
        """L2-normalise the last dimension (a zero vector stays zero, its cosine with anything is 0)."""
        return replace(self, x=F.normalize(self.x, dim=-1))


@dataclass(frozen=True)
class Tokens(Masked):
    """Videos: `x` float [B, T, R, D], `mask` bool [B, T], optional `weight` float [B, T].

    `weight` multiplies the rows of similarities after normalisation (a cosine would undo a scaling of the vectors).
    """

    weight: Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.x.ndim != 4:
            raise ValueError(f"Tokens.x must be [B, T, R, D], got {tuple(self.x.shape)}")


@dataclass(frozen=True)
class TextTokens(Masked):
    """Texts: `x` float [Q, L, D_text], `mask` bool [Q, L]."""


@dataclass(frozen=True)
class Tags(Masked):
    """Signed conditions: `x` float [Q, K, D_text], `mask` bool [Q, K], `sign` float [Q, K], `either` bool [Q, K].

    `sign` is 1 where a video must have the tag, -1 where it must not, 0 where the mask is False. `either` is True in
    the rows of queries that ask for one of their conditions (OR) instead of all of them.
    """

    sign: Tensor
    either: Tensor


@dataclass(frozen=True)
class QueryBatch:
    """Queries as the user asks them: a video, a text, or both, with tags and a region of the video.

    `present[part]` bool [Q] says which queries have the part; an absent part has no vote. `video`, `text`, `tags` or
    `region` is None where no query of the batch has the part; rows of absent parts inside a tensor hold zeros with a
    False mask. `region` holds what is inside the query's mask, [Q, T', R', D]; R' = 1 stands for all regions.
    """

    ids: tuple[str, ...]
    video: Tokens | None
    text: TextTokens | None
    present: dict[str, Tensor]
    tags: Tags | None = None
    region: Tokens | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice | Tensor) -> QueryBatch:
        """Choose queries by a slice or by an index tensor."""
        places = range(len(self.ids))[rows] if isinstance(rows, slice) else rows.tolist()
        chosen = self.each(lambda value: value[rows])
        return replace(chosen, ids=tuple(self.ids[place] for place in places))

    def to(self, device: torch.device | str) -> QueryBatch:
        """Move every tensor."""
        return self.each(lambda value: value.to(device))

    def each(self, change: Callable[[Tensor], Tensor]) -> QueryBatch:
        """Change every tensor."""

        def changed(part: M | None) -> M | None:
            return None if part is None else part.each(change)

        return QueryBatch(
            self.ids,
            changed(self.video),
            changed(self.text),
            {part: change(flags) for part, flags in self.present.items()},
            changed(self.tags),
            changed(self.region),
        )

    def restrict(self, parts: Sequence[str]) -> QueryBatch:
        """Hide every part that is not named: mode v keeps ("video",), t ("text",), tv both."""
        present = {part: flags if part in parts else torch.zeros_like(flags) for part, flags in self.present.items()}
        return replace(self, present=present)


@dataclass(frozen=True)
class EncodedQuery:
    """Encoded queries.

    `query` with L2-normalised tokens, its video that of the region where a query has one; `index` the network's own
    tokens of that video; `plain` the normalised and the indexed tokens of the whole videos, None where no query has a
    region.
    """

    query: QueryBatch
    index: Tokens | None
    plain: tuple[Tokens, Tokens] | None = None


@dataclass(frozen=True)
class EncodedDatabase:
    """Encoded database videos.

    `raw` the L2-normalised tokens, `index` the network's own tokens, `fine` the L2-normalised tokens that the text part
    looks at (a store may hold a second, finer region grid; otherwise the same object as `raw`).
    """

    raw: Tokens
    index: Tokens
    fine: Tokens

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: slice | Tensor) -> EncodedDatabase:
        """Choose database videos."""
        return EncodedDatabase(self.raw[rows], self.index[rows], self.fine[rows])


@dataclass(frozen=True)
class StoreDims:
    """What a feature store dictates to a model: feature sizes and region counts (never set in a config)."""

    regions: int
    dim: int
    text_dim: int | None = None
    fine_regions: int | None = None
    fine_dim: int | None = None

    def __str__(self) -> str:
        """For messages.

        >>> str(StoreDims(9, 472, None, 36, 176))
        '9 x 472 per frame, fine 36 x 176, no texts'
        """
        fine = "" if self.fine_dim is None else f", fine {self.fine_regions} x {self.fine_dim}"
        texts = "no texts" if self.text_dim is None else f"texts of {self.text_dim}"
        return f"{self.regions} x {self.dim} per frame{fine}, {texts}"

    @property
    def text_target_dim(self) -> int:
        """The size of the frame features that texts are compared with."""
        return self.fine_dim or self.dim
