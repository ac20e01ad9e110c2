"""Chamfer similarity over frames: every query frame finds its best target frame."""

from __future__ import annotations

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import check_over, merge_regions
from muvr_train.models.functional import (
    BLOCK_ELEMENTS,
    block_sizes,
    chamfer_frames,
    fill_padding,
    forbid_empty,
    frame_maps,
    full_precision,
    pair_maps,
    weigh_maps,
    weighted,
)
from muvr_train.models.region_max import region_maps
from muvr_train.types import Tokens


class Chamfer(SimilarityNetwork):
    """Mean over query frames of the max over target frames (ViSiL, arXiv 1908.07410); in [-1, 1], float32, not trained.

    A video without a real frame scores -inf.

    Args:
        dim: feature size.
        regions: regions per frame.
        whiten: see `SimilarityNetwork`.
        over: "regions" compares the regions of each frame pair; "frames" first merges the regions of a frame.
        region_pooling: for over="regions": "chamfer" = mean over query regions of the max over target regions, as S2VS;
            "max" = the best pair of regions.
        symmetric: average with the exchanged roles, in the region step and in the frame step.
        block_elements: bound on the entries of one similarity product (less under a `memory_budget`).
    """

    def __init__(
        self,
        dim: int,
        regions: int = 1,
        whiten: bool | int = False,
        over: str = "regions",
        region_pooling: str = "chamfer",
        symmetric: bool = False,
        block_elements: int = BLOCK_ELEMENTS,
    ) -> None:
        super().__init__(dim, regions, whiten)
        check_over(over)
        if region_pooling not in ("chamfer", "max"):
            raise ConfigError(f"model.region_pooling={region_pooling!r}: must be 'chamfer' or 'max'")
        self.over, self.region_pooling, self.symmetric = over, region_pooling, symmetric
        self.block_elements = block_elements

    def _index(self, tokens: Tokens) -> Tokens:
        return merge_regions(tokens) if self.over == "frames" else tokens

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores [Q, N]; see the class."""
        self._no_extra_maps(extra_maps)
        with full_precision(q.x):
            x_q, x_n = fill_padding(q.x.float(), q.mask), fill_padding(n.x.float(), n.mask)
            cost = x_q.shape[1] * x_q.shape[2] * x_n.shape[1] * x_n.shape[2]
            step_q, step_n = block_sizes(len(q), len(n), cost, self.products_at_once(self.block_elements))
            rows = [x_q.new_empty((0, len(n)))]
            for i in range(0, len(q), step_q):
                part_q = q[i : i + step_q]
                row = [x_q.new_empty((len(part_q), 0))]
                for j in range(0, len(n), step_n):
                    part_n = n[j : j + step_n]
                    maps = weigh_maps(self._maps(x_q[i : i + step_q], x_n[j : j + step_n]), part_q, part_n)
                    row.append(self._pool_frames(maps, part_q.mask[:, None], part_n.mask[None]))
                rows.append(torch.cat(row, dim=1))
            return forbid_empty(torch.cat(rows), q.mask, n.mask)

    def _maps(self, x_q: Tensor, x_n: Tensor) -> Tensor:
        if self.region_pooling == "chamfer":
            return region_maps(x_q, x_n, self.symmetric, half=self.scoring_dtype)
        return frame_maps(x_q, x_n, self.region_pooling, self.symmetric, self.scoring_dtype)

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i."""
        with full_precision(q.x):
            x_q, x_n = fill_padding(weighted(q), q.mask), fill_padding(weighted(n), n.mask)
            maps = pair_maps(x_q, x_n, self.region_pooling, self.symmetric, self.scoring_dtype)
            scores = self._pool_frames(maps, q.mask, n.mask)
            return scores.masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def _pool_frames(self, maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Padded frames hold copies of real ones here, so only the means need the masks."""
        forward = chamfer_frames(maps, rows)
        return (forward + chamfer_frames(maps.transpose(-1, -2), columns)) / 2 if self.symmetric else forward

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """Frame-to-frame similarities [Q, N, T1, T2]."""
        with full_precision(q.x), torch.no_grad():
            maps = self._maps(weighted(q), weighted(n))
        return maps * (q.mask[:, None, :, None] & n.mask[None, :, None, :])
