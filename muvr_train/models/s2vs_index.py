"""What S2VS does to region vectors before it compares them: attention weights or binarisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.functional import orthogonal_map
from muvr_train.types import Tokens


@dataclass(frozen=True)
class Rewritten(Tokens):
    """Tokens of videos that learned layers (a fusion head) rewrote, whose directions therefore need a gradient."""


class Attention(nn.Module):
    """Scale region vectors x [..., D] by a learned weight in (0, 1) (ViSiL, arXiv 1908.07410, section 3.2).

    w = sigmoid(c . tanh(A x + b)), as S2VS has it; with `normalised`, w = (c . x / |c| + 1) / 2 without A and b, as in
    ViSiL. The result is not normalised again.
    """

    def __init__(self, dim: int, normalised: bool = False) -> None:
        super().__init__()
        self.transform = None if normalised else nn.Linear(dim, dim)
        self.context_vector = nn.Linear(dim, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Weighted vectors, same shape."""
        if self.transform is None:
            return x * (F.linear(x, F.normalize(self.context_vector.weight, dim=-1)) + 1) / 2
        return x * torch.sigmoid(self.context_vector(torch.tanh(self.transform(x))))


class Binarization(nn.Module):
    """Project L2-normalised vectors [..., D] to `bits` values in {-1, 0, 1} (S2VS, arXiv 2304.03378).

    The sign at test time; in train mode erf(x / sqrt(2e-6)), which has a gradient. The projection starts orthogonal
    (from a fixed seed) and is learned.
    """

    def __init__(self, dim: int, bits: int) -> None:
        super().__init__()
        self.projection = nn.Parameter(orthogonal_map(dim, bits))

    def forward(self, x: Tensor) -> Tensor:
        """Codes [..., bits]."""
        codes = F.normalize(x, dim=-1) @ self.projection
        return torch.erf(codes / math.sqrt(2e-6)) if self.training else codes.sign()


def frame_attention(tokens: Tokens) -> Tensor:
    """The weight [B, T] that `Attention` gave to each frame of unit vectors, the mean over its regions; padding 0."""
    weights: Tensor = torch.linalg.vector_norm(tokens.x.float(), dim=-1).mean(dim=2)
    return weights.masked_fill(~tokens.mask, 0.0)


def with_weight(tokens: Tokens, weight: Tensor) -> Tokens:
    """The tokens with frame weights [B, T], times those that they have."""
    return replace(tokens, weight=weight if tokens.weight is None else tokens.weight * weight)
