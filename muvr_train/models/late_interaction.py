"""Late interaction of frame tokens: every query token finds its best target token, in a learned space."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.base import WORK_SHARE, SimilarityNetwork
from muvr_train.models.cut import Cut
from muvr_train.models.frame_max import check_over, merge_regions
from muvr_train.models.functional import (
    BLOCK_ELEMENTS,
    block_sizes,
    fill_padding,
    forbid_empty,
    orthogonal_map,
    weighted,
)
from muvr_train.models.region_max import BYTES_PER_PRODUCT, map_bytes, region_maps
from muvr_train.models.temporal import TemporalEncoder
from muvr_train.types import Tokens

SCALE_LIMIT = 4.0
"""The learned scale stays between 1 / SCALE_LIMIT and SCALE_LIMIT."""


class LateInteraction(SimilarityNetwork):
    """MeanMaxSim over frame tokens, as Video-ColBERT has it (arXiv 2503.19009, section 3), of two videos.

    Of unit tokens q_1 .. q_A and n_1 .. n_C of the real frames the score is s / A * sum_a max_c q_a . n_c.
    Tokens are W x of each (whitened) frame or region vector x, plus what the temporal encoder adds, normalised. W
    starts as the identity (as an orthogonal map where the sizes differ), the encoder's last layer at 0 and s at 1, so
    that the score starts as that of `Chamfer` on the same tokens.

    s = 4 ** tanh(learned), in (1/4, 4): losses of a fixed temperature t see the temperature t / s, and `range` is
    (-s, s). Evaluation scores include s as those of training do, so that a fusion head sees the same video part; how
    database videos rank by a video alone does not depend on s. `learned_scale: false` keeps the score in [-1, 1], as
    losses with `unit_range` want it. A video without a real frame scores -inf. `weight` of tokens multiplies
    similarities, as in `Chamfer`.

    Args:
        dim: feature size.
        regions: regions per frame.
        whiten: see `SimilarityNetwork`.
        over: "regions": every region of a frame is a token; "frames": the regions of a frame are merged into one.
        size: of the tokens; None = that of the (whitened) features.
        symmetric: average with the exchanged roles.
        learned_scale: whether s is learned; otherwise it is 1.
        temporal_layers: layers of the transformer over the frames (each region by itself); 0 = none.
        temporal_width: its width.
        temporal_heads: its heads.
    """

    def __init__(
        self,
        dim: int,
        regions: int = 1,
        whiten: bool | int = False,
        over: str = "regions",
        size: int | None = None,
        symmetric: bool = False,
        learned_scale: bool = True,
        temporal_layers: int = 0,
        temporal_width: int = 256,
        temporal_heads: int = 4,
    ) -> None:
        super().__init__(dim, regions, whiten)
        check_over(over)
        if size is not None and size < 1:
            raise ConfigError(f"model.size={size}: must be >= 1, or null")
        if temporal_layers < 0:
            raise ConfigError(f"model.temporal_layers={temporal_layers}: must be >= 0")
        self.over, self.symmetric = over, symmetric
        self.projection = nn.Linear(self.index_dim, size or self.index_dim, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(())) if learned_scale else None
        self.temporal: TemporalEncoder | None = None
        if temporal_layers:
            width = self.projection.out_features
            self.temporal = TemporalEncoder(width, temporal_width, temporal_layers, temporal_heads, "temporal_")
            self.leave = nn.Linear(temporal_width, width, bias=False)
            nn.init.zeros_(self.leave.weight)
        with torch.no_grad():
            self.projection.weight.copy_(orthogonal_map(*self.projection.weight.shape))

    @property
    def scale(self) -> Tensor | float:
        """The factor s."""
        return 1.0 if self.log_scale is None else SCALE_LIMIT ** torch.tanh(self.log_scale.float())

    @property
    def range(self) -> tuple[float, float]:  # type: ignore[override]
        """Lowest and highest possible score at the present scale."""
        scale = float(torch.as_tensor(self.scale).detach())
        return -scale, scale

    def _index(self, tokens: Tokens) -> Tokens:
        tokens = merge_regions(tokens) if self.over == "frames" else tokens
        x = self.projection(tokens.x)
        if self.temporal is not None:
            count, _, regions, _ = x.shape
            series = x.transpose(1, 2).flatten(0, 1)
            seen = self.temporal(series, tokens.mask.repeat_interleave(regions, dim=0))
            x = x + self.leave(seen).unflatten(0, (count, regions)).transpose(1, 2)
        x = F.normalize(x.float(), dim=-1)
        return replace(tokens, x=x.masked_fill(~tokens.mask[:, :, None, None], 0.0))

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores [Q, N]; see the class."""
        self._no_extra_maps(extra_maps)
        scores = self._mean_max(q, n)
        if self.symmetric:
            scores = (scores + self._mean_max(n, q).T) / 2
        return forbid_empty(scores * self.scale, q.mask, n.mask)

    def _mean_max(self, q: Tokens, n: Tokens) -> Tensor:
        """The mean over real tokens of q of the best token of n, in blocks: [Q, N]."""
        x_q, x_n, share = self._sides(q, n)
        limit = BLOCK_ELEMENTS if self.memory_budget is None else self.work_bytes // 16
        step_q, step_n = block_sizes(len(q), len(n), x_q.shape[1], limit)
        cut_q, cut_n, rows = Cut(x_q), Cut(x_n), [x_q.new_empty((0, len(n)))]
        for i in range(0, len(q), step_q):
            a, row = slice(i, i + step_q), [x_q.new_empty((len(x_q[i : i + step_q]), 0))]
            for j in range(0, len(n), step_n):
                best = self._best(cut_q[a,], cut_n[j : j + step_n,])
                row.append(torch.einsum("qtn,qt->qn", best, share[a]))
            rows.append(torch.cat(row, dim=1))
        return torch.cat(rows)

    def _sides(self, q: Tokens, n: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens of queries [Q, A, D], those of targets as regions of one frame, [N, 1, C, D], and shares [Q, A].

        So a maximum over regions is one over all tokens of a video.
        """
        x_n = fill_padding(weighted(n), n.mask)
        share = q.mask.float() / (q.mask.sum(dim=1, keepdim=True).clamp(min=1) * q.x.shape[2])
        share = share if q.weight is None else share * q.weight.float().masked_fill(~q.mask, 0.0)
        return (
            q.x.float().flatten(1, 2),
            x_n.flatten(1, 2)[:, None],
            share.repeat_interleave(q.x.shape[2], 1),
        )

    def _best(self, x_q: Tensor, x_n: Tensor) -> Tensor:
        """Maxima [Q, A, N]; each query token stands for a video, so that blocks hold many videos beside it."""
        entries = None if self.memory_budget is None else self.work_bytes // (2 * BYTES_PER_PRODUCT)
        tokens = x_q.flatten(0, 1)[:, None, None]
        maps = region_maps(tokens, x_n, entries=entries, half=self.scoring_dtype)
        return maps.view(*x_q.shape[:2], len(x_n))

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i."""
        scores = self._pairs(q, n)
        if self.symmetric:
            scores = (scores + self._pairs(n, q)) / 2
        return (scores * self.scale).masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def _pairs(self, q: Tokens, n: Tokens) -> Tensor:
        x_q, x_n, share = self._sides(q, n)
        best = [self._best(*pair)[0, :, 0] for pair in zip(torch.split(x_q, 1), torch.split(x_n, 1), strict=True)]
        return (torch.stack(best) * share).sum(dim=1) if best else share.sum(dim=1)

    def least_budget(self, frames_q: int, frames_n: int) -> int:
        """Bytes of `memory_budget` that inference needs for a pair of videos; see the base class."""
        regions = 1 if self.over == "frames" else self.regions
        products = 0 if self.memory_budget is None else frames_q * frames_n * regions**2
        return 2 * WORK_SHARE * BYTES_PER_PRODUCT * products

    def training_bytes(self, q: Tokens, n: Tokens) -> tuple[int, int]:
        """Bytes for each pair until the backward pass, and bytes besides; see the base class."""
        tokens_q, tokens_n = q.x[:1].flatten(1, 2), n.x[:1].flatten(1, 2)
        each = map_bytes(tokens_q[:, :, None], tokens_n[:, None], False)
        if self.symmetric:
            each += map_bytes(tokens_n[:, :, None], tokens_q[:, None], False)
        return each, BYTES_PER_PRODUCT * tokens_q.shape[1] * tokens_n.shape[1]

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """Mean over query regions of the best cosine with a target region, for frames [Q, N, T1, T2], without s."""
        with torch.no_grad():
            maps = region_maps(weighted(q), weighted(n))
        return maps * (q.mask[:, None, :, None] & n.mask[None, :, None, :])
