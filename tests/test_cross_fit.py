"""Cross-fitting: every query scored once, by a model that never saw its topic, on the full gallery."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import split_by_fold
from muvr_train.errors import DataError
from muvr_train.search.held import stack_rows
from muvr_train.search.score_files import read_scores
from muvr_train.search.scores import ScoreMatrix
from tests.test_end_to_end import Workplace
from tests.toy import PARTITIONS, QUERIES, TOPICS, make_toy

TINY = ("trainer.max_epochs=1", "trainer.steps_per_epoch=2", "trainer=cpu", "logger=csv", "data.batch.topics=2")


def test_every_topic_is_tested_once_and_validated_once(tmp_path: Path) -> None:
    benchmark = read_muvr(make_toy(tmp_path)[0])
    seen: dict[str, list[str]] = {topic: [] for topic in benchmark.topics}
    for fold in range(4):
        for topic, split in {(q.topic, q.split) for q in split_by_fold(benchmark, 4, fold).queries}:
            seen[topic].append(str(split))
    assert all(sorted(splits) == ["test", "train", "train", "val"] for splits in seen.values())


def test_folds_do_not_depend_on_the_order_of_the_annotation(tmp_path: Path) -> None:
    benchmark = read_muvr(make_toy(tmp_path)[0])
    turned = type(benchmark)(benchmark.name, tuple(reversed(benchmark.partitions)))
    first, second = (
        {query.id: query.split for query in split_by_fold(one, 3, 1).queries} for one in (benchmark, turned)
    )
    assert first == second


def test_rows_are_stacked_by_the_ids_of_the_columns() -> None:
    first = ScoreMatrix(("a",), ("x", "y"), np.array([[1.0, 2.0]]))
    second = ScoreMatrix(("b",), ("y", "x"), np.array([[3.0, 4.0]]))
    joined = stack_rows([first, second])
    assert joined.queries == ("a", "b")
    assert joined.scores.tolist() == [[1.0, 2.0], [4.0, 3.0]]
    with pytest.raises(DataError, match="different databases: z"):
        stack_rows([first, ScoreMatrix(("b",), ("y", "x", "z"), np.zeros((1, 3)))])
    with pytest.raises(DataError, match="1 query ids stand twice in the scores: a"):
        stack_rows([first, first])


@pytest.mark.slow
def test_a_cross_fitted_run_and_going_on_with_it(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    done = place.call("train.py", "experiment=s2vs_evaclip", *place.data, "run=cross", "benchmark.folds=3", *TINY)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "cross"
    results = json.loads((folder / "results.json").read_text())
    assert results["meta"]["protocol"]["split"] == "all"
    assert results["meta"]["protocol"]["trained_queries_among_them"] == 0
    assert results["meta"]["protocol"]["folds"] == 3
    assert "uAP ranks the scores of 3 models together" in results["meta"]["notes"][-1]
    assert "uAP ranks the scores of 3 models together" in " ".join(done.stdout.split())
    for fold, entry in enumerate(results["meta"]["folds"]):
        path = tmp_path / entry["checkpoint"]
        assert path == folder / f"fold-{fold}" / "best.ckpt"
        assert entry["checkpoint_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    counts = {row["partition"]: row["counts"] for row in results["rows"] if row["mode"] == "v"}
    assert counts["mean"]["queries"] == len(PARTITIONS) * TOPICS * QUERIES
    assert counts["news"]["database"] == 40  # the full gallery: 5 topics x (4 matches + 2 others), 10 distractors
    with (folder / "per_query.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "v" and row["model"] == "frame_max"]
    assert len(rows) == len({row["query"] for row in rows}) == len(PARTITIONS) * TOPICS * QUERIES

    # what a fold's checkpoint gives by evaluate.py is what the fold contributed
    held = read_scores(folder / "fold-1" / "scores_0.npz").blocks["news"]
    alone = place.call(
        *("evaluate.py", f"ckpt_path={folder / 'fold-1' / 'best.ckpt'}", "benchmark.gallery=full", "out=alone"),
        "calibration=[centring]",  # of one fold, as of any model
    )
    assert alone.returncode == 0, alone.stderr
    calibrated = json.loads((tmp_path / "alone" / "results.json").read_text())["calibrated"]
    assert [row["name"] for row in calibrated] == ["fold-1 + centring"]
    assert "centring fitted on training split (videos: " in alone.stderr
    with (tmp_path / "alone" / "per_query.csv").open() as file:
        lines = [row for row in csv.DictReader(file) if row["model"] == "fold-1" and row["mode"] == "v"]
    assert {row["query"] for row in lines if row["partition"] == "news"} == set(held.queries)
    with (folder / "per_query.csv").open() as file:
        crossed = {
            row["query"]: row["AP"] for row in csv.DictReader(file) if (row["model"], row["mode"]) == ("cross", "v")
        }
    for row in lines:
        assert float(row["AP"]) == pytest.approx(float(crossed[row["query"]]), abs=1e-6)

    # a fold that was lost is trained again, the others are kept, and nothing changes
    before = (folder / "metrics.json").read_text()
    times = {fold: (folder / f"fold-{fold}" / "fold.json").stat().st_mtime_ns for fold in range(3)}
    (folder / "fold-2" / "fold.json").unlink()
    summary = json.loads((folder / "fold-1" / "training.json").read_text())
    (folder / "fold-1" / "training.json").write_text(json.dumps({**summary, "best_step": 0}))
    again = place.call("train.py", "resume_from=cross")
    assert again.returncode == 0, again.stderr
    assert json.loads((folder / "metrics.json").read_text()) == pytest.approx(json.loads(before), abs=1e-9)
    assert [(folder / f"fold-{fold}" / "fold.json").stat().st_mtime_ns == times[fold] for fold in range(3)] == [
        True,
        True,
        False,
    ]
    notes = json.loads((folder / "results.json").read_text())["meta"]["notes"]
    steps = [json.loads((folder / f"fold-{fold}" / "training.json").read_text())["best_step"] for fold in range(3)]
    assert steps[1] == 0
    assert any(note.startswith(f"{steps.count(0)} of the 3 folds kept the untrained model") for note in notes)
    assert f"3 folds ({steps.count(0)} untrained)" in " ".join(again.stdout.split())


@pytest.mark.parametrize(
    ("program", "settings", "message"),
    [
        ("train.py", ("experiment=s2vs_evaclip", "benchmark.folds=2"), "benchmark.folds=2 is not possible"),
        ("train.py", ("experiment=s2vs_evaclip", "benchmark.fold=1"), "benchmark.fold=1 needs benchmark.folds"),
        (
            "train.py",
            ("experiment=s2vs_evaclip", "benchmark.folds=3", "benchmark.fold=3"),
            "benchmark.fold=3 needs benchmark.folds, and is 0 to folds - 1; folds is 3",
        ),
        ("train.py", ("experiment=s2vs_evaclip", "benchmark.folds=3", "benchmark.split=test"), "scores all queries"),
        ("evaluate.py", ("model=frame_max", "benchmark.folds=3"), "use train.py"),
    ],
)
def test_impossible_folds(tmp_path: Path, program: str, settings: tuple[str, ...], message: str) -> None:
    done = Workplace(tmp_path).call(program, *settings)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
def test_a_folds_checkpoint_is_never_scored_on_its_own_training_topics(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    done = place.call(
        *("train.py", "experiment=s2vs_evaclip", *place.data, "run=one", "benchmark.folds=3", "benchmark.fold=2", *TINY)
    )
    assert done.returncode == 0, done.stderr
    checkpoint = f"ckpt_path={tmp_path / 'checkpoints' / 'one' / 'best.ckpt'}"
    other = place.call("evaluate.py", checkpoint, *place.data)
    assert other.returncode == 2
    assert "benchmark.folds=None, benchmark.fold=None, but the checkpoint was trained with" in other.stderr
    advice = "benchmark.folds=3 benchmark.fold=2"
    assert f"Pass {advice}, or benchmark.split=all" in other.stderr
    place.call("evaluate.py", checkpoint, *place.data, *advice.split(), "out=advised").check_returncode()
