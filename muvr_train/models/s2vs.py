"""The S2VS network: a small CNN that reads the frame-to-frame map of two videos."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.cut import Cut
from muvr_train.models.functional import block_sizes, compact, forbid_empty, repeat_short, weighted
from muvr_train.models.recompute import run_piece
from muvr_train.models.reference import load_released
from muvr_train.models.region_max import BYTES_PER_PRODUCT, map_bytes, region_maps
from muvr_train.models.s2vs_base import base_scorer, base_sides, check_combination, check_counts
from muvr_train.models.s2vs_head import S2VSHead, Sides, refine, score_maps
from muvr_train.models.s2vs_index import Attention, Binarization, Rewritten
from muvr_train.models.s2vs_maps import channels, check_maps, in_step, pieces_of
from muvr_train.models.s2vs_plan import BUDGET_PARTS, MAP_ENTRIES, MIN_FRAMES, of_device, pairs_at_once
from muvr_train.models.s2vs_tiles import Scored, Side, back_in_order, make_side, paired, tiled
from muvr_train.types import Tokens


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
        pair_chunk: how many video pairs the CNN reads at once; None = as many as run fastest, or fewer under
            `memory_budget`. Never changes a score by more than rounding. Batch norm in train mode needs all at once.
        checkpointing: compute what the CNN holds for the backward pass again there instead of keeping it: less memory.
            None = where a batch would hold more than 0.5 GiB (8 GiB on a GPU), or more than `memory_budget` leaves.
        weights: file of the S2VS program, such as s2vs_dns.pth, to start from; its settings must be these.
        extra_maps: further frame-to-frame maps K that the fusion head gives for every pair, see `similarity`; their
            weights start at 0, so that the score starts as without them, and where none are given they count as 0.
        compile: let torch compile the CNN, which takes long once for each number of frames; no padding is trimmed.
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
        checkpointing: bool | None = None,
        compile: bool = False,  # noqa: A002
        weights: str | None = None,
        extra_maps: int = 0,
    ) -> None:
        super().__init__(dim, regions, whiten)
        check_combination(attention, attention_norm, binarization, residual, batch_norm, checkpointing, base_weights)
        check_counts(pair_chunk, extra_maps)
        self.symmetric, self.pair_chunk, self.checkpointing = symmetric, pair_chunk, checkpointing
        self.attention = Attention(self.index_dim, attention_norm) if attention else None
        self.binarization = None if binarization is None else Binarization(self.index_dim, binarization)
        self.base_weights = base_weights
        if base_weights and self.attention is not None:
            nn.init.zeros_(self.attention.context_vector.weight)
        self.extra_maps, self.head = extra_maps, S2VSHead(batch_norm, pooling, mask_pooling, extra_maps)
        self.compiled = compile
        if compile:
            self.head.compile(dynamic=True)
        scorer = base_scorer(base, self.index_dim, regions)
        self.base: SimilarityNetwork | None = scorer if residual else None
        self.residual_scale = nn.Parameter(torch.zeros(())) if residual else None
        if weights is not None:
            load_released(self, weights)

    @property
    def range(self) -> tuple[float, float]:  # type: ignore[override]
        """Lowest and highest possible score at the present weights."""
        reach = 2.0 if self.base_weights else 1.0  # a target frame counts at most twice
        reach += 0.0 if self.residual_scale is None else abs(float(self.residual_scale.detach()))
        return -reach, reach

    def _index(self, tokens: Tokens) -> Tokens:
        if self._may_trim and not self.extra_maps:  # whose frames are in the order of the raw tokens
            tokens = compact(tokens)
        x = tokens.x if self.attention is None else self.attention(tokens.x)
        x = x if self.binarization is None else self.binarization(x)
        kind = Rewritten if tokens.x.requires_grad else Tokens
        return kind(x.masked_fill(~tokens.mask[:, :, None, None], 0.0), tokens.mask, tokens.weight)

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores float32 [Q, N]; see the class.

        Args:
            q: queries.
            n: database videos.
            extra_maps: float [Q, N, K, T1, T2] of any scale, for the frames of `q` and `n` in their order; padding is
                ignored; T1 or T2 may be 1 where all frames of that side have one value. `weight` of tokens does not
                apply to them. None = 0 for every pair.
        """
        return self._compare(q, n, extra_maps)[0]

    def similarity_with_extras(
        self, q: Tokens, n: Tokens, wanted: frozenset[str], extra_maps: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Scores and extras, as in the base class; `self` is that of a video compared without extra maps."""
        scores, excess = self._compare(q, n, extra_maps)
        extras = {}
        if "range_excess" in wanted:
            extras["range_excess"] = excess
        if "self" in wanted:
            extras["self"] = scores.diagonal() if q is n and extra_maps is None else self._own_scores(q)
        return scores, extras

    def _compare(self, q: Tokens, n: Tokens, extra_maps: Tensor | None) -> Scored:
        side_q = self._side(q)
        side_n = side_q if n is q else self._side(n)
        if extra_maps is not None:
            check_maps(extra_maps, q, n, self.extra_maps)
            extra_maps = in_step(extra_maps, (q, n), (side_q, side_n), self._may_trim)
        found = self._score(side_q, side_n, extra_maps)
        scores, excess = (back_in_order(matrix, side_q, side_n) for matrix in found)
        return forbid_empty(self._with_base(scores, q, n, "similarity"), q.mask, n.mask), excess

    def _long(self, tokens: Tokens) -> Tokens:
        """What the CNN compares: at least 4 frames, real ones first if padding may be trimmed."""
        return repeat_short(compact(tokens) if self.extra_maps and self._may_trim else tokens, MIN_FRAMES)

    def _side(self, tokens: Tokens) -> Side:
        tokens = self._long(tokens)
        trim = self._may_trim and self.divisible and not self.compiled  # which is done again for every new size
        return make_side(tokens, weighted(tokens), trim, MIN_FRAMES)

    @property
    def _may_trim(self) -> bool:
        """Whether padding changes no score; real frames then come first."""
        return self.head.mask_pooling == "all" or not self.head.pooling

    @property
    def divisible(self) -> bool:
        """False for batch norm in train mode."""
        return not (self.head.batch_norm and self.training)

    def _score(self, q: Side, n: Side, extra: Tensor | None) -> Scored:
        """Scores and range excess [Q, N]; in inference not all maps exist at once."""
        if not self.divisible or torch.is_grad_enabled():
            return self._score_block(q, n, extra)
        limit = of_device(MAP_ENTRIES, q.x) if self.memory_budget is None else self.work_bytes // 16
        steps = block_sizes(len(q), len(n), q.x.shape[1] * n.x.shape[1], limit)
        further = pieces_of(extra)
        return tiled(lambda a, b: self._score_block(q[a], n[b], further(a, b)), len(q), len(n), steps, q.x)

    def _score_block(self, q: Side, n: Side, extra: Tensor | None) -> Scored:
        maps = self.frame_to_frame(q.x, n.x)
        pairs, again = pairs_at_once(self, q, n)
        wide = round(pairs**0.5) if q.trim and n.trim else len(n)  # square tiles hold videos of like length
        steps = block_sizes(len(q), min(len(n), wide), 1, pairs)
        tiles, further = Cut(maps), pieces_of(extra)

        def score(a: slice, b: slice) -> Scored:
            part_q, part_n = q[a], n[b]
            frames = slice(part_q.x.shape[1]), slice(part_n.x.shape[1])
            pieces = tiles[(a, b, *frames)], further(a, b, slice(None), *frames)
            run = run_piece(self._score_maps, *pieces, paired(part_q, part_n), again=again)
            return run[0].view(len(part_q), -1), run[1].view(len(part_q), -1)

        return tiled(score, len(q), len(n), steps, maps)

    def _score_maps(self, maps: Tensor, extra: Tensor | None, sides: Sides | None) -> Scored:
        return score_maps(self.head, channels(maps, extra), sides, self.symmetric)

    def least_budget(self, frames_q: int, frames_n: int) -> int:
        """Bytes of `memory_budget` that inference needs for a pair of videos; see the base class."""
        cells = 0 if self.memory_budget is None else max(frames_q, MIN_FRAMES) * max(frames_n, MIN_FRAMES)
        return BUDGET_PARTS * cells * (self.head.cell_bytes(False) + BYTES_PER_PRODUCT * self.regions**2)

    def training_bytes(self, q: Tokens, n: Tokens) -> tuple[int, int]:
        """Bytes for each pair until the backward pass, and bytes besides; see the base class."""
        (t1, r1), (t2, r2) = q.x.shape[1:3], n.x.shape[1:3]
        cells = max(t1, MIN_FRAMES) * max(t2, MIN_FRAMES)
        return self.kept_bytes(q.x, n.x, cells), cells * (self.head.cell_bytes(True) + BYTES_PER_PRODUCT * r1 * r2)

    def kept_bytes(self, x_q: Tensor, x_n: Tensor, cells: int) -> int:
        """Bytes per pair until the backward pass: the maps, and extra maps as given and as sorted, with gradients."""
        return map_bytes(x_q, x_n, self.symmetric) + 16 * cells * self.extra_maps

    def frame_to_frame(self, x_q: Tensor, x_n: Tensor, masks: Sides | None = None) -> Tensor:
        """What the CNN reads: maps [Q, N, T1, T2] of indexed vectors [., T, R, D], 0 where a frame is padded."""
        entries = None if self.memory_budget is None else self.work_bytes // (4 * BYTES_PER_PRODUCT)
        maps = region_maps(x_q, x_n, self.symmetric, entries, self.scoring_dtype)
        if self.binarization is not None:
            maps = maps / self.binarization.projection.shape[1]
        return maps if masks is None else maps.masked_fill(~(masks[0][:, None, :, None] & masks[1][None, :, None]), 0.0)

    def _own_scores(self, q: Tokens) -> Tensor:
        """Scores [Q] of videos with themselves, in pieces as those of all pairs."""
        side = self._side(q)
        pairs, again = pairs_at_once(self, side, side)
        step = pairs if self.divisible else max(1, len(q))
        parts, x = [slice(start, start + step) for start in range(0, max(1, len(q)), step)], Cut(q.x)
        pieces = [replace(q[part], x=x[part,]) for part in parts]
        return torch.cat([run_piece(self.pair_similarity, piece, piece, again=again) for piece in pieces])

    def _with_base(self, scores: Tensor, q: Tokens, n: Tokens, method: str) -> Tensor:
        """Add what the base, at this network's precision and in its memory, gives by the method of that name."""
        if self.base is None or self.residual_scale is None:
            return scores
        self.base.memory_budget, self.base.product_dtype = self.memory_budget, self.product_dtype
        known: Tensor = getattr(self.base, method)(*base_sides(self.base, q, n, self.base_weights))
        return known + self.residual_scale.float() * scores

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i, without extra maps."""
        long_q, long_n = self._long(q), self._long(n)
        sides = (torch.split(weighted(tokens), 1) for tokens in (long_q, long_n))
        maps = torch.cat([self.frame_to_frame(x_q, x_n) for x_q, x_n in zip(*sides, strict=True)])
        scores, _ = self._score_maps(maps, None, (long_q.mask, long_n.mask))
        scores = self._with_base(scores, q, n, "pair_similarity")
        return scores.masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """What the CNN makes of the map, without extra ones, in [-1, 1]: [Q, N, T1', T2'], 0 where padded."""
        long_q, long_n = self._long(q), self._long(n)
        sides = long_q.mask.repeat_interleave(len(n), dim=0), long_n.mask.repeat(len(q), 1)
        with torch.no_grad():
            maps = self.frame_to_frame(weighted(long_q), weighted(long_n))
            return refine(self.head, channels(maps, None), sides)[0].unflatten(0, (len(q), len(n)))  # type: ignore[no-untyped-call, no-any-return]
