"""Mined negatives in whole runs: killed and continued, with any number of batches ahead, in two processes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tests.training.test_resume import STEPS_PER_EPOCH, Runs, assert_equal_runs

pytestmark = pytest.mark.slow
MINING = (
    *("data.mining.every_n_epochs=1", "data.mining.top=6", "data.mining.per_query=2", "trainer.max_epochs=3"),
    *("benchmark.report=false", "optimizer.lr=0.01"),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("runs"))
    runs.settings += MINING
    return runs


@pytest.fixture(scope="module")
def whole(runs: Runs) -> Path:
    return runs.finished("whole")


def logged(folder: Path, name: str) -> dict[int, float]:
    with (folder / "metrics.csv").open(newline="") as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["name"] == name}


def test_a_run_killed_after_a_mining_ends_bit_equal(runs: Runs, whole: Path) -> None:
    """Killed after batch 6: the last checkpoint, of batch 6, holds the lists that were mined after batch 4."""
    assert_equal_runs(whole, runs.killed_and_continued("killed", "batch_end", STEPS_PER_EPOCH + 2))
    mined = logged(whole, "train/mining/negatives")
    assert list(mined) == [STEPS_PER_EPOCH, 2 * STEPS_PER_EPOCH]
    assert mined[STEPS_PER_EPOCH] == 6 * 12
    assert logged(whole, "train/mining/new")[STEPS_PER_EPOCH] == 6 * 12
    state = torch.load(whole / "last.ckpt", map_location="cpu", weights_only=True)["callbacks"]["MineNegatives"]
    assert all(len(videos) == 6 for videos in state["lists"].values())


@pytest.mark.parametrize(
    ("where", "step"),
    [("batch_start", STEPS_PER_EPOCH), ("saving", STEPS_PER_EPOCH - 1), ("batch_end", 2 * STEPS_PER_EPOCH - 1)],
)
def test_killed_around_a_mining(runs: Runs, whole: Path, where: str, step: int) -> None:
    assert_equal_runs(whole, runs.killed_and_continued(f"killed-{where}-{step}", where, step))


def test_batches_do_not_depend_on_how_many_are_prepared_ahead(runs: Runs, whole: Path) -> None:
    assert_equal_runs(whole, runs.finished("ahead", "data.prefetch=7"))


def test_nothing_is_prepared_ahead(runs: Runs, whole: Path) -> None:
    assert_equal_runs(whole, runs.finished("none-ahead", "data.prefetch=0"))


def test_mined_videos_come_into_force_with_the_next_batch(runs: Runs, whole: Path) -> None:
    plain = runs.finished("plain", "data.mining.every_n_epochs=null", "data.mining.top=20")
    name = "train/negatives_per_query"
    with_lists, without = logged(whole, name), logged(plain, name)
    first = range(1, STEPS_PER_EPOCH + 1)
    assert [with_lists[step] for step in first] == [without[step] for step in first]
    later = range(STEPS_PER_EPOCH + 1, 3 * STEPS_PER_EPOCH + 1)
    assert all(with_lists[step] > without[step] for step in later)


def test_two_processes_mine_the_same(runs: Runs) -> None:
    settings = ("model.batch_norm=false", "model.residual=true", "optimizer.lr=0.0005")
    one = runs.finished("one", *settings)
    two = runs.finished("two", *settings, "trainer=ddp_cpu", "trainer.devices=2")
    for name in ("train/mining/negatives", "train/mining/new"):
        assert logged(one, name) == logged(two, name)
    first, second = logged(one, "train/loss"), logged(two, "train/loss")  # the head's biases are noise to it
    assert [second[step] for step in first] == pytest.approx(list(first.values()), rel=1e-5)
    mined = [
        torch.load(run / "last.ckpt", map_location="cpu", weights_only=True)["callbacks"]["MineNegatives"]
        for run in (one, two)
    ]
    assert mined[0] == mined[1]
