"""The S2VS network: a small CNN that reads the frame-to-frame map of two videos."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.functional import (
    block_sizes,
    chamfer_frames,
    compact,
    forbid_empty,
    frame_maps,
    pair_maps,
    repeat_short,
    weighted,
)
from muvr_train.models.s2vs_head import CHANNELS, S2VSHead, Sides
from muvr_train.models.s2vs_index import Attention, Binarization, frame_attention, with_weight
from muvr_train.types import Tokens

MIN_FRAMES = 4
CHUNK_ELEMENTS = {"cpu": 3_000_000, "cuda": 64_000_000}
Scored = tuple[Tensor, Tensor]


def base_scorer(name: str, dim: int, regions: int) -> SimilarityNetwork:
    """An untrained scorer by name, on tokens that are normalised (and whitened) already."""
    if name in ("frame_max", "frame_max_frames"):
        return FrameMax(dim, regions, over="frames" if name.endswith("frames") else "regions")
    if name in ("chamfer", "chamfer_max", "chamfer_frames"):
        pooling = "max" if name == "chamfer_max" else "chamfer"
        return Chamfer(dim, regions, over="frames" if name.endswith("frames") else "regions", region_pooling=pooling)
    names = "frame_max, frame_max_frames, chamfer, chamfer_max, chamfer_frames"
    raise ConfigError(f"model.base={name!r}: must be one of {names}")


class S2VS(SimilarityNetwork):
    """ViSiL / S2VS (arXiv 1908.07410, 2304.03378): attention, region Chamfer, CNN, hard tanh, frame Chamfer.

    Scores lie in [-1, 1]; with `residual` in [-1 - |a|, 1 + |a|], a = `residual_scale`. A video without a real frame
    scores -inf. A video of fewer than 4 frames is repeated to 4 for the CNN (never for the base).

    Args:
        dim: feature size.
        regions: regions per frame.
        whiten: see `SimilarityNetwork`.
        attention: weigh region vectors.
        attention_norm: use the normalised form of the attention.
        binarization: number of bits, or None; not together with attention or residual.
        symmetric: average with the exchanged roles, in the region step and in the frame step.
        batch_norm: batch normalisation in the head.
        pooling: False keeps the map at full resolution (no max-pools, replicate padding).
        residual: score = base + a * S2VS with a learned a that starts at 0.
        base: untrained scorer for `residual`: frame_max, frame_max_frames, chamfer, chamfer_max (max over regions),
            chamfer_frames; on the same whitened tokens, without the attention weights.
        base_weights: let the attention weigh the frames of the base too: similarities with a target frame are scaled by
            twice its weight (the mean over its regions), and the mean over query frames is weighted. All weights start
            equal, so the score starts as the base's. Frames that unrelated videos share (title cards) can so be
            learned to count for nothing. Needs residual and the plain attention.
        mask_pooling: "all": padding never changes a score; "any": the reference's rule, under which it does.
        pair_chunk: how many video pairs the CNN reads at once in eval mode; None = as many as fit in about 3 million
            entries per layer (64 million on a GPU). Never changes a score by more than rounding.
        checkpointing: train in such chunks too and recompute them in the backward pass: far less memory, slower.
    """

    def __init__(
        self,
        dim: int,
        regions: int = 1,
        whiten: bool | int = False,
        attention: bool = True,
        attention_norm: bool = False,
        binarization: int | None = None,
        symmetric: bool = False,
        batch_norm: bool = False,
        pooling: bool = True,
        residual: bool = False,
        base: str = "frame_max",
        base_weights: bool = False,
        mask_pooling: str = "all",
        pair_chunk: int | None = None,
        checkpointing: bool = False,
    ) -> None:
        super().__init__(dim, regions, whiten)
        _check_combination(attention, attention_norm, binarization, residual, batch_norm, checkpointing)
        if base_weights and not (residual and attention and not attention_norm):
            raise ConfigError("model.base_weights=true needs model.residual=true, attention=true, attention_norm=false")
        if pair_chunk is not None and pair_chunk < 1:
            raise ConfigError(f"model.pair_chunk={pair_chunk}: must be >= 1, or null")
        self.symmetric, self.pair_chunk, self.checkpointing = symmetric, pair_chunk, checkpointing
        self.attention = Attention(self.index_dim, attention_norm) if attention else None
        self.binarization = None if binarization is None else Binarization(self.index_dim, binarization)
        self.base_weights = base_weights
        if base_weights and self.attention is not None:
            nn.init.zeros_(self.attention.context_vector.weight)
        self.head = S2VSHead(batch_norm, pooling, mask_pooling)
        scorer = base_scorer(base, self.index_dim, regions)
        self.base: SimilarityNetwork | None = scorer if residual else None
        self.residual_scale = nn.Parameter(torch.zeros(())) if residual else None

    @property
    def range(self) -> tuple[float, float]:  # type: ignore[override]
        """Lowest and highest possible score at the present weights."""
        reach = 2.0 if self.base_weights else 1.0  # a target frame counts at most twice
        reach += 0.0 if self.residual_scale is None else abs(float(self.residual_scale.detach()))
        return -reach, reach

    def _index(self, tokens: Tokens) -> Tokens:
        if self.head.mask_pooling == "all" or not self.head.pooling:
            tokens = compact(tokens)
        x = tokens.x if self.attention is None else self.attention(tokens.x)
        x = x if self.binarization is None else self.binarization(x)
        return replace(tokens, x=x.masked_fill(~tokens.mask[:, :, None, None], 0.0))

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores float32 [Q, N]; see the class."""
        return self._compare(q, n, extra_maps)[0]

    def similarity_with_extras(
        self, q: Tokens, n: Tokens, wanted: frozenset[str], extra_maps: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Scores and extras, as in the base class; `self` is the diagonal where `n` is `q` itself."""
        scores, excess = self._compare(q, n, extra_maps)
        extras = {}
        if "range_excess" in wanted:
            extras["range_excess"] = excess
        if "self" in wanted:
            extras["self"] = scores.diagonal() if q is n else self.pair_similarity(q, q)
        return scores, extras

    def _compare(self, q: Tokens, n: Tokens, extra_maps: Tensor | None) -> Scored:
        self._no_extra_maps(extra_maps)
        long_q, long_n = repeat_short(q, MIN_FRAMES), repeat_short(n, MIN_FRAMES)
        x_q, x_n = weighted(long_q), weighted(long_n)
        padded = not (bool(long_q.mask.all()) and bool(long_n.mask.all()))
        step_q, step_n = self._chunks(x_q, x_n)
        rows: list[Scored] = []
        for i in range(0, len(q), step_q):
            block, mask = x_q[i : i + step_q], long_q.mask[i : i + step_q]
            row = []
            for j in range(0, len(n), step_n):
                masks = (mask, long_n.mask[j : j + step_n]) if padded else None
                row.append(self._run(block, x_n[j : j + step_n], masks))
            rows.append(_cat(row, 1))
        scores, excess = _cat(rows, 0) if rows and len(n) else (x_q.new_zeros((len(q), len(n))),) * 2
        return forbid_empty(self._add_base(scores, q, n), q.mask, n.mask), excess

    def _chunks(self, x_q: Tensor, x_n: Tensor) -> tuple[int, int]:
        if self.training and not self.checkpointing:
            return max(1, len(x_q)), max(1, len(x_n))
        (_, t1, r1, _), (_, t2, r2, _) = x_q.shape, x_n.shape
        if self.pair_chunk is not None:
            return block_sizes(len(x_q), len(x_n), 1, self.pair_chunk)
        limit = CHUNK_ELEMENTS.get(x_q.device.type, CHUNK_ELEMENTS["cpu"])
        return block_sizes(len(x_q), len(x_n), t1 * t2 * max(CHANNELS[0], r1 * r2), limit)

    def _run(self, x_q: Tensor, x_n: Tensor, masks: Sides | None) -> Scored:
        if self.training and self.checkpointing:
            scores, excess = checkpoint(self._score_block, x_q, x_n, masks, use_reentrant=False)
            return scores, excess
        return self._score_block(x_q, x_n, masks)

    def _score_block(self, x_q: Tensor, x_n: Tensor, masks: Sides | None) -> Scored:
        """Scores and range excess [Q, N] of one block."""
        maps, sides, excess = self._refined(x_q, x_n, masks)
        shape = (len(x_q), len(x_n))
        return self._pool(maps, sides).view(shape), excess.view(shape)

    def frame_to_frame(self, x_q: Tensor, x_n: Tensor, masks: Sides | None = None) -> Tensor:
        """What the CNN reads: maps [Q, N, T1, T2] of indexed vectors [., T, R, D], 0 where a frame is padded."""
        maps = frame_maps(x_q, x_n, "chamfer", self.symmetric)
        if self.binarization is not None:
            maps = maps / self.binarization.projection.shape[1]
        return maps if masks is None else maps.masked_fill(~(masks[0][:, None, :, None] & masks[1][None, :, None]), 0.0)

    def _refined(self, x_q: Tensor, x_n: Tensor, masks: Sides | None) -> tuple[Tensor, Sides | None, Tensor]:
        maps = self.frame_to_frame(x_q, x_n).flatten(0, 1)
        sides = None
        if masks is not None:
            count_q, count_n = len(x_q), len(x_n)
            sides = (masks[0].repeat_interleave(count_n, dim=0), masks[1].repeat(count_q, 1))
        return self._apply_head(maps, sides)

    def _apply_head(self, maps: Tensor, sides: Sides | None) -> tuple[Tensor, Sides | None, Tensor]:
        """Clipped maps [P, T1', T2'], their sides, and the excess [P]."""
        refined, sides = self.head(maps[:, None], sides)
        refined = refined[:, 0]
        excess = (F.relu(refined - 1) + F.relu(-1 - refined)).sum(dim=(1, 2))
        return F.hardtanh(refined), sides, excess

    def _pool(self, maps: Tensor, sides: Sides | None) -> Tensor:
        rows, columns = (None, None) if sides is None else sides
        scores = chamfer_frames(maps, rows, columns)
        if self.symmetric:
            scores = (scores + chamfer_frames(maps.transpose(-1, -2), columns, rows)) / 2
        return scores

    def _add_base(self, scores: Tensor, q: Tokens, n: Tokens) -> Tensor:
        if self.base is None or self.residual_scale is None:
            return scores
        known = self.base.similarity(*self._base_sides(self.base, q, n))
        return known + self.residual_scale.float() * scores

    def _base_sides(self, base: SimilarityNetwork, q: Tokens, n: Tokens) -> tuple[Tokens, Tokens]:
        """What the base compares: directions, which the attention does not change, and frame weights if wanted."""
        with torch.no_grad():
            sides = base.index(q), base.index(n)
        if not self.base_weights:
            return sides
        w_q, w_n = (frame_attention(tokens) for tokens in (q, n))
        w_q = w_q * (q.mask.sum(dim=1, keepdim=True) / w_q.sum(dim=1, keepdim=True).clamp(min=1e-12))
        return with_weight(sides[0], w_q), with_weight(sides[1], 2 * w_n)

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i."""
        long_q, long_n = repeat_short(q, MIN_FRAMES), repeat_short(n, MIN_FRAMES)
        maps = pair_maps(weighted(long_q), weighted(long_n), "chamfer", self.symmetric)
        if self.binarization is not None:
            maps = maps / self.binarization.projection.shape[1]
        maps, sides, _ = self._apply_head(maps, (long_q.mask, long_n.mask))
        scores = self._pool(maps, sides)
        if self.base is not None and self.residual_scale is not None:
            known = self.base.pair_similarity(*self._base_sides(self.base, q, n))
            scores = known + self.residual_scale.float() * scores
        return scores.masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """What the CNN made of the frame-to-frame map, clipped to [-1, 1]: [Q, N, T1', T2'], 0 where padded."""
        long_q, long_n = repeat_short(q, MIN_FRAMES), repeat_short(n, MIN_FRAMES)
        with torch.no_grad():
            maps, _, _ = self._refined(weighted(long_q), weighted(long_n), (long_q.mask, long_n.mask))
        return maps.unflatten(0, (len(q), len(n)))  # type: ignore[no-untyped-call, no-any-return]


def _check_combination(
    attention: bool,
    attention_norm: bool,
    binarization: int | None,
    residual: bool,
    batch_norm: bool,
    checkpointing: bool,
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


def _cat(blocks: list[Scored], dim: int) -> Scored:
    scores, excess = zip(*blocks, strict=True)
    return torch.cat(scores, dim), torch.cat(excess, dim)
