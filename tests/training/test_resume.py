"""Runs that are killed with SIGKILL go on with resume_from= and end bit-equal to one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from muvr_train.training.averaging import TRAINED
from tests.toy import make_toy

ROOT = Path(__file__).parents[2]
STEPS_PER_EPOCH, EPOCHS, ACCUMULATE = 4, 2, 2
LAST = STEPS_PER_EPOCH * EPOCHS - 1


OWN_LOSS = """
import torch
from muvr_train.losses.infonce import InfoNCELoss

class Shifted(InfoNCELoss):
    def __init__(self, on):
        super().__init__(on=on, temperature=0.1)
        self.shift = torch.nn.Parameter(torch.zeros(()))
"""


class Runs:
    """Starts train.py in a folder of its own, on toy data, with batch norm, clipping, accumulation and two epochs."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self.folder, self.threads = folder, threads
        annotations, features = make_toy(folder / "data")
        configs = folder / "my_configs" / "callbacks"
        configs.mkdir(parents=True)
        (configs / "killer.yaml").write_text(
            "defaults:\n  - default\n\nkill:\n  _target_: tests.training.killer.KillAt\n  where: never\n  step: 0\n"
        )
        self.settings = [
            *(
                "experiment=s2vs_evaclip",
                "data=muvr",
                "encoder=demo",
                "logger=csv",
                "callbacks=killer",
                "callbacks.progress_bar=false",
            ),
            *(f"data.annotations={annotations}", f"data.features={features}", "model.batch_norm=true"),
            *("model.residual=false", "data.batch.topics=3", "data.batch.queries_per_topic=1"),
            *(f"trainer.max_epochs={EPOCHS}", f"trainer.steps_per_epoch={STEPS_PER_EPOCH}", "trainer=cpu"),
            *("trainer.every_n_epochs=1", "trainer.checkpoint_every_n_steps=2", f"trainer.accumulate={ACCUMULATE}"),
            *("callbacks.log_every_n_steps=1", "data.augment.noise=0.5", "data.augment.frame_mixing=0.5"),
        ]

    def start(self, *settings: str) -> subprocess.CompletedProcess[str]:
        threads = {"OMP_NUM_THREADS": str(self.threads), "MUVR_TRAIN_CACHE": str(self.folder / "cache")}
        environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(ROOT / "train.py"), "--config-dir", "my_configs", *settings]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def fresh(self, name: str, *settings: str) -> subprocess.CompletedProcess[str]:
        return self.start(*self.settings, f"run={name}", *settings)

    def finished(self, name: str, *settings: str) -> Path:
        done = self.fresh(name, *settings)
        assert done.returncode == 0, done.stderr
        return self.folder / "checkpoints" / name

    def killed_and_continued(self, name: str, where: str, step: int) -> Path:
        killed = self.fresh(name, f"callbacks.kill.where={where}", f"callbacks.kill.step={step}")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        resumed = self.start(f"resume_from=checkpoints/{name}", "callbacks.kill.where=never")
        assert resumed.returncode == 0, resumed.stderr
        return self.folder / "checkpoints" / name


def assert_equal_runs(one: Path, other: Path) -> None:
    for name in ("last.ckpt", "best.ckpt"):
        first, second = (torch.load(run / name, map_location="cpu", weights_only=True) for run in (one, other))
        for key in ("state_dict", "optimizer_states", "lr_schedulers", TRAINED):
            assert_equal_values(first.get(key), second.get(key), f"{name}: {key}")
    for name in ("metrics.csv", "metrics.json", "per_query.csv"):
        assert (one / name).read_bytes().replace(one.name.encode(), b"RUN") == (
            (other / name).read_bytes().replace(other.name.encode(), b"RUN")
        ), name


def assert_equal_values(one: Any, other: Any, where: str) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            assert_equal_values(value, other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal_values(a, b, f"{where}[{place}]")
    else:
        assert one == other, where


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def whole(runs: Runs) -> Path:
    return runs.finished("whole")


MOMENTS = [
    ("batch_end", 2),  # mid-epoch, one batch after a checkpoint
    pytest.param("batch_start", 0, marks=pytest.mark.slow),  # in the first batch: nothing is saved yet
    pytest.param("batch_start", STEPS_PER_EPOCH, marks=pytest.mark.slow),  # first batch of an epoch
    pytest.param("batch_end", LAST, marks=pytest.mark.slow),  # in the last batch
    pytest.param("evaluation", STEPS_PER_EPOCH - 1, marks=pytest.mark.slow),  # during validation
    pytest.param("evaluation", LAST, marks=pytest.mark.slow),  # during the last validation
    pytest.param("saving", STEPS_PER_EPOCH - 1, marks=pytest.mark.slow),  # validated and logged, not yet saved
]


@pytest.mark.parametrize(("where", "step"), MOMENTS)
def test_a_killed_run_ends_bit_equal(runs: Runs, whole: Path, where: str, step: int) -> None:
    assert_equal_runs(whole, runs.killed_and_continued(f"killed-{where}-{step}", where, step))


@pytest.mark.slow
def test_two_seeded_runs_are_equal_and_another_seed_differs(runs: Runs, whole: Path) -> None:
    assert_equal_runs(whole, runs.finished("again"))
    other = runs.finished("other-seed", "seed=1")
    assert (other / "metrics.csv").read_text() != (whole / "metrics.csv").read_text()


@pytest.mark.slow
def test_a_finished_run_goes_on_where_more_epochs_are_asked_for(runs: Runs) -> None:
    folder = runs.finished("short", "trainer.max_epochs=1")
    for epochs, last in ((2, 8), (2, 8)):  # the second time nothing is left
        done = runs.start("resume_from=checkpoints/short", f"trainer.max_epochs={epochs}")
        assert done.returncode == 0, done.stderr
        state = torch.load(folder / "last.ckpt", map_location="cpu", weights_only=True)
        assert state["callbacks"]["Progress"]["finished"] == last
    saved = folder / "config.yaml", *sorted((folder / ".hydra").iterdir())
    assert [path.name for path in saved] == ["config.yaml", "config.yaml", "hydra.yaml", "overrides.yaml"]
    assert all("max_epochs: 2" in path.read_text() for path in saved[:2])
    assert "- trainer.max_epochs=2\n" in saved[3].read_text()
    before = [path.read_bytes() for path in saved]
    (runs.folder / "own_loss.py").write_text(OWN_LOSS)
    mine = ("+loss.losses.mine._target_=own_loss.Shifted", "+loss.losses.mine.on=fused")
    for refused, code, message in (
        (("fusion=gated",), 2, "error: fusion=gated: checkpoints/short was begun with fusion._target_="),
        (mine, 1, "error: resume_from: the checkpoint's weights do not fit"),
    ):
        failed = runs.start("resume_from=checkpoints/short", "trainer.max_epochs=3", *refused)
        assert failed.returncode == code, failed.stderr
        assert message in failed.stderr
        assert "Traceback" not in failed.stderr
        assert [path.read_bytes() for path in saved] == before


@pytest.mark.slow
def test_averaged_weights_go_on_too(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.settings.append("trainer.ema=0.9")
    whole = runs.finished("whole")
    assert_equal_runs(whole, runs.killed_and_continued("killed", "saving", STEPS_PER_EPOCH - 1))
    last = torch.load(whole / "last.ckpt", map_location="cpu", weights_only=True)
    name = "retriever.network.head.fconv.weight"
    assert not torch.equal(last["state_dict"][name], last[TRAINED][name])


@pytest.mark.slow
def test_with_two_threads_and_two_workers(tmp_path: Path) -> None:
    runs = Runs(tmp_path, threads=2)
    runs.settings.append("data.workers=2")
    assert_equal_runs(runs.finished("whole"), runs.killed_and_continued("killed", "batch_end", 5))


def test_two_runs_into_one_folder_are_refused(runs: Runs, whole: Path) -> None:
    before = (whole / "metrics.csv").read_bytes()
    again = runs.fresh("whole")
    assert again.returncode == 2
    assert "run=whole" in again.stderr
    assert "resume_from" in again.stderr
    assert (whole / "metrics.csv").read_bytes() == before


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named(runs: Runs, whole: Path) -> None:
    copy = runs.folder / "checkpoints" / "damaged"
    copy.mkdir()
    (copy / ".hydra").symlink_to(whole / ".hydra")
    (copy / "last.ckpt").write_bytes((whole / "last.ckpt").read_bytes()[:5000])
    failed = runs.start("resume_from=checkpoints/damaged")
    assert failed.returncode == 1
    assert "last.ckpt" in failed.stderr
    assert "damaged" in failed.stderr
