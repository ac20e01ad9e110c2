"""Every fusion head on every network keeps the promises of `muvr_train.testing`."""

from __future__ import annotations

from functools import partial

import pytest

from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.product import HarrisFusion, ProductFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs import S2VS
from muvr_train.testing import check_fusion_head

NETWORKS = {
    "frame_max": FrameMax,
    "chamfer": Chamfer,
    "s2vs": partial(S2VS, residual=True),
    "s2vs_alone": partial(S2VS, attention=False),
}
LIKE_MEAN = {
    "mean": MeanFusion,
    "weighted": WeightedFusion,
    "gated": GatedFusion,
    "query_scoring": QueryScoring,
    "query_scoring_target": partial(QueryScoring, side="target"),
    "query_scoring_both": partial(QueryScoring, side="both"),
    "cross_attention": partial(CrossAttention, width=16, heads=2),
    "combiner": partial(Combiner, hidden=16),
}
OTHERS = {"product": ProductFusion, "harris": HarrisFusion, "covr": partial(CoVR, hidden=16)}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("head", LIKE_MEAN)
def test_heads_that_start_as_the_mean(head, network):
    check_fusion_head(LIKE_MEAN[head], network=NETWORKS[network], starts_as_mean=True)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("head", OTHERS)
def test_other_heads(head, network):
    check_fusion_head(OTHERS[head], network=NETWORKS[network])


@pytest.mark.parametrize("network", ["s2vs", "s2vs_alone"])
def test_map_channel(network):
    check_fusion_head(MapChannel, network=NETWORKS[network], starts_as_mean=True)


@pytest.mark.parametrize("head", ["gated", "query_scoring", "cross_attention", "combiner"])
def test_one_vector_per_video(head):
    check_fusion_head(LIKE_MEAN[head], network=MeanPool, starts_as_mean=True)
