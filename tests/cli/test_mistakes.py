"""Every kind of mistake in a setting: one clear message, exit code 2, and nothing heavy imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

Start = Callable[..., Any]
HEAVY = {"torch", "pytorch_lightning", "timm", "open_clip", "wandb", "decord", "numpy"}

TRAIN = [
    (["experiment=nope"], ["experiment=nope", "s2vs_evaclip", "zero_shot"]),
    (["experiment=s2vs_evaclp"], ["experiment=s2vs_evaclp", "did you mean 's2vs_evaclip'"]),
    (["model.lrr=1"], ["model.lrr", "did you mean 'optimizer.lr'"]),
    (["optimizer.lrr=1"], ["optimizer.lrr", "did you mean 'optimizer.lr'"]),
    (["batch.topics=3"], ["batch.topics", "did you mean 'data.batch.topics'"]),
    (["data.batch={topic: 3}"], ["data.batch.topic", "did you mean 'data.batch.topics'"]),
    (["monitor=x"], ["monitor", "did you mean 'trainer.monitor'"]),
    (["experimnt=s2vs_evaclip"], ["experimnt", "did you mean 'experiment'"]),
    (["hydra/launcher=nope"], ["hydra/launcher=nope", "basic"]),
    (["logger=nope"], ["logger=nope", "csv", "wandb"]),
    (["trainer=cpuu"], ["trainer=cpuu", "did you mean 'cpu'"]),
    (["data=_batches"], ["data=_batches"]),
    (["s2vs_evaclip"], ["cannot read 's2vs_evaclip'", "key=value"]),
    (["model.x=[1"], ["cannot read 'model.x=[1'"]),
    (["debug=null"], ["debug=null", "~debug"]),
    (["trainer.monitor=val/muvr_base/tv/mean/mAPP"], ["trainer.monitor", "did you mean 'mAP'"]),
    (["trainer.monitor=val/muvr/tv/mean/mAP"], ["trainer.monitor", "did you mean 'muvr_base'"]),
    (["trainer.monitor=loss"], ["trainer.monitor", "val/muvr_base/tv/mean/mAP"]),
    (["trainer.monitor=val/muvr_base/v/mean/recall@3"], ["'recall@3'", "recall@200"]),
    (["benchmark.modes=[v]", "trainer.monitor=val/muvr_base/tv/mean/mAP"], ["trainer.monitor", "'tv'"]),
    (["trainer.precision=bf16"], ["trainer.precision=bf16", "did you mean 'bf16-mixed'"]),
    (["trainer.max_epochs=-1"], ["trainer.max_epochs=-1", ">= 0"]),
    (["optimizer.lr=-1e-3"], ["optimizer.lr=-0.001", "> 0"]),
    (["optimizer.lr=nan"], ["optimizer.lr=nan"]),
    (["optimizer.lr=fast"], ["optimizer.lr=fast"]),
    (["optimizer.betas=[0.9]"], ["optimizer.betas=[0.9]", "2"]),
    (["optimizer.lr_ratios={residual_scale:-1}"], ["optimizer.lr_ratios.residual_scale=-1", ">= 0 (0 freezes)"]),
    (["~fusion._target_", "+fusion.target=my_head.Shift"], ["fusion.target=my_head.Shift", "fusion._target_"]),
    (["optimizer.lr_ratios=3"], ["optimizer.lr_ratios=3", "+optimizer.lr_ratios.network=0.1"]),
    (["optimizer.lr_ratios=[1]"], ["optimizer.lr_ratios=[1]"]),
    (["optimizer.lr_ratios.network=1"], ["optimizer.lr_ratios.network", "added with +optimizer.lr_ratios.network=..."]),
    (["+optimizer.lr_ratios={retriever.head.:fast}"], ["optimizer.lr_ratios.retriever.head.=fast"]),
    (["trainer.ema=1"], ["trainer.ema=1", "> 0 and < 1, or null"]),
    (["trainer.ema=0"], ["trainer.ema=0"]),
    (["loss=distillation"], ["loss.losses.distillation", "teacher=checkpoints/NAME"]),
    (["loss=distillation", "teacher=checkpoints/nope"], ["teacher=checkpoints/nope", "no such file or folder"]),
    (["loss=distillation", "teacher=."], ["teacher=.", "holds no best.ckpt"]),
    (["teacher=setup.py"], ["teacher=setup.py", "no such file"]),
    (["on_missing=offical"], ["on_missing=offical", "did you mean 'official'"]),
    (["residency=disk"], ["residency=disk", "mmap | ram | gpu"]),
    (["memory_budget=much"], ["memory_budget=much", "500MB or 2GB"]),
    (["memory_budget=0"], ["memory_budget=0", "500MB or 2GB"]),
    (["memory_budget=true"], ["memory_budget=True", "500MB or 2GB"]),
    (["benchmark.modes=[v,x]"], ["benchmark.modes=['v', 'x']", "v | t | tv"]),
    (["benchmark.modes=v"], ["benchmark.modes=v", "list"]),
    (["benchmark.split=dev"], ["benchmark.split=dev", "train"]),
    (["benchmark.gallery=all"], ["benchmark.gallery=all", "full"]),
    (["benchmark.ks=[0]"], ["benchmark.ks=[0]", "as in benchmark.ks=[1,10]"]),
    (["data.train_partitions=news"], ["data.train_partitions=[news]"]),
    (["data.train_partitions=news,dance"], ["as in data.train_partitions=[news,dance]"]),
    (["seed=0,1"], ["add -m", "as in seed=[0,1]"]),
    (["seed=x"], ["as in seed=[0,1]"]),
    (["benchmark.modes=tv+tag"], ["as in benchmark.modes=[tv+tag]"]),
    (["benchmark.ks=[1,1]"], ["benchmark.ks=[1, 1]", "different"]),
    (["benchmark.bootstrap=20"], ["benchmark.bootstrap=20", "0 (none) or a whole number >= 100"]),
    (["benchmark.bootstrap=true"], ["benchmark.bootstrap=True"]),
    (["benchmark.bootstrap=false"], ["benchmark.bootstrap=False"]),
    (["benchmark.noise=0"], ["benchmark.noise=0", "> 0 and <= 0.5, or null"]),
    (["benchmark.noise=5"], ["benchmark.noise=5", "<= 0.5"]),
    (["data.fractions=[0.5,0.5,0.5]"], ["data.fractions", "sum to 1"]),
    (["data.augment.reverse=2"], ["data.augment.reverse=2", "0 to 1"]),
    (["data.workers=-1"], ["data.workers=-1"]),
    (["data.prefetch=null"], ["data.prefetch=None", "whole number"]),
    (["residency=ram", "data.workers=2"], ["residency=ram", "data.workers=2", "Leave data.workers out"]),
    (["residency=gpu", "data.workers=1"], ["residency=gpu", "data.workers=1"]),
    (["data.size=huge"], ["data.size=huge", "tiny | default"]),
    (["seed=-1"], ["seed=-1"]),
    (["run=../x"], ["run=../x", "checkpoints/"]),
    (["data=folder"], ["data=folder", "data.videos=DIR"]),
    (["data=folder", "data.videos=v", "benchmark=muvr_base"], ["data=folder", "benchmark=copies"]),
    (["experiment=s2vs_self_supervised"], ["data.videos=DIR"]),
    (["experiment=s2vs_self_supervised", "data=demo"], ["benchmark=copies", "data=folder"]),
    (["data=muvr"], ["data.annotations"]),
    (["data=muvr", "data.annotations=a"], ["data.features=STORE"]),
    (["fusion._target_=my_hed.MyHead"], ["fusion._target_=my_hed.MyHead", "'my_hed'"]),
    (["--config-dir", "nowhere"], ["--config-dir nowhere"]),
    (["resume_from=checkpoints/nope"], ["resume_from=checkpoints/nope"]),
    (["optimizer.lr=1e-3,1e-4"], ["optimizer.lr=1e-3,1e-4", "-m"]),
    (["-m", "optimizer.lr=1e-3,-1"], ["optimizer.lr=-1"]),
    (["-m", "model=s2vs,chamferr"], ["model=chamferr", "did you mean 'chamfer'"]),
    (["-m", "experiment=zero_shot,s2vs_evaclip", "model.nothing=1,2"], ["model.nothing"]),
    (["-m", "seed=1,2", "resume_from=x"], ["resume_from", "-m"]),
    (["data.kind=${nope}"], ["nope"]),
]

EVALUATE = [
    ([], ["ckpt_path=", "model=frame_max"]),
    (["model=frame_mx"], ["model=frame_mx", "did you mean 'frame_max'"]),
    (["ckpt_path=nope.ckpt"], ["ckpt_path=nope.ckpt"]),
    (["ckpt_path=x.ckpt", "model=frame_max"], ["model=", "ckpt_path="]),
    (["ckpt_path=x.ckpt", "fusion=mean"], ["fusion=", "ckpt_path="]),
    (["model=frame_max", "optimizer.lr=1"], ["optimizer.lr"]),
    (["model=frame_max", "data.batch.topics=9"], ["data.batch.topics= changes nothing here", "only training reads it"]),
    (["model=frame_max", "data.batch={topics: 9}"], ["data.batch= changes nothing here"]),
    (["model=frame_max", "data.workers=2"], ["data.workers= changes nothing here"]),
    (["model=frame_max", "trainer.precision=bf16-mixed"], ["trainer.precision= changes nothing here", "scoring_pre"]),
    (["model=frame_max", "trainer.max_epochs=2"], ["trainer.max_epochs= changes nothing here"]),
    (["scores=nope.npz"], ["scores=nope.npz", "no such file"]),
    (["scores=[nope.npz,x y.npz]"], ["scores=nope.npz", "no such file"]),
    (["scores=[]"], ["scores=[]", "one or more"]),
    (["scores=[x.npz,x.npz]"], ["scores=", "different", "x.npz is named twice"]),
    (["scores=."], ["scores=. is a folder", "it holds no .npz and no .parquet"]),
    (["ckpt_path=."], ["ckpt_path=.: this folder holds no best.ckpt", "nor does"]),
    (["model=frame_max", "benchmark.tag_mode=0.3"], ["benchmark.tag_mode", "benchmark=muvr_filter would have it"]),
    (["scores=x.npz", "model=frame_max"], ["model=", "scores=x.npz"]),
    (["scores=x.npz", "ckpt_path=x.ckpt"], ["ckpt_path=", "scores=x.npz"]),
    (["scores=x.npz", "benchmark.modes=[v]"], ["benchmark.modes=", "scores=x.npz"]),
    (["scores=x.npz", "fuse=median"], ["fuse=median", "z_mean"]),
    (["model=frame_max", "fuse=mean"], ["fuse", "scores=[a.npz,b.npz]"]),
    (["model=frame_max", "save_scores=yes"], ["save_scores=yes", "true | false"]),
    (["model=frame_max", "on_missing=ignore"], ["on_missing=ignore", "official"]),
    (["model=frame_max", "benchmark.mode=[v]"], ["benchmark.mode", "did you mean 'benchmark.modes'"]),
]


CASES = [("train.py", *case) for case in TRAIN] + [("evaluate.py", *case) for case in EVALUATE]
IN_PROCESSES = [CASES[n] for n in (0, 2, 9, 12, 15, 20, 22, 35, 44, 47, 49, 52, 53, 55)]


def as_id(value: object) -> str | None:
    return "+".join(value) if isinstance(value, list) else None


@pytest.mark.parametrize(("program", "args", "said"), CASES, ids=as_id)
def test_a_mistake_is_named(
    program: str, args: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError) as caught:
        cli.prepare(args, program.removesuffix(".py"))
    message = str(caught.value)
    assert [part for part in said if part not in message] == []
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("program", "args", "said"), IN_PROCESSES, ids=as_id)
def test_a_mistake_ends_at_once_with_one_message(
    program: str, args: list[str], said: list[str], start: Start, tmp_path: Path
) -> None:
    ended = start(program, *args)
    assert ended.code == 2, ended.err
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1
    assert [part for part in said if part not in ended.err] == []
    assert ended.out == ""
    assert not ended.imported & HEAVY
    assert list(tmp_path.iterdir()) == []


def test_a_folder_where_a_file_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("run/fold-0/best.ckpt", "one/last.ckpt", "out/scores_v.npz", "out/results.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    for setting, said in (
        ("ckpt_path=run", "try ckpt_path=run/fold-0/best.ckpt"),
        ("ckpt_path=one", "try ckpt_path=one/last.ckpt"),
        ("scores=out", "give a file (it holds scores_v.npz)"),
    ):
        with pytest.raises(ConfigError, match=re.escape(said)):
            cli.prepare([setting], "evaluate")


def test_the_traceback_is_shown_on_request(start: Start) -> None:
    ended = start("train.py", "experiment=nope", env={"MUVR_TRAIN_DEBUG": "1"})
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "ConfigError: experiment=nope" in ended.err


@pytest.mark.parametrize(
    ("program", "flag", "said"),
    [
        ("train.py", "--nope", "error: there is no flag --nope (--help lists them)"),
        (
            "evaluate.py",
            "--experiment=zero_shot",  # no short form of --experimental-rerun
            "error: there is no flag --experiment=zero_shot: a setting is written without dashes, experiment=zero_shot",
        ),
        ("evaluate.py", "--cfg=all_of_it", "error: argument --cfg/-c: invalid choice: 'all_of_it'"),
    ],
)
def test_an_unknown_flag_is_refused(program: str, flag: str, said: str, start: Start) -> None:
    ended = start(program, "experiment=zero_shot", flag)
    assert ended.code == 2
    assert ended.err.startswith(said)
    assert len(ended.err.splitlines()) == 1
    assert not ended.imported & HEAVY


@pytest.mark.parametrize(
    ("setting", "listed"),
    [
        ("optimizer.lr=1e-3,3e-4", None),
        ("model=s2vs,chamfer", None),
        ("data.views=1,2", None),
        ("optimizer.lr=interval(0.1,1)", None),
        ("benchmark.modes=v,tv", "benchmark.modes=[v,tv]"),
        ("benchmark.ks=1,5", "benchmark.ks=[1,5]"),
        ("data.fractions=0.5,0.2,0.3", "data.fractions=[0.5,0.2,0.3]"),
    ],
)
def test_a_list_is_advised_only_where_it_is_allowed(setting: str, listed: str | None, somewhere: None) -> None:
    more = ["data=folder", "data.videos=v", "benchmark=copies"] if setting.startswith("data.views") else []
    with pytest.raises(ConfigError) as caught:
        cli.prepare([*more, setting], "train")
    advice = "" if listed is None else f", or put a list in brackets, as in {listed}"
    assert str(caught.value) == f"{setting} has several values: add -m to run them in turn{advice}"
    if listed is not None:
        cli.prepare([*more, listed, "run=x"], "train")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["benchmark=muvr_qa", "answerer=coin", "data.size=tiny"], "data.size: there is no such setting (data has"),
        (["benchmark=evve", "data.size=tiny"], "data.size: there is no such setting; did you mean 'encoder.size'?"),
        (["model=frame_max", "data=muvr", "data.size=tiny"], "data=demo and data=demo_large would have it"),
        (["benchmark=muvr_qa", "answerer=coin", "answerer.nme=x"], "answerer.nme: there is no such setting (answerer"),
        (["benchmark=muvr_qa", "answerer=openai", "answerer.modl=x"], "did you mean 'answerer.model'?"),
        (["model=frame_max", "encoder.nme=x"], "did you mean 'encoder.name'?"),
    ],
)
def test_advice_is_possible(typed: list[str], said: str, somewhere: None) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        cli.prepare(typed, "evaluate")
