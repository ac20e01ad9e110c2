"""The check of networks: what is sound passes, and each way to break a promise is caught and named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs import S2VS
from muvr_train.testing import check_network
from muvr_train.types import Tokens

NETWORKS = [FrameMax, MeanPool, Chamfer, partial(Chamfer, whiten=5), S2VS, partial(S2VS, extra_maps=1)]
NETWORKS += [partial(S2VS, residual=True, whiten=8, base="chamfer_frames", base_weights=True)]


@pytest.mark.parametrize("network", NETWORKS)
def test_sound_networks_pass(network):
    check_network(network)


class Projected(FrameMax):
    """A sound learned network, and what the broken ones change."""

    def __init__(self, dim: int, regions: int = 1) -> None:
        super().__init__(dim, regions)
        self.map = nn.Linear(dim, dim, bias=False)

    def _index(self, tokens: Tokens) -> Tokens:
        return replace(tokens, x=F.normalize(self.map(tokens.x), dim=-1))


class Transposed(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return super().similarity(q, n, extra_maps).T


class Doubled(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return 2 * super().similarity(q, n, extra_maps)


class ZerosInPadding(Projected):
    """A padded 0 beats every negative cosine."""

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        maps = torch.einsum("qtrd,nusd->qntrus", q.x, n.x).flatten(2).amax(dim=2)
        empty = ~(q.mask.any(dim=1)[:, None] & n.mask.any(dim=1)[None])
        return maps.masked_fill(empty, float("-inf"))


class ReadsMasked(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        return replace(super()._index(tokens), mask=tokens.mask.any(dim=1, keepdim=True).expand(tokens.mask.shape))


class CentredInBatch(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        mean = n.x.mean(dim=(0, 1, 2))
        return super().similarity(replace(q, x=q.x - mean), n, extra_maps) / 4


class WrongPairs(Projected):
    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        return super().pair_similarity(n, q) + 0.01


class Unweighted(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        return replace(super()._index(tokens), weight=None)


class Frozen(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        with torch.no_grad():
            return super()._index(tokens)


class ScoresBlanks(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return super().similarity(q, n, extra_maps).clamp(min=-1)


def test_the_sound_twin_of_the_broken_networks_passes():
    check_network(Projected)


BROKEN_NETWORKS = [
    (Transposed, r"similarity_with_extras gives must have shape \[5, 6\], got \[6, 5\]"),
    (Doubled, r"leave the range -1 to 1"),
    (ZerosInPadding, r"depends on"),
    (ReadsMasked, r"(depends on|ignores|without a real frame)"),
    (CentredInBatch, r"depends on which other videos are in the database|depends on padding"),
    (WrongPairs, r"pair_similarity differs from the diagonal"),
    (Unweighted, r"ignores Tokens.weight"),
    (Frozen, r"detached"),
    (ScoresBlanks, r"a video without a real frame must score -inf"),
]


@pytest.mark.parametrize(("network", "message"), BROKEN_NETWORKS, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_networks_are_caught(network, message):
    with pytest.raises(AssertionError, match=f"{network.__name__} on .*({message})"):
        check_network(network)


def test_a_network_that_depends_on_padding_is_named_with_numbers():
    with pytest.raises(AssertionError, match=r"S2VS on 1 x 16 .*depends on padding .* where 1e-05 is allowed"):
        check_network(partial(S2VS, mask_pooling="any"))
    with pytest.raises(AssertionError, match="it is a Linear, no SimilarityNetwork"):
        check_network(lambda dim, regions: nn.Linear(dim, regions))
