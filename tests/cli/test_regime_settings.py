"""Settings of training regimes: mistakes are named before anything heavy is loaded, what is possible passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from muvr_train import cli
from muvr_train.errors import ConfigError
from muvr_train.preflight.unread import TRAINING

BASE = ["experiment=s2vs_evaclip"]
MUVR = [*BASE, "data=muvr", "data.annotations=a", "data.features=f"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["data.regime=both"], ["data.regime=both", "supervised | self_supervised | joint"]),
        (["data.joint_share=0"], ["data.joint_share=0", "> 0 and < 1"]),
        (["data.joint_share=1"], ["data.joint_share=1", "> 0 and < 1"]),
        (["data.soft_mixing=1.5", "data.regime=joint"], ["data.soft_mixing=1.5"]),
        (["data.soft_mixing=0.5"], ["data.soft_mixing=0.5", "data.regime=self_supervised"]),
        (["data.mining.every_n_epochs=0"], ["data.mining.every_n_epochs=0", "a whole number >= 1, or null"]),
        (["data.mining.every_n_epochs=often"], ["data.mining.every_n_epochs=often"]),
        (["data.mining.top=0"], ["data.mining.top=0"]),
        (["data.mining.per_query=-1"], ["data.mining.per_query=-1"]),
        (["data.mining.every_n=2"], ["data.mining.every_n", "did you mean 'data.mining.every_n_epochs'"]),
        (["data.mining.every_n_epochs=1", "data.mining.per_query=30"], ["data.mining.per_query=30", "top=20"]),
        (["data.mining.every_n_epochs=1", "data.workers=2"], ["data.workers=2", "data.prefetch"]),
        (["data.mining.every_n_epochs=1", "data.regime=self_supervised"], ["data.mining", "annotated queries"]),
        (["data.mining.top=30"], ["data.mining.top=30", "every_n_epochs is null", "leave top out"]),
        (["data.mining.per_query=1"], ["data.mining.per_query=1", "every_n_epochs is null"]),
        (["data.joint_share=0.25"], ["data.joint_share=0.25", "data.regime=joint", "the regime is supervised"]),
        (["data.joint_share=0.25", "data.regime=self_supervised"], ["the regime is self_supervised"]),
        (["data.train_partitions=[]"], ["data.train_partitions=[]", "one or more"]),
        (["data.train_partitions=news"], ["data.train_partitions=news", "a list"]),
        (["data.train_partitions=[news,news]"], ["news is named twice"]),
        (["data.train_partitions=[1]"], ["data.train_partitions=[1]", "a text"]),
        (["data.train_partitions=[danc]"], ["no partition 'danc'", "did you mean 'dance'", "instance"]),
        (["data=folder", "data.videos=x", "benchmark=copies", "data.train_partitions=[news]"], ["copies have none"]),
        (["data=folder", "data.videos=x", "benchmark=copies", "data.regime=joint"], ["must be self_supervised"]),
        (["seed=[]"], ["seed=[]", "one or more"]),
        (["seed=[1,1]"], ["seed=[1, 1]", "1 is named twice"]),
        (["seed=[0,-1]"], ["seed=[0, -1]", "a whole number from 0"]),
        (["seed=[0,4294967296]"], ["seed=[0, 4294967296]"]),
        (["seed=[0,true]"], ["seed=[0, True]"]),
        (["seed=0.5"], ["seed=0.5"]),
        (["seed=0,1"], ["seed=0,1", "add -m", "brackets"]),
        (["seed=[0,1]", "benchmark.folds=3"], ["seed=[0,1]", "benchmark.folds=3", "-m seed=0,1"]),
    ],
)
def test_a_mistake_is_named(args: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError) as caught:
        cli.prepare([*BASE, *args], "train")
    assert [part for part in said if part not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        [*BASE, "data.regime=joint", "data.joint_share=0.25", "data.mining.every_n_epochs=2", "data.soft_mixing=1"],
        [*BASE, "data.mining.every_n_epochs=1", "data.mining.top=1", "data.mining.per_query=1", "data.prefetch=50"],
        [*BASE, "data.train_partitions=[news,dance]", "data.workers=2"],
        [*BASE, "data.mining.top=20", "data.mining.per_query=2", "data.joint_share=0.5"],  # said, as they are anyway
        [*MUVR, "data.train_partitions=['猫']"],  # known only with the annotation
        [*MUVR, "data.regime=self_supervised"],
        [*BASE, "seed=[0,1,2]"],
        [*BASE, "seed=[5]"],
        [*BASE, "seed=[0,1]", "benchmark.folds=3", "benchmark.fold=0"],
        [*BASE, "-m", "seed=0,1,2"],
    ],
)
def test_what_is_possible_passes(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.prepare(args, "train")


def test_evaluation_refuses_what_only_training_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is typed: configs of data and trainer may hold it, and what evaluation reads too is taken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for text in ("data.joint_share=0.25", "data.mining.top=5"):
        with pytest.raises(ConfigError, match=f"{text.partition('=')[0]}= changes nothing here: only training reads"):
            cli.prepare(["model=frame_max", text], "evaluate")
    assert cli.prepare(
        ["model=frame_max", "trainer=gpu", "data.regime=joint", "data.fractions=[0.5,0.2,0.3]"], "evaluate"
    )


def test_what_only_training_reads_is_there() -> None:
    for name, group in TRAINING.items():
        files = (Path(__file__).parents[2] / "configs" / group).glob("*.yaml")
        assert any(name in OmegaConf.load(file) for file in files), f"{group}.{name}"


def test_evaluation_takes_one_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=r"seed=\[0,1\]: several seeds are trained by train\.py"):
        cli.prepare(["model=frame_max", "seed=[0,1]"], "evaluate")
