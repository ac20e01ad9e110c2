"""Places of a timm network's last map, in the space of its global feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError

Head = Callable[[Tensor], Tensor]


def places(model: Any, features: Tensor, head: Head) -> tuple[Tensor, Head]:
    """Find the last map, and what brings a place or region of it into the space of the global feature.

    A place goes through the head as if the picture were nothing but that place.

    Args:
        model: the timm network.
        features: what its `forward_features` gives.
        head: what follows, features to [n, D].

    Returns:
        The map [n, C, H, W], and a function from [n, R, C] to [n, R, D].

    Raises:
        ConfigError: features that form no square map.
    """
    if features.ndim == 4:
        last = getattr(model, "output_fmt", "NCHW") == "NHWC"
        maps = features.permute(0, 3, 1, 2) if last else features
        return maps, lambda x: _each(head, x, lambda rows: rows[:, None, None] if last else rows[:, :, None, None])
    prefix = int(getattr(model, "num_prefix_tokens", 0))
    tokens = features[:, prefix:]
    edge = round(tokens.shape[1] ** 0.5)
    if features.ndim != 3 or edge * edge != tokens.shape[1]:
        raise ConfigError("the network's last features are no square map; only streams.<name>.grid=1 works, no masks")
    maps = tokens.transpose(1, 2).reshape(len(features), -1, edge, edge)
    return maps, lambda x: _each(head, x, lambda rows: rows[:, None].expand(-1, prefix + 1, -1))


def _each(head: Head, x: Tensor, shape: Head) -> Tensor:
    """Send vectors [n, R, C] through the head one by one; a token is copied to wherever the head looks."""
    return head(shape(x.flatten(0, 1))).view(*x.shape[:2], -1)


def join_maps(maps: list[Tensor]) -> Tensor:
    """Resize maps [n, C_i, H_i, W_i] to the finest, L2-normalise each map's vectors, concatenate to [n, H, W, C]."""
    size = max(((x.shape[2], x.shape[3]) for x in maps), key=lambda edges: edges[0] * edges[1])
    parts = [F.interpolate(x.float(), size, mode="bilinear", align_corners=False) for x in maps]
    return torch.cat([F.normalize(x, dim=1) for x in parts], dim=1).permute(0, 2, 3, 1)
