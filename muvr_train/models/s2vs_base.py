"""The untrained scorer that S2VS starts from and corrects, and which settings exclude each other."""

from __future__ import annotations

import torch

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.s2vs_index import Rewritten, frame_attention, with_weight
from muvr_train.types import Tokens


def base_scorer(name: str, dim: int, regions: int) -> SimilarityNetwork:
    """An untrained scorer by name, on tokens that are normalised (and whitened) already."""
    if name in ("frame_max", "frame_max_frames"):
        return FrameMax(dim, regions, over="frames" if name.endswith("frames") else "regions")
    if name in ("chamfer", "chamfer_max", "chamfer_frames"):
        pooling = "max" if name == "chamfer_max" else "chamfer"
        return Chamfer(dim, regions, over="frames" if name.endswith("frames") else "regions", region_pooling=pooling)
    names = "frame_max, frame_max_frames, chamfer, chamfer_max, chamfer_frames"
    raise ConfigError(f"model.base={name!r}: must be one of {names}")


def base_sides(base: SimilarityNetwork, q: Tokens, n: Tokens, weigh: bool) -> tuple[Tokens, Tokens]:
    """What the base compares: directions, which the attention does not change, and frame weights if wanted."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and isinstance(q, Rewritten)):
        directions = base.index(q)
    with torch.no_grad():
        sides = directions, base.index(n)
    if not weigh:
        return sides
    w_q, w_n = (frame_attention(tokens) for tokens in (q, n))
    w_q = w_q * (q.mask.sum(dim=1, keepdim=True) / w_q.sum(dim=1, keepdim=True).clamp(min=1e-12))
    return with_weight(sides[0], w_q), with_weight(sides[1], 2 * w_n)


def check_combination(
    attention: bool,
    attention_norm: bool,
    binarization: int | None,
    residual: bool,
    batch_norm: bool,
    checkpointing: bool | None,
    base_weights: bool,
) -> None:
    """Raise ConfigError for settings that exclude each other."""
    if binarization is not None and binarization < 1:
        raise ConfigError(f"model.binarization={binarization}: must be a number of bits >= 1, or null")
    if binarization is not None and attention:
        raise ConfigError("model.binarization excludes model.attention: set model.attention=false")
    if binarization is not None and residual:
        raise ConfigError("model.residual needs the features that model.binarization throws away: set one of them off")
    if attention_norm and not attention:
        raise ConfigError("model.attention_norm=true needs model.attention=true")
    if batch_norm and checkpointing:
        raise ConfigError("model.checkpointing splits batches, which changes model.batch_norm: set one of them off")
    if base_weights and not (residual and attention and not attention_norm):
        raise ConfigError("model.base_weights=true needs model.residual=true, attention=true, attention_norm=false")


def check_counts(pair_chunk: int | None, extra_maps: int) -> None:
    """Raise ConfigError for numbers that count nothing."""
    if pair_chunk is not None and pair_chunk < 1:
        raise ConfigError(f"model.pair_chunk={pair_chunk}: must be >= 1, or null")
    if isinstance(extra_maps, bool) or not isinstance(extra_maps, int) or extra_maps < 0:
        raise ConfigError(f"extra_maps={extra_maps!r}: must be a number of maps >= 0")
