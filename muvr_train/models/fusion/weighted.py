"""Learned late fusion with a handful of parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from muvr_train.models.fusion.base import FusionHead, part_present
from muvr_train.types import QueryBatch, StoreDims


class WeightedFusion(FusionHead):
    """Weighted mean of affinely calibrated parts: sum_p w_p (a_p s_p + b_p) / sum_p w_p over the parts present.

    a_p > 0, b_p and w_p > 0 are learned (a and w by their logarithms). They start at 1, 0 and 1, so that an untrained
    head equals the plain mean. A part that a query lacks has no vote; the calibration keeps queries with one part
    comparable to queries with two. b_p adds the same to all scores of a query: it stays 0 under losses that do not see
    this (InfoNCE, Smooth-AP, KL).

    Args:
        dims: sizes of the feature store.
        parts: names of the parts that may be fused.
    """

    def __init__(self, dims: StoreDims, parts: tuple[str, ...] = ("video", "text")) -> None:
        super().__init__(dims)
        self.log_scale = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in parts})
        self.bias = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in parts})
        self.log_weight = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in parts})

    def log_weights(self, names: Sequence[str], query: QueryBatch) -> Tensor:
        """Logarithms of the weights of parts: [P, 1], or [P, Q] in heads that weigh each query by itself."""
        del query
        return torch.stack([self.log_weight[name] for name in names])[:, None]

    def row_offsets(self) -> list[nn.Parameter]:
        """The b_p, for the fusion as it is here; see the base class."""
        return [*self.bias.values()] if type(self).combine is WeightedFusion.combine else []

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        """Merge part scores into [Q, N]; see the class."""
        names = list(parts)
        present = torch.stack([part_present(query, name) for name in names])
        weight = self.log_weights(names, query).masked_fill(~present, -1e4).softmax(dim=0)[:, :, None]
        values = torch.where(present[:, :, None], torch.stack([parts[name] for name in names]), 0.0)
        scale = torch.stack([self.log_scale[name].exp() for name in names])[:, None, None]
        bias = torch.stack([self.bias[name] for name in names])[:, None, None]
        return (weight * torch.where(present[:, :, None], values * scale + bias, 0.0)).sum(dim=0)
