"""Early fusion by a small transformer over the words and the frames of a query."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.text_head import (
    TextHead,
    changed,
    rewriting_bytes,
    unit_length,
    unit_variance,
    zero_linear,
)
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims

VECTORS_KEPT = 16
"""Vectors of the transformer's width that a layer keeps of each vector until the backward pass."""


class CrossAttention(TextHead):
    """x' = x + O h / sqrt(D): h [Q, T, R, width] from a transformer over the query's words W t and its frames.

    Words and region vectors attend to the words and to the mean vector of each frame, which is linear in the number of
    regions, and a plain transformer where there is one. Layers are pre-norm; the order of frames is left to the network
    after it. O starts at 0, so the untrained head equals the mean. The network compares x' with the database, the text
    part stays, and both are fused as by `WeightedFusion`. Source: BSE-CoVR (arXiv 2508.14039).

    Args:
        dims: sizes of the feature store.
        width: of the transformer.
        heads: of its attention.
        layers: their number.

    Raises:
        ConfigError: a store without texts, or heads that do not divide the width.
    """

    def __init__(self, dims: StoreDims, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        super().__init__(dims)
        if heads < 1 or width < 1 or width % heads:
            raise ConfigError(f"fusion.width={width}: must be a multiple of fusion.heads={heads}")
        if layers < 1:
            raise ConfigError(f"fusion.layers={layers}: must be >= 1")
        self.from_frame, self.from_word = nn.Linear(dims.dim, width), nn.Linear(dims.dim, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.change = nn.LayerNorm(width), zero_linear(width, dims.dim)

    def prepare(self, query: QueryBatch) -> QueryBatch:
        """Rewrite the query's frames [Q, T, R, D]; those of queries without text stay as they are."""
        pair = self.pair(query)
        if pair is None or query.video is None:
            return query
        words = self.from_word(unit_variance(pair.words))
        frames = self.from_frame(unit_variance(pair.frames))
        seen = torch.cat([pair.said, pair.real], dim=1) | ~pair.both[:, None]  # a row of nothing would be NaN
        for block in self.blocks:
            words, frames = block(words, frames, seen)
        return replace(query, video=changed(query.video, unit_length(self.change(self.norm(frames))), pair.both))

    def training_bytes(self, q: EncodedQuery, n: EncodedDatabase) -> int:
        """What the layers keep of a query's frames; see the base class."""
        del n
        return rewriting_bytes(q, self.dims.dim, VECTORS_KEPT * len(self.blocks) * self.from_frame.out_features)


class Block(nn.Module):
    """One layer: attention to words and frame means, then an MLP, both residual and pre-norm.

    Args:
        width: of the vectors.
        heads: of the attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_context = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask, self.answer = nn.Linear(width, width), nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, words: Tensor, frames: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Words [Q, L, C] and frames [Q, T, R, C] after the layer; `seen` bool [Q, L + T] what may be attended to."""
        context = self.norm_context(torch.cat([words, frames.mean(dim=2)], dim=1))
        x = torch.cat([words, frames.flatten(1, 2)], dim=1)
        key, value = self.answer(context).chunk(2, dim=-1)
        query, key, value = (self._split(part) for part in (self.ask(self.norm(x)), key, value))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None, None])
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        x = x + self.mlp(x)
        return x[:, : words.shape[1]], x[:, words.shape[1] :].unflatten(1, frames.shape[1:3])

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
