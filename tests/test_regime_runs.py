"""Runs of the self-supervised and the joint regime on annotated data, with stored views, killed and continued."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from muvr_train.features.writer import StoreWriter
from tests.training.test_resume import Runs, assert_equal_runs

SETTINGS = ("benchmark.report=false", "data.soft_mixing=0.5", "data.train_partitions=[news]")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("runs"))
    runs.settings += SETTINGS
    return runs


def logged(folder: Path) -> dict[tuple[int, str], float]:
    with (folder / "metrics.csv").open(newline="") as file:
        return {(int(row["step"]), row["name"]): float(row["value"]) for row in csv.DictReader(file)}


@pytest.mark.slow
def test_a_joint_run_alternates_and_a_killed_one_ends_bit_equal(runs: Runs) -> None:
    joint = ("data.regime=joint", "data.joint_share=0.5", "data.mining.every_n_epochs=1", "data.mining.per_query=1")
    whole = runs.finished("whole", *joint)
    values = logged(whole)
    skipped = [values[step, "train/skipped/infonce_text"] for step in range(1, 9)]
    assert sorted(skipped) == [0.0] * 4 + [6.0] * 4  # batches of 3 pairs of views have no text
    assert all(one != other for one, other in itertools.pairwise(skipped))
    assert json.loads((whole / "results.json").read_text())["meta"]["protocol"]["transductive"] is True
    runs.settings += joint
    assert_equal_runs(whole, runs.killed_and_continued("killed", "batch_end", 4))


@pytest.mark.slow
def test_annotated_data_without_their_labels_and_with_stored_views(runs: Runs, tmp_path: Path) -> None:
    """The same features as a store of its own, once with an edited view of each video."""
    features = runs.folder / "data" / "features"
    rng = np.random.default_rng(0)
    losses = []
    for name in ("plain", "views"):
        with StoreWriter(tmp_path / name, {"encoder": "toy"}, dtype="float32") as writer:
            for path in sorted(features.glob("*/*.npy")):
                key, frames = f"{path.parent.name}/{path.stem}", np.load(path)[:, None]
                writer.add(key, frames)
                if name == "views":
                    writer.add(key, frames + rng.standard_normal(frames.shape, dtype=np.float32), stream="view1")
        unmined = ("data.mining.every_n_epochs=null", "data.mining.per_query=2")
        alone = ("data.regime=self_supervised", *unmined, f"data.features={tmp_path / name}")
        folder = runs.finished(f"store-{name}", *alone)
        values = logged(folder)
        losses.append([values[step, "train/loss"] for step in range(1, 9)])
        assert all(np.isfinite(losses[-1]))
    assert losses[0] != losses[1]
