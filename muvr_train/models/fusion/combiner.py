"""Early fusion in every frame: the text changes what the frame means."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.fusion.text_head import (
    TextHead,
    changed,
    check_hidden,
    rewriting_bytes,
    unit_length,
    unit_variance,
    zero_linear,
)
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims


class Combiner(TextHead):
    """x' = x + sigmoid(G h) * (O h) / sqrt(D) in every frame and region, h = GELU(A x + B t + b).

    t is the mean of the query's mapped words W t, of unit length; x and t enter times sqrt(D). O starts at 0, so the
    untrained head equals the mean. The network compares x' with the database, the text part stays, and both are fused
    as by `WeightedFusion`. Gated residual: TIRG (arXiv 1812.07119); mixing of CLIP features: Combiner (Baldrati et al.,
    CVPR 2022).

    Args:
        dims: sizes of the feature store.
        hidden: size of h.
    """

    def __init__(self, dims: StoreDims, hidden: int = 256) -> None:
        super().__init__(dims)
        check_hidden(hidden)
        self.from_frame = nn.Linear(dims.dim, hidden)
        self.from_text = nn.Linear(dims.dim, hidden, bias=False)
        self.gate = nn.Linear(hidden, dims.dim)
        self.change = zero_linear(hidden, dims.dim)

    def prepare(self, query: QueryBatch) -> QueryBatch:
        """Rewrite the query's frames [Q, T, R, D]; those of queries without text stay as they are."""
        pair = self.pair(query)
        if pair is None or query.video is None:
            return query
        text = self.from_text(unit_variance(pair.pooled()[1]))
        hidden = F.gelu(self.from_frame(unit_variance(pair.frames)) + text[:, None, None])
        change = unit_length(torch.sigmoid(self.gate(hidden)) * self.change(hidden))
        return replace(query, video=changed(query.video, change, pair.both))

    def training_bytes(self, q: EncodedQuery, n: EncodedDatabase) -> int:
        """What the layers keep of a query's frames; see the base class."""
        del n
        return rewriting_bytes(q, self.dims.dim, 3 * self.from_frame.out_features)
