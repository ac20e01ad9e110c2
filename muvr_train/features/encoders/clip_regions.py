"""Region embeddings of open_clip's image towers: the last map, averaged over a grid, projected as the embedding is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.pooling import region_means


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
    if hasattr(visual, "trunk"):
        embedding, maps, project = _timm_tower(visual, x)
    elif hasattr(visual, "attnpool"):
        embedding, maps, project = _resnet_tower(visual, x)
    elif getattr(visual, "attn_pool", None) is None and hasattr(visual, "forward_intermediates"):
        embedding, maps, project = _transformer_tower(visual, x)
    else:
        raise ConfigError(f"the image tower {type(visual).__name__} gives no regions; only streams.<name>.grid=1 works")
    found = {grid: project(region_means(maps, grid)) for grid in finer}
    return {**found, 1: embedding[:, None]}


def _transformer_tower(visual: Any, x: Tensor) -> tuple[Tensor, Tensor, Any]:
    out = visual.forward_intermediates(x, indices=1, normalize_intermediates=True)
    return (
        out["image_features"],
        out["image_intermediates"][0],
        lambda means: means if visual.proj is None else means @ visual.proj,
    )


def _resnet_tower(visual: Any, x: Tensor) -> tuple[Tensor, Tensor, Any]:
    out = visual.forward_intermediates(x, indices=1)
    pool = visual.attnpool
    return out["image_features"], out["image_intermediates"][0], lambda means: pool.c_proj(pool.v_proj(means))


def _timm_tower(visual: Any, x: Tensor) -> tuple[Tensor, Tensor, Any]:
    """A timm trunk: a region goes through the trunk's own head as if the picture were nothing but that region."""
    trunk = visual.trunk
    if "pool" in dict(visual.head.named_children()):
        raise ConfigError(
            "this image tower pools by 2-d attention and gives no regions; only streams.<name>.grid=1 works"
        )
    features = trunk.forward_features(x)
    embedding = visual.head(trunk.forward_head(features))
    if features.ndim == 4:
        return embedding, features, lambda means: _as_pictures(visual, means)
    prefix = trunk.num_prefix_tokens
    tokens = features[:, prefix:]
    edge = round(tokens.shape[1] ** 0.5)
    if edge * edge != tokens.shape[1]:
        raise ConfigError("the image tower's tokens are no square grid; only streams.<name>.grid=1 works")
    maps = tokens.transpose(1, 2).reshape(len(x), -1, edge, edge)
    return embedding, maps, lambda means: _as_tokens(visual, means, prefix + 1)


def _as_pictures(visual: Any, means: Tensor) -> Tensor:
    out = visual.head(visual.trunk.forward_head(means.flatten(0, 1)[:, :, None, None]))
    regions: Tensor = out.view(*means.shape[:2], -1)
    return regions


def _as_tokens(visual: Any, means: Tensor, copies: int) -> Tensor:
    """Whichever token the head takes (class token or average), it finds the region."""
    out = visual.head(visual.trunk.forward_head(means.flatten(0, 1)[:, None].expand(-1, copies, -1)))
    regions: Tensor = out.view(*means.shape[:2], -1)
    return regions
