"""Every fusion head on every network keeps the promises of `muvr_train.testing`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.product import HarrisFusion, ProductFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.late_interaction import LateInteraction
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs import S2VS
from muvr_train.runner.classes import build
from muvr_train.testing import check_fusion_head
from muvr_train.types import StoreDims

HeadFactory = Callable[..., FusionHead]
NETWORKS: dict[str, Callable[..., SimilarityNetwork]] = {
    "chamfer": Chamfer,
    "frame_max": FrameMax,
    "s2vs": partial(S2VS, residual=True),
    "s2vs_alone": partial(S2VS, attention=False),
    "late_interaction": partial(LateInteraction, temporal_layers=1, temporal_width=8, temporal_heads=2),
    "mean_pool": MeanPool,
}
LIKE_MEAN: dict[str, HeadFactory] = {
    "mean": MeanFusion,
    "weighted": WeightedFusion,
    "gated": GatedFusion,
    "query_scoring": QueryScoring,
    "query_scoring_target": partial(QueryScoring, side="target"),
    "query_scoring_both": partial(QueryScoring, side="both"),
    "cross_attention": partial(CrossAttention, width=16, heads=2),
    "combiner": partial(Combiner, hidden=16),
}
OTHERS: dict[str, HeadFactory] = {"product": ProductFusion, "harris": HarrisFusion, "covr": partial(CoVR, hidden=16)}
NEED_FRAMES = {"query_scoring_target", "query_scoring_both"}
PAIRS = [
    pytest.param(head, network, marks=[] if network == "chamfer" else [pytest.mark.slow], id=f"{head}-{network}")
    for head in (*LIKE_MEAN, *OTHERS)
    for network in NETWORKS
    if not (head in NEED_FRAMES and network == "mean_pool")
]


@pytest.mark.parametrize(("head", "network"), PAIRS)
def test_heads(head: str, network: str) -> None:
    """Those of LIKE_MEAN start as the mean."""
    make = LIKE_MEAN.get(head) or OTHERS[head]
    check_fusion_head(make, network=NETWORKS[network], starts_as_mean=head in LIKE_MEAN)


@pytest.mark.parametrize("network", ["s2vs", pytest.param("s2vs_alone", marks=pytest.mark.slow)])
def test_map_channel(network: str) -> None:
    check_fusion_head(MapChannel, network=NETWORKS[network], starts_as_mean=True)


def test_every_config_is_a_head_under_its_name() -> None:
    """One .yaml for each head, with the defaults of its class."""
    folder = Path(__file__).parents[3] / "configs" / "fusion"
    dims = StoreDims(regions=1, dim=8, text_dim=8)
    heads = {file.stem: build(OmegaConf.load(file), "fusion", dims=dims) for file in sorted(folder.glob("*.yaml"))}
    assert {"gated", "query_scoring", "cross_attention", "combiner", "map_channel", "covr"} < heads.keys()
    assert {"mean", "weighted", "product", "harris"} < heads.keys()
    for file in folder.glob("*.yaml"):
        settings = OmegaConf.to_container(OmegaConf.load(file))
        assert isinstance(settings, dict)
        defaults = signature(type(heads[file.stem])).parameters
        assert {name: defaults[name].default for name in settings if name != "_target_"} == {
            name: value for name, value in settings.items() if name != "_target_"
        }
