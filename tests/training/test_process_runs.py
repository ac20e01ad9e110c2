"""train.py and evaluate.py in several processes, started as users start them; killed, stopped, resumed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from muvr_train.runner.processes import _how_to_go_on
from tests.interrupts import hear_interrupts
from tests.toy import make_toy
from tests.training.test_resume import assert_equal_runs

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Runs:
    """Programs in a folder of their own, on toy data, with one thread in each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        annotations, features = make_toy(folder / "data")
        self.data = ["data=muvr", "encoder=demo", f"data.annotations={annotations}", f"data.features={features}"]
        self.settings = [
            *("experiment=s2vs_evaclip", *self.data, "logger=csv", "callbacks.progress_bar=false"),
            *("data.batch.topics=3", "trainer.max_epochs=2", "trainer.steps_per_epoch=4", "trainer.accumulate=2"),
            *("trainer.every_n_epochs=1", "trainer.checkpoint_every_n_steps=2", "callbacks.log_every_n_steps=1"),
            *("data.augment.noise=0.5", "benchmark.report=false"),
        ]
        configs = folder / "my_configs" / "callbacks"
        configs.mkdir(parents=True)
        (configs / "moment.yaml").write_text(
            "defaults:\n  - default\n\nmoment:\n  _target_: tests.training.moments.At\n"
            "  step: 3\n  rank: 1\n  what: nothing\n"
        )

    def begin(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "MASTER_"))}
        more = {"OMP_NUM_THREADS": "1", "MUVR_TRAIN_CACHE": str(self.folder / "cache"), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env={**clean, **more, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )

    def end(self, process: subprocess.Popen[str], limit: float = 180) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=limit)
        return process.returncode, out, err

    def train(self, name: str, *settings: str, **environment: str) -> tuple[int, str, str]:
        command = [str(ROOT / "train.py"), "--config-dir", "my_configs", *self.settings, f"run={name}", *settings]
        return self.end(self.begin(*command, **environment))

    def values(self, name: str) -> dict[tuple[str, str], float]:
        with (self.folder / "checkpoints" / name / "metrics.csv").open(newline="") as file:
            return {(row["step"], row["name"]): float(row["value"]) for row in csv.DictReader(file)}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def assert_same_values(runs: Runs, one: str, other: str) -> None:
    first, second = runs.values(one), runs.values(other)
    assert first.keys() == second.keys()
    assert any(name.startswith("val/") and step == "8" for step, name in first)
    for (step, name), value in first.items():
        metric = name.startswith(("val/", "zero_shot"))
        allowed = 1e-9 if metric else 1e-5 * max(1.0, abs(value))
        assert abs(second[step, name] - value) <= allowed, (step, name, value, second[step, name])


def assert_same_metrics(runs: Runs, one: str, other: str) -> None:
    first, second = (
        json.loads((runs.folder / "checkpoints" / run / "metrics.json").read_text()) for run in (one, other)
    )
    assert first == pytest.approx(second, abs=1e-9)
    tables = []
    for run in (one, other):
        with (runs.folder / "checkpoints" / run / "per_query.csv").open(newline="") as file:
            tables.append(list(csv.DictReader(file)))
    assert len(tables[0]) == len(tables[1]) > 0
    for left, right in zip(*tables, strict=True):
        assert left["query"] == right["query"]
        assert float(left["AP"]) == pytest.approx(float(right["AP"]), abs=1e-9)


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_is_the_same_in_any_number_of_processes(runs: Runs, count: int) -> None:
    code, out, err = runs.train("one", "trainer=cpu")
    assert code == 0, err
    code, several_out, err = runs.train("several", "trainer=ddp_cpu", f"trainer.devices={count}")
    assert code == 0, err
    assert_same_values(runs, "one", "several")
    assert several_out.splitlines()[1:] == out.splitlines()[1:]  # one final table, under the name of each run
    assert "Warning" not in err
    assert_same_metrics(runs, "one", "several")
    tables = []
    for trainer in (["trainer=cpu"], ["trainer=ddp_cpu", f"trainer.devices={count}"]):
        code, table, err = runs.end(
            runs.begin(str(ROOT / "evaluate.py"), "ckpt_path=checkpoints/several/best.ckpt", *trainer)
        )
        assert code == 0, err
        tables.append(table)
    assert tables[0] == tables[1]


def test_all_parameters_of_a_fusion_head_are_the_same_in_two_processes(runs: Runs) -> None:
    """Under InfoNCE, which does not see biases: these stay 0, instead of following rounding errors."""
    runs.settings[0] = "experiment=fusion_gated"
    weights = []
    for name, trainer in (("one", "cpu"), ("several", "ddp_cpu")):
        code, _, err = runs.train(name, f"trainer={trainer}")
        assert code == 0, err
        assert err.count("not trained, as no loss of this run sees what they do: head.bias") == 1
        file = runs.folder / "checkpoints" / name / "last.ckpt"
        weights.append(torch.load(file, map_location="cpu", weights_only=True)["state_dict"])
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=0, atol=1e-5, msg=name)
    assert all(float(weights[0][f"retriever.head.bias.{part}"]) == 0.0 for part in ("video", "text"))
    assert float(weights[0]["retriever.head.log_scale.text"]) != 0.0


def test_averaged_weights_and_a_teacher_are_the_same_in_two_processes(runs: Runs) -> None:
    code, _, err = runs.train("fine", "trainer=cpu", "trainer.max_epochs=1")
    assert code == 0, err
    taught = ["trainer.ema=0.9", "loss=distillation", "teacher=checkpoints/fine", "model.base=frame_max"]
    for name, trainer in (("one", "cpu"), ("several", "ddp_cpu")):
        code, _, err = runs.train(name, f"trainer={trainer}", *taught)
        assert code == 0, err
    assert_same_values(runs, "one", "several")
    assert_same_metrics(runs, "one", "several")


def test_torchrun_and_resume_are_bit_equal(runs: Runs) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29533"]
    base = [str(ROOT / "train.py"), "--config-dir", "my_configs"]
    several = ["trainer=ddp_cpu", "callbacks=moment"]
    assert runs.train("whole", *several)[0] == 0
    code, _, err = runs.end(runs.begin(*launcher, *base, *runs.settings, *several, "run=torchrun"))
    assert code == 0, err
    assert_equal_runs(runs.folder / "checkpoints" / "whole", runs.folder / "checkpoints" / "torchrun")
    code, _, _ = runs.train("killed", *several, "callbacks.moment.what=kill", "callbacks.moment.rank=0")
    assert code != 0
    code, _, err = runs.end(runs.begin(*base, "resume_from=checkpoints/killed", "callbacks.moment.what=nothing"))
    assert code == 0, err
    assert_equal_runs(runs.folder / "checkpoints" / "whole", runs.folder / "checkpoints" / "killed")


def test_tasks_of_slurm(runs: Runs) -> None:
    """Two tasks as srun starts them (a simulation: their variables, no SLURM)."""
    base = [str(ROOT / "train.py"), *runs.settings]
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}
    job |= {"SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_NODELIST": "127.0.0.1"}
    started = [
        runs.begin(*base, "trainer=ddp_cpu", "run=slurm", **job, SLURM_PROCID=str(task), SLURM_LOCALID=str(task))
        for task in (0, 1)
    ]
    ends = [runs.end(process) for process in started]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert ends[0][1].count("trained") > 0
    assert not ends[1][1]
    assert runs.train("one", "trainer=cpu")[0] == 0
    assert_same_values(runs, "one", "slurm")


def test_jobs_of_submitit(runs: Runs) -> None:
    """Two jobs of one sweep, by submitit's local executor."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    # One folder for all jobs: submitit's local executor starts a job before it makes the folder of that job (%j).
    launcher = ["hydra/launcher=submitit_local", "hydra.launcher.submitit_folder=jobs"]
    command = [str(ROOT / "train.py"), "-m", *launcher, *runs.settings, "trainer=cpu", "seed=1,2"]
    code, _, err = runs.end(runs.begin(*command, "run=sweep"))
    assert code == 0, err
    for job in (0, 1):
        assert (runs.folder / "checkpoints" / f"sweep_{job}" / "results.json").is_file()


@pytest.mark.parametrize("busy", [0, 14])
def test_a_process_that_dies_ends_the_run_with_a_message(runs: Runs, busy: int) -> None:
    code, out, err = runs.train(
        "lost", "trainer=ddp_cpu", "callbacks=moment", "callbacks.moment.what=kill", f"+callbacks.moment.busy={busy}"
    )
    assert code == 1, err
    assert not out
    assert "process 0 of 2 has lost the others: process 1 was ended by SIGKILL. The log files" in err
    assert "resume_from=checkpoints/lost" in err
    assert ("error: process 1 was ended by SIGKILL, so the run ends at its next step" in err) == bool(busy)
    assert "Traceback" not in err
    assert not processes_in(runs.folder)


def test_the_others_speak_when_the_first_process_dies(runs: Runs) -> None:
    code, _, err = runs.train(
        "lost", "trainer=ddp_cpu", "callbacks=moment", "callbacks.moment.what=kill", "callbacks.moment.rank=0"
    )
    assert code == -9
    assert "error in process 1: process 1 of 2 has lost the others: one of them has ended" in err
    assert not processes_in(runs.folder)


@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_one_process_is_shown_and_kept(runs: Runs, rank: int) -> None:
    moment = ["callbacks=moment", "callbacks.moment.what=raise", f"callbacks.moment.rank={rank}"]
    code, _, err = runs.train("lost", "trainer=ddp_cpu", *moment)
    assert code == 1
    assert ("error in process 1: only here" if rank else "error: only here") in err
    assert err.count("only here") == 1
    assert ("process 1 has ended with an error of its own" in err) == bool(rank)
    logs = [runs.folder / "checkpoints" / "lost" / name for name in ("train.log", "train_ddp_process_1.log")]
    assert "DataError: only here" in logs[rank].read_text()
    assert "hangs" not in err
    assert not processes_in(runs.folder)


def test_a_process_that_hangs_ends_the_run_with_a_message(runs: Runs) -> None:
    code, out, err = runs.train(
        "lost", "trainer=ddp_cpu", "callbacks=moment", "callbacks.moment.what=stop", "trainer.timeout=20"
    )
    assert code == 1
    assert not out
    assert "has lost the others: one of them gave no answer for 20 seconds" in err
    assert "resume_from=checkpoints/lost" in err
    assert "Traceback" not in err
    assert not processes_in(runs.folder)


@pytest.mark.parametrize(("sent", "ends"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupted_run_says_how_to_go_on(runs: Runs, sent: signal.Signals, ends: int, count: int) -> None:
    moment = ["callbacks=moment", "callbacks.moment.what=stop", "callbacks.moment.rank=5", "+callbacks.moment.busy=60"]
    command = [
        str(ROOT / "train.py"),
        "--config-dir",
        "my_configs",
        *runs.settings,
        "run=x",
        "trainer=ddp_cpu",
        f"trainer.devices={count}",
        *moment,
    ]
    process = runs.begin(*command)
    log = runs.folder / "checkpoints" / "x" / "metrics.csv"
    until = time.monotonic() + 120
    while not (log.exists() and "train/loss" in log.read_text()) and time.monotonic() < until:
        time.sleep(0.2)
    process.send_signal(sent)
    code, _, err = runs.end(process)
    assert code == ends
    saved = (log.parent / "last.ckpt").exists()
    advice = (
        "Go on with resume_from=checkpoints/x." if saved else "No checkpoint was saved yet: resume_from=checkpoints/x"
    )
    assert f"interrupted. {advice}" in err
    assert not processes_in(runs.folder)


def test_the_advice_does_not_promise_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    assert _how_to_go_on(tmp_path).startswith(" No checkpoint was saved yet: resume_from=")
    (tmp_path / "seed1").mkdir()
    (tmp_path / "best.ckpt").touch()
    assert "starts again at step 0" in _how_to_go_on(tmp_path)
    (tmp_path / "seed1" / "last.ckpt").touch()
    assert _how_to_go_on(tmp_path) == f" Go on with resume_from={tmp_path}."


def test_batch_norm_of_a_users_own_network_is_refused(runs: Runs) -> None:
    (runs.folder / "normed.py").write_text(
        "from torch import nn\nfrom muvr_train.models.s2vs import S2VS\n\n\nclass Normed(S2VS):\n"
        "    def __init__(self, dim, regions=1, **more):\n        super().__init__(dim, regions, **more)\n"
        "        self.norm = nn.BatchNorm1d(dim)\n"
    )
    code, _, err = runs.train("normed", "trainer=ddp_cpu", "model._target_=normed.Normed")
    assert code == 2
    assert err.count("the model has batch norm (network.norm)") == 1


def test_folds_and_self_supervised_runs_are_the_same_too(runs: Runs) -> None:
    folds = ["benchmark.folds=3", "trainer.max_epochs=1", "trainer.steps_per_epoch=2", "trainer.accumulate=1"]
    for name, trainer in (("one", "cpu"), ("several", "ddp_cpu")):
        code, _, err = runs.train(name, *folds, f"trainer={trainer}")
        assert code == 0, err
    assert_same_metrics(runs, "one", "several")
    for name, trainer in (("own", "cpu"), ("others", "ddp_cpu")):
        code, _, err = runs.train(name, "data.regime=self_supervised", f"trainer={trainer}")
        assert code == 0, err
    assert_same_values(runs, "own", "others")


def processes_in(folder: Path) -> list[str]:
    """Programs that still work in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == str(folder):
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue
    return found


def test_missing_features_are_reported_once(runs: Runs) -> None:
    removed = sorted((runs.folder / "data").rglob("*.npy"))[0]
    removed.unlink()
    code, _, err = runs.train("missing", "trainer=ddp_cpu")
    assert code == 1
    assert err.count("error") == 1, err
    assert "Traceback" not in err


def test_a_launcher_and_the_settings_must_agree(runs: Runs) -> None:
    code, _, err = runs.train("x", "trainer=cpu", WORLD_SIZE="2", RANK="0", LOCAL_RANK="0")
    assert code == 2
    assert "a launcher started 2 processes, but trainer.devices=1" in err
    assert not (runs.folder / "checkpoints" / "x").exists()
