"""A small transformer over the frames of videos, that padding cannot change."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError


class TemporalEncoder(nn.Module):
    """Lets frames see each other: a linear map, sinusoidal positions, then pre-norm layers (arXiv 1706.03762).

    Positions count real frames only, so that a video with masked frames between real ones equals the one without.

    Args:
        dim: size D of the vectors that come in, of about unit length.
        width: size W of those that go out, even and a multiple of `heads`.
        layers: number of layers of self-attention and a two-layer network of twice the width.
        heads: of the attention.
        prefix: beginning of the settings' names, for messages.
    """

    def __init__(self, dim: int, width: int, layers: int, heads: int, prefix: str = "") -> None:
        super().__init__()
        if layers < 1 or heads < 1 or width < 2 or width % 2 or width % heads:
            raise ConfigError(
                f"model.{prefix}width={width}, model.{prefix}heads={heads}, model.{prefix}layers={layers}: all must be "
                ">= 1, and the width even and a multiple of the heads"
            )
        self.dim, self.width = dim, width
        self.enter = nn.Linear(dim, width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Frames in the context of their video.

        Args:
            x: float [B, T, D].
            mask: bool [B, T], True for real frames; others are not looked at.

        Returns:
            Float [B, T, W]; of no meaning, but finite, where a frame is masked.
        """
        x = self.enter(x * math.sqrt(self.dim)) + _positions(mask.cumsum(dim=1) - 1, self.width)
        seen = (mask | ~mask.any(dim=1, keepdim=True))[:, None, None]  # attention to nothing would give NaN
        for layer in self.layers:
            x = layer(x, seen)
        return torch.as_tensor(self.norm(x))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.project(context.transpose(1, 2).flatten(2))
        return torch.as_tensor(x + self.network(self.norm2(x)))


def _positions(places: Tensor, width: int) -> Tensor:
    """Sines and cosines [B, T, W] of places [B, T]."""
    rates = torch.exp(torch.arange(0, width, 2, device=places.device) * (-math.log(10_000.0) / width))
    angles = places[:, :, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=2)
