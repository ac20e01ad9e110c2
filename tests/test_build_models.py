"""Models built from configs: heads that give the network extra maps, equal networks under every head."""

from __future__ import annotations

import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.runner.models import build_retriever
from muvr_train.runner.refusals import warn_unasked
from muvr_train.types import StoreDims

DIMS = StoreDims(regions=2, dim=8, text_dim=8)
S2VS = {"_target_": "muvr_train.models.s2vs.S2VS"}
MEAN = {"_target_": "muvr_train.models.fusion.mean.MeanFusion"}


class Maps(FusionHead):
    """A head that draws its weights and gives maps."""

    extra_maps = 3

    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.layer = torch.nn.Linear(dims.dim, dims.dim)


MAPS = {"_target_": f"{__name__}.Maps"}


def test_the_network_gets_as_many_channels_as_the_head_gives_maps():
    model = build_retriever(S2VS, MAPS, DIMS)
    assert model.network.extra_maps == 3
    assert model.network.head.conv1.weight.shape == (32, 4, 3, 3)
    assert build_retriever(S2VS, MEAN, DIMS).network.extra_maps == 0


def test_a_network_of_one_seed_is_the_same_under_every_head():
    weights = []
    for fusion in (MEAN, MAPS):
        torch.manual_seed(3)
        weights.append(build_retriever(S2VS, fusion, DIMS).network.state_dict()["attention.transform.weight"])
    assert torch.equal(*weights)


def test_a_network_that_reads_no_maps_is_refused():
    frame_max = {"_target_": "muvr_train.models.frame_max.FrameMax"}
    with pytest.raises(ConfigError, match=r"fusion Maps gives .* 3 extra map\(s\), .*FrameMax cannot read"):
        build_retriever(frame_max, MAPS, DIMS)


@pytest.mark.parametrize("target", ["no.Such", "S2VS", "muvr_train.models.s2vs.Such"])
def test_classes_that_cannot_be_imported_are_named(target):
    for fusion in (MEAN, MAPS):
        with pytest.raises(ConfigError, match=f"cannot build {target}"):
            build_retriever({"_target_": target}, fusion, DIMS)


@pytest.mark.parametrize(
    ("network", "head", "warned"),
    [
        ("s2vs.S2VS", "covr.CoVR", True),
        ("mean_pool.MeanPool", "covr.CoVR", False),
        ("s2vs.S2VS", "mean.MeanFusion", False),
    ],
)
def test_a_network_that_is_never_asked_is_warned_of(network, head, warned, caplog):
    model = build_retriever(
        {"_target_": f"muvr_train.models.{network}"}, {"_target_": f"muvr_train.models.fusion.{head}"}, DIMS
    )
    with caplog.at_level("WARNING"):
        warn_unasked(model)
    assert ("never asks the network: S2VS stays as it is" in caplog.text) is warned
