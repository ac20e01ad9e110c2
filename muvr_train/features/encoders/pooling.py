"""Feature maps to region features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.errors import ConfigError


def region_means(x: Tensor, grid: int) -> Tensor:
    """Average a map over a grid of regions, those of adaptive average pooling.

    Written as one matrix product, which is several times faster on maps that lie channels-last in memory.

    Args:
        x: feature maps [n, C, H, W], at least grid x grid.
        grid: regions per edge.

    Returns:
        [n, grid * grid, C]; regions row by row from the top left.

    Raises:
        ConfigError: if the map is smaller than the grid (its regions would be copies).
    """
    height, width = x.shape[2:]
    if min(height, width) < grid:
        raise ConfigError(
            f"a map of {height} x {width} cannot give {grid} x {grid} regions; "
            "choose an earlier stage, a larger encoder.size or a smaller grid"
        )
    return _pooling_matrix(height, width, grid).to(x) @ x.flatten(2).transpose(1, 2)


def region_grid(maps: Sequence[Tensor], grid: int) -> Tensor:
    """Average each map [n, C_i, H_i, W_i] over a grid, L2-normalise each map's vectors, concatenate.

    Returns:
        float32 [n, grid * grid, sum of C_i].

    Raises:
        ConfigError: see `region_means`.
    """
    return torch.cat([F.normalize(region_means(x.float(), grid), dim=-1) for x in maps], dim=-1)


@lru_cache(maxsize=64)
def _pooling_matrix(height: int, width: int, grid: int) -> Tensor:
    """Weights [grid * grid, height * width] of adaptive average pooling."""
    edges = torch.eye(height * width).view(height * width, 1, height, width)
    return F.adaptive_avg_pool2d(edges, grid).view(height * width, grid * grid).T.contiguous()
