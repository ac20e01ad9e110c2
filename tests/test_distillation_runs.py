"""Distillation from the command line: what a teacher may be, what is recorded, and a whole run."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from muvr_train import cli
from muvr_train.errors import ConfigError, DataError
from muvr_train.preflight.compose import Composer
from muvr_train.runner.classes import plain
from muvr_train.runner.data import Data, open_data
from muvr_train.runner.models import build_retriever
from muvr_train.runner.teacher import open_teacher
from tests.cli.conftest import Ended, Start, start
from tests.toy import make_toy

__all__ = ["start"]
MEAN = {"_target_": "muvr_train.models.fusion.mean.MeanFusion"}
NETWORK = {"_target_": "muvr_train.models.chamfer.Chamfer"}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    make_toy(tmp_path)
    return tmp_path


def opened(folder: Path, *more: str) -> tuple[Any, Data]:
    data = ["data=muvr", f"data.annotations={folder}/annotations", f"data.features={folder}/features"]
    cfg = Composer(cli.config_dir(), "train").compose([*data, "loss=distillation", *more])
    return cfg, open_data(cfg)


def save_teacher(path: Path, cfg: Any, data: Data, **changes: Any) -> Path:
    """A checkpoint as a run on `data` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dims = replace(data.store.dims, **changes)
    model = build_retriever(NETWORK, MEAN, dims)
    state = {f"retriever.{name}": value for name, value in model.state_dict().items()}
    recipe = {"model": NETWORK, "fusion": MEAN, "dims": asdict(dims), "encoder": data.store.manifest.get("encoder")}
    recipe |= {
        "data": plain(cfg.data),
        "benchmark": plain(cfg.benchmark),
        "trained_queries": sorted(data.trained_queries),
    }
    torch.save({"state_dict": state, "muvr_train": recipe}, path)
    return path


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_teacher_is_a_run_or_one_of_its_files(toy: Path, named: str) -> None:
    cfg, data = opened(toy)
    path = save_teacher(toy / "Läufe" / "fein, 1" / "best.ckpt", cfg, data)
    cfg.teacher = str(path.parent if named == "folder" else path)
    before = torch.get_rng_state()
    taught = open_teacher(cfg, data, "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert taught is not None
    assert taught.facts["run"] == "fein, 1"
    assert len(taught.facts["sha256"]) == 64
    assert taught.trained_queries == data.trained_queries
    assert taught.teacher.wanted == ["teacher"]
    cfg.teacher = None
    assert open_teacher(cfg, data, "cpu") is None


def test_a_teacher_that_saw_what_is_held_out_is_refused(toy: Path) -> None:
    cfg, data = opened(toy)
    cfg.teacher = str(save_teacher(toy / "fine" / "best.ckpt", cfg, data))
    other, others = opened(toy, "data.fractions=[0.2,0.2,0.6]")
    other.teacher = cfg.teacher
    with pytest.raises(ConfigError, match=r"was trained on \d+ of the \d+ queries of the (val|test) split.*would leak"):
        open_teacher(other, others, "cpu")


def test_a_teacher_of_other_features_is_refused_with_both_sizes(toy: Path) -> None:
    cfg, data = opened(toy)
    cfg.teacher = str(save_teacher(toy / "fine" / "best.ckpt", cfg, data, dim=24))
    with pytest.raises(DataError, match=r"another size.*: checkpoint .* x 24[ ,].*; store .* x 16[ ,]"):
        open_teacher(cfg, data, "cpu")
    Path(cfg.teacher).write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"^teacher=.*is no checkpoint"):
        open_teacher(cfg, data, "cpu")


def finished(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


@pytest.mark.slow
def test_a_run_learns_from_a_run_and_says_so(start: Start, tmp_path: Path) -> None:
    make_toy(tmp_path / "toy")
    env = {"MUVR_TRAIN_CACHE": str(tmp_path / "cache")}
    common = ["data=muvr", "data.annotations=toy/annotations", "data.features=toy/features", "trainer=cpu"]
    common += ["trainer.max_epochs=1", "trainer.steps_per_epoch=2", "benchmark.report=false", "data.batch.topics=3"]
    finished(start("train.py", *common, "experiment=s2vs_evaclip", "encoder=demo", "logger=csv", "run=fein ü", env=env))
    student = ["model=mean_pool", "loss=distillation", "teacher=checkpoints/fein ü", "run=grob"]
    finished(start("train.py", *common, *student, "trainer.ema=0.9", "callbacks.log_every_n_steps=1", env=env))
    folder = tmp_path / "checkpoints" / "grob"
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    facts = saved["muvr_train"]["teacher"]
    assert (facts["run"], len(facts["sha256"])) == ("fein ü", 64)
    assert json.loads((folder / "results.json").read_text())["meta"]["teacher"] == facts
    assert "train/loss/distillation" in (folder / "metrics.csv").read_text()
    assert not any("network.head" in name for name in saved["state_dict"])  # nothing of the teacher's weights
    refused = start(
        "train.py", "resume_from=checkpoints/grob", "trainer.max_epochs=2", "teacher=checkpoints/grob", env=env
    )
    assert refused.code == 2
    assert "teacher: the run was begun with {'run': 'fein ü'" in refused.err
    going_on = ["resume_from=checkpoints/grob", "trainer.max_epochs=2", "teacher=checkpoints/fein ü/best.ckpt"]
    finished(start("train.py", *going_on, env=env))
    assert "4,train/loss/distillation" in (folder / "metrics.csv").read_text()
