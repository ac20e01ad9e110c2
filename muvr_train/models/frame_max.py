"""The best pair of frames: MUVR's own scorer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.functional import (
    BLOCK_ELEMENTS,
    block_sizes,
    fill_padding,
    forbid_empty,
    frame_maps,
    full_precision,
    max_product,
    pair_maps,
    weigh_maps,
    weighted,
)
from muvr_train.types import Tokens


def check_over(over: str) -> None:
    """Raise ConfigError unless `over` is "regions" or "frames"."""
    if over not in ("regions", "frames"):
        raise ConfigError(f"model.over={over!r}: must be 'regions' or 'frames'")


def merge_regions(tokens: Tokens) -> Tokens:
    """Replace the regions of a frame by their L2-normalised mean: x [B, T, 1, D]."""
    return replace(tokens, x=F.normalize(tokens.x.mean(dim=2, keepdim=True), dim=-1))


class FrameMax(SimilarityNetwork):
    """Largest cosine over query frames, target frames and their regions; in [-1, 1], float32, not trained.

    With one region per frame this is exactly the score v of MUVR (arXiv 2510.21406). A video without a real frame
    scores -inf.

    Args:
        dim: feature size.
        regions: regions per frame.
        whiten: see `SimilarityNetwork`.
        over: "regions" compares every region with every region; "frames" first merges the regions of a frame.
        block_elements: bound on the entries of one similarity product (less under a `memory_budget`).
    """

    def __init__(
        self,
        dim: int,
        regions: int = 1,
        whiten: bool | int = False,
        over: str = "regions",
        block_elements: int = BLOCK_ELEMENTS,
    ) -> None:
        super().__init__(dim, regions, whiten)
        check_over(over)
        self.over, self.block_elements = over, block_elements

    def _index(self, tokens: Tokens) -> Tokens:
        return merge_regions(tokens) if self.over == "frames" else tokens

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores [Q, N]; see the class."""
        self._no_extra_maps(extra_maps)
        with full_precision(q.x):
            if any(side.weight is not None and side.weight.requires_grad for side in (q, n)):
                return forbid_empty(self._weighted_maxima(q, n), q.mask, n.mask)
            x_q, x_n = (fill_padding(weighted(tokens), tokens.mask).flatten(1, 2) for tokens in (q, n))
            return forbid_empty(
                max_product(x_q, x_n, self.products_at_once(self.block_elements), self.scoring_dtype), q.mask, n.mask
            )

    def _weighted_maxima(self, q: Tokens, n: Tokens) -> Tensor:
        """The same for learned weights, whose gradient needs the maps of frames but no product of regions."""
        x_q, x_n = (fill_padding(tokens.x.float(), tokens.mask) for tokens in (q, n))
        cost = x_q.shape[1:3].numel() * x_n.shape[1:3].numel()
        step = block_sizes(len(q), len(n), cost, self.products_at_once(self.block_elements))[0]
        rows = [frame_maps(x_q[i : i + step], x_n, "max") for i in range(0, len(q), step)]
        maps = torch.cat([x_q.new_zeros((0, len(n), x_q.shape[1], x_n.shape[1])), *rows])
        return weigh_maps(maps, q, n).amax(dim=(2, 3))

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i."""
        with full_precision(q.x):
            x_q, x_n = (fill_padding(weighted(tokens), tokens.mask) for tokens in (q, n))
            best = pair_maps(x_q, x_n, pooling="max", half=self.scoring_dtype).amax(dim=(1, 2))
            return best.masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """Best region cosine of every frame pair [Q, N, T1, T2]."""
        with full_precision(q.x), torch.no_grad():
            maps = frame_maps(weighted(q), weighted(n), pooling="max")
        return maps * (q.mask[:, None, :, None] & n.mask[None, :, None, :])
