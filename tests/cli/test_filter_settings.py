"""Settings of benchmark=muvr_filter: mistakes are named before anything heavy is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from muvr_train import cli
from muvr_train.errors import ConfigError
from muvr_train.runner.data import tags_of
from muvr_train.search.filter_scores import TagSettings

DATA = ["data=muvr", "data.annotations=a", "data.features=f", "benchmark=muvr_filter"]
EVALUATE = ["model=frame_max", *DATA]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["benchmark.tag_mode=-0.1"], ["benchmark.tag_mode=-0.1", "a number >= 0"]),
        (["benchmark.tag_mode=nan"], ["benchmark.tag_mode=nan"]),
        (["benchmark.tag_mode=inf"], ["benchmark.tag_mode=inf"]),
        (["benchmark.tag_mode=strong"], ["benchmark.tag_mode=strong"]),
        (["benchmark.tag_mode=null"], ["benchmark.tag_mode=None"]),
        (["benchmark.tag_mode=true"], ["benchmark.tag_mode=True"]),
        (["benchmark.tag_mode=[]"], ["benchmark.tag_mode=[]", "one or more"]),
        (["benchmark.tag_mode=[0.3,-1]"], ["benchmark.tag_mode=[0.3, -1]"]),
        (["benchmark.tag_mode=[0.3,0.3]"], ["benchmark.tag_mode", "different", "0.3 is named twice"]),
        (["benchmark.tag_modes=0.3"], ["did you mean 'benchmark.tag_mode'"]),
        (["benchmark.modes=[v,tv]"], ["benchmark.modes=['v', 'tv']", "[v], [t] or [tv]"]),
        (["benchmark.logic=maybe"], ["benchmark.logic=maybe", "true | false"]),
        (["data=table"], ["data=table and benchmark=muvr_filter do not go together"]),
    ],
)
def test_a_mistake_is_named(args: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    base = EVALUATE if args != ["data=table"] else [args[0], *(one for one in EVALUATE if one != "data=muvr")]
    with pytest.raises(ConfigError) as caught:
        cli.prepare([*base, *args], "evaluate")
    assert [part for part in said if part not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_training_is_sent_to_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=r"evaluated, not trained on: train with benchmark=muvr_base"):
        cli.prepare(DATA, "train")


@pytest.mark.parametrize("value", ["0", "0.3", "10", "1.5", "[0,0.3,100]"])
def test_what_is_possible_passes(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.prepare([*EVALUATE, f"benchmark.tag_mode={value}"], "evaluate")


def test_settings_become_rows() -> None:
    def read(tag_mode: object) -> TagSettings:
        benchmark = {"name": "muvr_filter", "tag_mode": tag_mode, "logic": False, "upper_bound": True}
        return tags_of(OmegaConf.create({"benchmark": benchmark}))

    assert read(0.3) == TagSettings((0.3,), False, True)
    assert read([10, 0, 0.3]).all_modes == (0.0, 10.0, 0.3)
    assert read(0).all_modes == (0.0,)
    assert tags_of(OmegaConf.create({"benchmark": {"name": "muvr_base"}})) == TagSettings()
