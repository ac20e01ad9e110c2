"""Settings of fusion heads: mistakes are named before anything heavy is loaded."""

from __future__ import annotations

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

HEADS = ("mean", "weighted", "product", "harris", "gated", "query_scoring", "cross_attention", "combiner", "covr")


pytestmark = pytest.mark.usefixtures("somewhere")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fusion=crossattention"], ["crossattention", "cross_attention"]),
        (["fusion=query_scoring", "fusion.side=targets"], ["fusion.side=targets", "did you mean 'target'"]),
        (["fusion=query_scoring", "fusion.temperature=0"], ["fusion.temperature=0", "a number > 0"]),
        (["fusion=query_scoring", "fusion.temprature=1"], ["did you mean 'fusion.temperature'"]),
        (["fusion=gated", "fusion.hidden=0"], ["fusion.hidden=0", "a whole number >= 1"]),
        (["fusion=cross_attention", "fusion.heads=3"], ["fusion.width=128", "a multiple of fusion.heads=3"]),
        (["fusion=cross_attention", "fusion.layers=1.5"], ["fusion.layers=1.5"]),
        (["fusion=harris", "fusion.disagreement=-1"], ["fusion.disagreement=-1", "a number >= 0"]),
        (
            ["fusion=query_scoring", "fusion.side=target", "model=mean_pool"],
            ["fusion.side=target", "MeanPool keeps none"],
        ),
        (
            ["fusion=query_scoring", "fusion.side=both", "model=dns_coarse"],
            ["fusion.side=both", "DnSCoarse keeps none"],
        ),
        (["fusion=map_channel", "model=chamfer"], ["fusion=map_channel", "Chamfer cannot read", "model=s2vs"]),
    ],
)
def test_a_mistake_is_named(args: list[str], said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        cli.prepare(args, "train")
    assert [part for part in said if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    "args",
    [
        *([f"fusion={head}"] for head in HEADS),
        ["fusion=map_channel", "model=s2vs"],
        ["fusion=query_scoring", "model=mean_pool"],
        ["fusion=query_scoring", "fusion.side=both", "model=frame_max"],
    ],
)
def test_what_is_possible(args: list[str]) -> None:
    cli.prepare(args, "train")
