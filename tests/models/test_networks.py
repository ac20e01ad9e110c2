"""Every network keeps the promises that muvr_train.testing checks; each configured one is among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.dns_coarse import DnSCoarse
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.late_interaction import LateInteraction
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs import S2VS
from muvr_train.testing import check_network
from muvr_train.types import Tokens

CONFIGS = Path(__file__).parents[2] / "configs" / "model"
SMALL = {"width": 16, "clusters": 4}
NETWORKS: dict[str, Callable[..., SimilarityNetwork]] = {
    "frame_max": FrameMax,
    "frame_max, frames": partial(FrameMax, over="frames", whiten=True),
    "mean_pool": MeanPool,
    "mean_pool, whitened": partial(MeanPool, whiten=5),
    "chamfer": Chamfer,
    "chamfer, max": partial(Chamfer, region_pooling="max", whiten=True),
    "chamfer, frames, symmetric": partial(Chamfer, over="frames", symmetric=True),
    "s2vs": S2VS,
    "s2vs, extra maps": partial(S2VS, extra_maps=2),
    "s2vs, extra maps, residual": partial(S2VS, extra_maps=1, residual=True, whiten=True),
    "s2vs, weighted base": partial(S2VS, residual=True, base="chamfer_frames", base_weights=True),
    "s2vs, symmetric": partial(S2VS, symmetric=True, attention_norm=True),
    "s2vs, no pooling": partial(S2VS, pooling=False, attention=False),
    "s2vs, binary": partial(S2VS, attention=False, binarization=32),
    "s2vs, pieces": partial(S2VS, pair_chunk=2, checkpointing=True, extra_maps=1),
    "late_interaction": LateInteraction,
    "late_interaction, frames": partial(LateInteraction, over="frames", size=10, learned_scale=False),
    "late_interaction, temporal": partial(LateInteraction, temporal_layers=1, temporal_width=16, symmetric=True),
    "late_interaction, whitened": partial(LateInteraction, whiten=True),
    "dns_coarse": partial(DnSCoarse, **SMALL),
    "dns_coarse, no residual": partial(DnSCoarse, residual=False, attention=False, size=12, whiten=True, **SMALL),
}


def test_every_configured_network_is_here():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == {name.split(",")[0] for name in NETWORKS}


@pytest.mark.parametrize("name", NETWORKS)
def test_keeps_its_promises(name):
    check_network(NETWORKS[name], sizes=[(16, 1), (12, 3)])


@pytest.mark.parametrize("name", NETWORKS)
def test_frames_may_have_holes(name):
    torch.manual_seed(0)
    network = NETWORKS[name](dim=12, regions=2)
    x, mask = torch.randn(3, 11, 2, 12), torch.rand(3, 11) > 0.4
    whole = Tokens.pack([video[real] for video, real in zip(x, mask, strict=True)])
    network.fit([whole])
    network.eval()
    with torch.no_grad():
        holes, packed = (network.index(side) for side in (Tokens(x, mask), whole))
        expected = network.similarity(packed, packed)
        torch.testing.assert_close(network.similarity(holes, packed), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(network.similarity(packed, holes), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(network.pair_similarity(holes, holes), expected.diagonal(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name == "s2vs, extra maps" or "s2vs" not in name])
def test_a_budget_changes_no_score_and_no_gradient(name):
    found = []
    for budget in (None, 300_000):
        torch.manual_seed(0)
        network = NETWORKS[name](dim=12, regions=2).train()
        q, n = (Tokens.pack([torch.randn(length, 2, 12) for length in (9, 4, 7)]) for _ in range(2))
        network.fit([n])
        network.memory_budget = budget
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        learned = list(network.parameters())
        scores, extras = network.similarity_with_extras(network.index(q), network.index(n), frozenset({"self"}))
        loss = scores.square().sum() + extras["self"].sum()
        grads = torch.autograd.grad(loss, learned, allow_unused=True, materialize_grads=True) if learned else ()
        with torch.no_grad():
            evaluated = network.eval().similarity(network.index(q), network.index(n))
        found.append((scores.detach(), extras["self"].detach(), evaluated, *grads))
    for free, bounded in zip(*found, strict=True):
        torch.testing.assert_close(bounded, free, atol=1e-5, rtol=1e-4)
