"""One learned vector per video: fast to search with, and the usual student of a fine network such as S2VS."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs_index import Attention
from muvr_train.models.temporal import TemporalEncoder
from muvr_train.types import Tokens

SHARPNESS = 5.0
"""How strongly a frame belongs to its nearest clusters at first."""


class NetVLAD(nn.Module):
    """Sums of the differences between vectors and K learned centres, by soft assignment (arXiv 1511.07247).

    V_k = sum over t of a_k(x_t) (x_t - c_k), a = softmax(W x + b), each V_k normalised, then all of them together.
    Weights start as those of softmax(-5 |x - c_k|^2).

    Args:
        width: size W of the vectors.
        clusters: number K of centres.
    """

    def __init__(self, width: int, clusters: int) -> None:
        super().__init__()
        centres = F.normalize(torch.randn(clusters, width), dim=-1)
        self.centres, self.assign = nn.Parameter(centres), nn.Linear(width, clusters)
        with torch.no_grad():
            self.assign.weight.copy_(2 * SHARPNESS * centres)
            self.assign.bias.fill_(-SHARPNESS)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Vectors [B, T, W] with weights >= 0 [B, T], 0 for masked ones, as one unit vector [B, K W]."""
        shares = self.assign(x).softmax(dim=-1) * weight[:, :, None]
        sums = torch.einsum("btk,btw->bkw", shares, x) - shares.sum(dim=1)[:, :, None] * self.centres
        return F.normalize(sums, dim=-1).flatten(1) / math.sqrt(len(self.centres))


class DnSCoarse(MeanPool):
    """The coarse student of DnS (arXiv 2106.13266): region attention, transformer over frames, NetVLAD; cosine.

    Regions are weighed by attention and averaged to frame vectors, a transformer lets the frames see each other,
    NetVLAD sums them up, and a linear map makes one vector u. With `residual` the video's vector is m + u, normalised,
    where m is the mean of all its vectors as `MeanPool` has it and the linear map starts at 0: the score starts as that
    of mean_pool on the same tokens. Scores lie in [-1, 1]. `weight` of tokens weighs the frames in both sums. A video
    without a real frame scores -inf.

    Args:
        dim: feature size.
        regions: regions per frame.
        whiten: see `SimilarityNetwork`.
        attention: weigh regions (ViSiL's attention).
        layers: of the transformer.
        width: of the transformer and of NetVLAD's centres (the paper: 512).
        heads: of the transformer.
        clusters: NetVLAD's centres (the paper: 64).
        residual: see above; `size` is then that of the (whitened) features.
        size: of the video's vector (the paper: 1024); None = that of the (whitened) features.
    """

    def __init__(
        self,
        dim: int,
        regions: int = 1,
        whiten: bool | int = False,
        attention: bool = True,
        layers: int = 1,
        width: int = 256,
        heads: int = 4,
        clusters: int = 16,
        residual: bool = True,
        size: int | None = None,
    ) -> None:
        super().__init__(dim, regions, whiten)
        if clusters < 1:
            raise ConfigError(f"model.clusters={clusters}: must be >= 1")
        if size is not None and (residual or size < 1):
            raise ConfigError(f"model.size={size}: must be >= 1, and null with model.residual=true")
        self.residual = residual
        self.attention = Attention(self.index_dim) if attention else None
        self.temporal = TemporalEncoder(self.index_dim, width, layers, heads)
        self.vlad = NetVLAD(width, clusters)
        self.leave = nn.Linear(clusters * width, size or self.index_dim, bias=False)
        if residual:
            nn.init.zeros_(self.leave.weight)

    def _index(self, tokens: Tokens) -> Tokens:
        """One L2-normalised vector per video: x [B, 1, 1, D']."""
        x = tokens.x if self.attention is None else self.attention(tokens.x)
        seen = F.normalize(self.temporal(F.normalize(x.mean(dim=2), dim=-1), tokens.mask), dim=-1)
        weight = tokens.mask.float() if tokens.weight is None else tokens.mask * tokens.weight.float()
        vector = self.leave(self.vlad(seen, weight))[:, None, None].float()
        mean = super()._index(tokens)
        return replace(mean, x=F.normalize(mean.x + vector if self.residual else vector, dim=-1))
