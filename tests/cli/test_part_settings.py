"""Settings of tags, regions and hidden parts: mistakes are named before anything heavy is loaded."""

from __future__ import annotations

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

FOLDER = ["experiment=s2vs_self_supervised", "data.videos=v"]
TABLE = ["data=table", "data.annotations=a", "data.features=f"]


pytestmark = pytest.mark.usefixtures("somewhere")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["data.batch.tag_rows=-1"], ["data.batch.tag_rows=-1", "a whole number >= 0"]),
        (["data.batch.tag_rows=0.5"], ["data.batch.tag_rows=0.5"]),
        (["data.part_dropout.video=1.5"], ["data.part_dropout.video=1.5", "a number >= 0 and <= 1"]),
        (["data.part_dropout.text=nan"], ["data.part_dropout.text=nan"]),
        (["data.part_dropout.txt=0.1"], ["did you mean 'data.part_dropout.text'"]),
        (["data.regions=often"], ["data.regions=often", "true | false"]),
        (["data.part_dropout.tags=0.5"], ["data.part_dropout.tags=0.5", "set data.batch.tag_rows"]),
        (["data.part_dropout.region=0.5"], ["data.part_dropout.region=0.5", "set data.regions"]),
        ([*FOLDER, "data.batch.tag_rows=1"], ["data.batch.tag_rows=1", "self_supervised has none"]),
        ([*FOLDER, "data.part_dropout.video=0.2"], ["data.part_dropout.video=0.2", "self_supervised has none"]),
        ([*FOLDER, "data.regions=true"], ["data.regions=true", "self_supervised has none"]),
        ([*TABLE, "data.batch.tag_rows=2"], ["data.batch.tag_rows=2 needs tag expressions", "data=table has none"]),
        ([*TABLE, "benchmark.modes=[tv+tag]"], ["benchmark=table has no mode tv+tag", "tv+region"]),
        ([*FOLDER, "benchmark.modes=[tv+region]"], ["benchmark=copies has no mode tv+region"]),
        (["benchmark.modes=[tv+tags]"], ["benchmark.modes=['tv+tags']", "did you mean 'tv+tag'"]),
        (["trainer.monitor=val/muvr_base/tv+tags/mean/mAP"], ["'tv+tags'", "did you mean 'tv+tag'"]),
        (["trainer.monitor=mAP"], ["e.g. val/muvr_base/tv/mean/mAP"]),
        (
            ["benchmark.modes=[tv]", "trainer.monitor=val/muvr_base/tv+tag/mean/mAP"],
            ["the mode 'tv+tag' is none of tv"],
        ),
    ],
)
def test_a_mistake_is_named(args: list[str], said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        cli.prepare(args, "train")
    assert [part for part in said if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    "args",
    [
        ["data.batch.tag_rows=2", "data.regions=true", "data.part_dropout={video:0.2,text:1,tags:0.1,region:0.5}"],
        ["benchmark.modes=[v,t,tv,tv+tag,tv+region]"],
        ["trainer.monitor=val/muvr_base/tv+tag/mean/mAP"],
        ["trainer.monitor=val/muvr_base/tv+region/region/recall@1"],
        ["benchmark.modes=[tv+tag]", "benchmark.folds=3", "benchmark.fold=0"],
        ["benchmark.modes=[tv,tv+tag]", "benchmark.folds=3"],
        ["data.regime=joint", "data.batch.tag_rows=1"],
        [*TABLE, "data.batch.tag_rows=2", "data.optional_parts=true"],
        [*TABLE, "benchmark.modes=[tv+region]", "data.regions=true"],
    ],
)
def test_what_is_possible_passes(args: list[str]) -> None:
    assert cli.prepare(args, "train")
