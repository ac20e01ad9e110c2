"""Region embeddings of open_clip's image towers: the last map, averaged over a grid, projected as the embedding is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.places import Head, places
from muvr_train.features.encoders.pooling import region_means

Tower = tuple[Tensor, Tensor, Head]
"""The embedding [n, D], the last map [n, C, H, W], and what projects [n, R, C] to [n, R, D]."""


def region_embeddings(visual: Any, x: Tensor, grids: Collection[int]) -> dict[int, Tensor]:
    """Embeddings for several grids in one pass.

    Where the tower pools by attention, a region is projected by the value and output maps of that attention (what the
    pooling gives when all it sees is that region; Zhou et al., Extract Free Dense Labels from CLIP, ECCV 2022).

    Args:
        visual: the image tower of an open_clip model.
        x: prepared pictures [n, 3, h, w].
        grids: regions per edge; 1 is the tower's own embedding.

    Returns:
        {grid: [n, grid * grid, D]}.

    Raises:
        ConfigError: a tower without a map, or a map smaller than a grid.
    """
    finer = [grid for grid in grids if grid > 1]
    if not finer:
        return {1: visual(x)[:, None]}
    embedding, maps, project = _tower(visual, x)
    found = {grid: project(region_means(maps, grid)) for grid in finer}
    return {**found, 1: embedding[:, None]}


def place_embeddings(visual: Any, x: Tensor) -> Tensor:
    """Embeddings [n, H, W, D] of every place of the last map, projected as regions are.

    Raises:
        ConfigError: a tower without a map.
    """
    _, maps, project = _tower(visual, x)
    return project(maps.flatten(2).transpose(1, 2)).view(len(x), *maps.shape[2:], -1)


def _tower(visual: Any, x: Tensor) -> Tower:
    if hasattr(visual, "trunk"):
        return _timm_tower(visual, x)
    if hasattr(visual, "attnpool"):
        return _resnet_tower(visual, x)
    if getattr(visual, "attn_pool", None) is None and hasattr(visual, "forward_intermediates"):
        return _transformer_tower(visual, x)
    raise ConfigError(
        f"the image tower {type(visual).__name__} gives no regions; only streams.<name>.grid=1 works, no masks"
    )


def _transformer_tower(visual: Any, x: Tensor) -> Tower:
    out = visual.forward_intermediates(x, indices=1, normalize_intermediates=True)
    return (
        out["image_features"],
        out["image_intermediates"][0],
        lambda means: means if visual.proj is None else means @ visual.proj,
    )


def _resnet_tower(visual: Any, x: Tensor) -> Tower:
    out = visual.forward_intermediates(x, indices=1)
    pool = visual.attnpool
    return out["image_features"], out["image_intermediates"][0], lambda means: pool.c_proj(pool.v_proj(means))


def _timm_tower(visual: Any, x: Tensor) -> Tower:
    """A timm trunk: a region goes through the trunk's own head as if the picture were nothing but that region."""
    trunk = visual.trunk
    if "pool" in dict(visual.head.named_children()):
        raise ConfigError(
            "this image tower pools by 2-d attention and gives no regions; only streams.<name>.grid=1 works"
        )
    features = trunk.forward_features(x)
    maps, project = places(trunk, features, lambda rows: visual.head(trunk.forward_head(rows)))
    return visual.head(trunk.forward_head(features)), maps, project
