"""Late fusion whose weights depend on the query."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from muvr_train.models.functional import full_precision
from muvr_train.models.fusion.text_head import TextHead, check_hidden, unit_variance, zero_linear
from muvr_train.types import QueryBatch, StoreDims

GATED = ("video", "text")


class GatedFusion(TextHead):
    """Weighted mean of calibrated parts whose weights an MLP reads off the query: which part to trust this time.

    log w_p = b_p + MLP([v; t; v * t])_p with v the mean of the query's frames, t the mean of its mapped words W t, both
    of unit length times sqrt(D); scores and weights then as in `WeightedFusion`. The MLP's last layer starts at 0, so
    the untrained head equals the mean. It depends on the query alone, never on the database. Gated multimodal units:
    arXiv 1702.01992.

    Args:
        dims: sizes of the feature store.
        hidden: units of the MLP.
    """

    def __init__(self, dims: StoreDims, hidden: int = 64) -> None:
        super().__init__(dims)
        check_hidden(hidden)
        self.mlp = nn.Sequential(nn.Linear(3 * dims.dim, hidden), nn.GELU(), zero_linear(hidden, len(GATED)))

    def log_weights(self, names: Sequence[str], query: QueryBatch) -> Tensor:
        """Logarithms of the weights [P, Q]; queries without both parts get those of `WeightedFusion`."""
        fixed, pair = super().log_weights(names, query), self.pair(query)
        if pair is None:
            return fixed
        with full_precision(pair.frames):
            v, t = (unit_variance(vector) for vector in pair.pooled())
            gates = self.mlp(torch.cat([v, t, v * t], dim=1)).masked_fill(~pair.both[:, None], 0.0)
        return fixed + torch.stack([gates[:, GATED.index(name)] for name in names])
