"""One vector per video: the common baseline."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.functional import forbid_empty, full_precision
from muvr_train.types import Tokens


class MeanPool(SimilarityNetwork):
    """Cosine of the means over the real frames and their regions; in [-1, 1], float32, not trained.

    `Tokens.weight` weighs the frames of the mean. A video without a real frame scores -inf.
    """

    def _index(self, tokens: Tokens) -> Tokens:
        """One L2-normalised vector per video: x [B, 1, 1, D]."""
        weight = tokens.mask.to(tokens.x.dtype)
        if tokens.weight is not None:
            weight = weight * tokens.weight
        mean = torch.einsum("btrd,bt->bd", tokens.x, weight)
        return Tokens(F.normalize(mean, dim=-1)[:, None, None], tokens.mask.any(dim=1, keepdim=True))

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        """Scores [Q, N]; see the class."""
        self._no_extra_maps(extra_maps)
        with full_precision(q.x):
            return forbid_empty(q.x.flatten(1).float() @ n.x.flatten(1).float().T, q.mask, n.mask)

    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        """Scores [P] of q_i with n_i."""
        scores = (q.x.float() * n.x.float()).sum(dim=(1, 2, 3))
        return scores.masked_fill(~(q.mask.any(dim=1) & n.mask.any(dim=1)), float("-inf"))

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        """The score as a map of one cell [Q, N, 1, 1]."""
        return self.similarity(q, n)[:, :, None, None]
