"""`seed=[0,1]`: a run for each seed in one process, killed and continued, and one summary of them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.test_resume import ROOT, Runs, assert_equal_values

SETTINGS = ("model.residual=false", "optimizer.lr=0.01", "benchmark.report=false", "trainer.max_epochs=1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("runs"))
    runs.settings += SETTINGS
    return runs


@pytest.fixture(scope="module")
def both(runs: Runs) -> Path:
    done = runs.fresh("both", "seed=[0,7]", "benchmark.report=true", "benchmark.bootstrap=100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mAP / uAP (%)") == 1
    assert "trained, 2 seeds" in done.stdout
    assert "±" in done.stdout
    assert done.stderr.count("no leakage between") == 1  # the data are opened once
    return runs.folder / "checkpoints" / "both"


def test_the_summary_is_the_mean_of_the_seeds(both: Path) -> None:
    results = json.loads((both / "results.json").read_text())
    seeds = [json.loads((both / f"seed{seed}" / "results.json").read_text()) for seed in (0, 7)]
    for row, *own in zip(results["rows"], *(seed["rows"] for seed in seeds), strict=True):
        values = [other["metrics"]["mAP"] for other in own]
        assert row["metrics"]["mAP"] == pytest.approx(sum(values) / 2)
        assert row["std"]["mAP"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert results["meta"]["seed"] == [0, 7]
    listed = json.loads((both / "seeds.json").read_text())["seeds"]
    assert [(entry["seed"], entry["folder"]) for entry in listed] == [(0, "seed0"), (7, "seed7")]
    assert listed == results["meta"]["seeds"]
    assert "Means over the seeds 0, 7" in " ".join(results["meta"]["notes"])
    flat = json.loads((both / "metrics.json").read_text())
    assert flat["test/muvr_base/tv/mean/mAP"] == pytest.approx(
        next(row for row in results["rows"] if (row["mode"], row["partition"]) == ("tv", "mean"))["metrics"]["mAP"]
    )
    with (both / "per_query.csv").open(newline="") as file:
        assert {line["model"] for line in csv.DictReader(file)} == {
            "both",
            *(entry["name"] for entry in results["baselines"]),
        }
    for name in ("report.md", "report.html", "report.tex"):
        assert ("$\\pm$" if name.endswith("tex") else "±") in (both / name).read_text()


def assert_trained_alike(one: Path, other: Path) -> None:
    for name in ("best.ckpt", "last.ckpt"):
        first, second = (torch.load(run / name, map_location="cpu", weights_only=True) for run in (one, other))
        for key in ("state_dict", "optimizer_states"):
            assert_equal_values(first[key], second[key], f"{name}: {key}")
    for name in ("metrics.csv", "metrics.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_a_seed_is_the_run_of_that_seed_alone(runs: Runs, both: Path) -> None:
    alone = runs.finished("alone", "seed=7")
    assert_trained_alike(alone, both / "seed7")


@pytest.mark.slow
def test_a_seed_that_was_cut_short_goes_on_and_finished_ones_stay(runs: Runs, both: Path) -> None:
    killed = runs.fresh("cut", "seed=[0,7]", "callbacks.kill.where=batch_end", "callbacks.kill.step=2")
    assert killed.returncode < 0
    again = runs.start("resume_from=checkpoints/cut", "callbacks.kill.where=never")
    assert again.returncode == 0, again.stderr
    cut = runs.folder / "checkpoints" / "cut"
    done = (cut / "seed0" / "seed.json").stat().st_mtime_ns
    (cut / "seed7" / "seed.json").unlink()
    more = runs.start("resume_from=checkpoints/cut", "seed=[0,7,9]")
    assert more.returncode == 0, more.stderr
    assert (cut / "seed0" / "seed.json").stat().st_mtime_ns == done
    assert "seed 0 is done" in more.stderr
    for seed in (0, 7):
        assert_trained_alike(both / f"seed{seed}", cut / f"seed{seed}")
    assert "trained, 3 seeds" in more.stdout


@pytest.mark.slow
def test_seeds_are_evaluated_and_compared_as_other_runs(runs: Runs, both: Path) -> None:
    environment = {**os.environ, "MUVR_TRAIN_CACHE": str(runs.folder / "cache"), "PYTHONPATH": str(ROOT)}
    commands = [
        [str(ROOT / "evaluate.py"), f"ckpt_path={both / 'seed7' / 'best.ckpt'}", "out=seven", "benchmark.report=false"],
        ["-m", "muvr_train.reports.compare", f"{both}:frame_max", str(both), "--json"],
    ]
    done = [
        subprocess.run(
            [sys.executable, *command], cwd=runs.folder, env=environment, capture_output=True, text=True, check=False
        )
        for command in commands
    ]
    assert [ended.returncode for ended in done] == [0, 0], [ended.stderr for ended in done]
    evaluated, own = (
        json.loads((folder / "metrics.json").read_text()) for folder in (runs.folder / "seven", both / "seed7")
    )
    assert evaluated == pytest.approx(own, abs=1e-6)
    assert json.loads(done[1].stdout)["rows"]
