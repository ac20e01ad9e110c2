"""FIVR, EVVE and CC_WEB_VIDEO from the command line: features, checkpoints, score files, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.fivr import read_fivr
from muvr_train.benchmarks.published import published_rows
from muvr_train.cli import prepare
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.manifest import make_manifest
from muvr_train.features.writer import StoreWriter
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import read_scores
from tests.benchmarks.test_evve import CONTENT as EVVE
from tests.benchmarks.test_fivr import CONTENT as FIVR
from tests.benchmarks.test_fivr import SCORES
from tests.toy import make_toy

ROOT = Path(__file__).parents[1]
FRAMES, DIM = 4, 16


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Annotations, features of FIVR's toy videos (all but b), and its scores in a file."""
    folder = tmp_path_factory.mktemp("annotated")
    (folder / "annotations").mkdir()
    for name, content in (("fivr_audio", FIVR), ("evve", EVVE)):
        (folder / "annotations" / f"{name}.pickle").write_bytes(pickle.dumps(content))
    (folder / "annotations" / "fivr_easy_duplicates.txt").write_text("a\ne\n")
    rng = np.random.default_rng(0)
    with StoreWriter(folder / "store", make_manifest("toy"), "float32") as writer:
        for name in ("q1", "q2", "a", "c", "d", "e"):
            writer.add(name, rng.standard_normal((FRAMES, 1, DIM)).astype(np.float32))
    videos = list(SCORES["q1"])
    rows = np.array([[SCORES[query][video] for video in videos] for query in SCORES])
    np.savez(folder / "toy.npz", query_ids=list(SCORES), database_ids=videos, scores=rows)
    return folder


def evaluate(place: Path, *settings: str, program: str = "evaluate.py") -> subprocess.CompletedProcess[str]:
    cache = {"MUVR_TRAIN_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(ROOT / program), *settings],
        cwd=place,
        env={**os.environ, **cache},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_score_file_gives_the_hand_worked_values(place: Path) -> None:
    done = evaluate(place, "benchmark=fivr_5k", "benchmark.annotations=annotations", "scores=toy.npz", "out=of_file")
    assert done.returncode == 0, done.stderr
    rows = {row["partition"]: row for row in read(place / "of_file" / "results.json")["rows"]}
    assert list(rows) == ["DSVR", "CSVR", "ISVR", "DSVR_hard", "CSVR_hard", "ISVR_hard", "mean"]
    assert {row["benchmark"] for row in rows.values()} == {"fivr_5k"}
    assert rows["DSVR"]["metrics"]["mAP"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1 / 3) / 2, abs=1e-12)
    assert rows["DSVR_hard"]["counts"]["counted_queries"] == 1
    assert "DSVD" in done.stdout
    assert "1 annotated matches are not in its database" in done.stderr


def test_a_score_file_that_lacks_videos_says_what_the_field_does(place: Path) -> None:
    videos = [video for video in SCORES["q1"] if video != "b"]
    rows = np.array([[SCORES[query][video] for video in videos] for query in SCORES])
    np.savez(place / "lacking.npz", query_ids=list(SCORES), database_ids=videos, scores=rows)
    benchmark = read_fivr(place / "annotations", "5k")
    source = FileScores(read_scores(place / "lacking.npz"))
    with pytest.raises(
        DataError, match=r"1 database videos without a column: b\.\n.*no longer on the web: pass on_miss"
    ):
        evaluate_scores(source, benchmark)
    results = evaluate_scores(source, benchmark, Protocol(on_missing="official"))
    assert results.metrics("scores", "DSVR")["mAP"] == pytest.approx((1 / 2 + 1 / 3) / 2)


@pytest.mark.slow
def test_features_of_what_is_still_on_the_web(place: Path) -> None:
    settings = ["benchmark=fivr_5k", "benchmark.annotations=annotations/fivr_audio.pickle", "data.features=store"]
    refused = evaluate(place, *settings, "model=frame_max")
    assert refused.returncode == 1
    assert "1 videos without features: b." in refused.stderr
    assert "pass on_missing=official to evaluate on what is there" in refused.stderr
    done = evaluate(place, *settings, "model=frame_max", "on_missing=official", "out=of_model")
    assert done.returncode == 0, done.stderr
    results = read(place / "of_model" / "results.json")
    rows = {row["partition"]: row for row in results["rows"]}
    assert "DSVR_hard" not in rows  # its only match is b
    assert rows["DSVR"]["counts"]["missing_database"] == 1
    assert rows["DSVR"]["counts"]["positives"] == 2
    assert results["meta"]["config"]["data"]["kind"] == "annotated"
    assert results["meta"]["protocol"]["split"] == "all"
    assert results["meta"]["protocol"]["positives"].startswith("cut to the videos that were scored")
    assert "DSVD" in results["meta"]["notes"][0]


@pytest.mark.slow
def test_a_checkpoint_of_other_data(place: Path, tmp_path: Path) -> None:
    annotations, features = make_toy(tmp_path / "data")
    trained = evaluate(
        tmp_path,
        *(
            "data=muvr",
            f"data.annotations={annotations}",
            f"data.features={features}",
            "run=toy",
            "data.batch.topics=3",
        ),
        *("trainer=cpu", "trainer.max_epochs=1", "trainer.steps_per_epoch=1", "benchmark.report=false"),
        program="train.py",
    )
    assert trained.returncode == 0, trained.stderr
    checkpoint = tmp_path / "checkpoints" / "toy" / "last.ckpt"
    rng = np.random.default_rng(0)
    with StoreWriter(tmp_path / "store", make_manifest("toy"), "float32") as writer:
        for name in (*EVVE["queries"], *EVVE["database"]):
            writer.add(name, rng.standard_normal((FRAMES, 1, DIM)).astype(np.float32))
    where = ["benchmark=evve", f"benchmark.annotations={place / 'annotations'}", f"data.features={tmp_path / 'store'}"]
    done = evaluate(tmp_path, f"ckpt_path={checkpoint}", *where, "out=out")
    assert done.returncode == 0, done.stderr
    results = read(tmp_path / "out" / "results.json")
    assert [row["partition"] for row in results["rows"]] == ["flood", "geyser+2011", "all", "mean"]
    assert "frame_max" in done.stdout
    assert "whitened" not in done.stdout


def test_the_data_comes_with_the_benchmark() -> None:
    given = ["benchmark=evve", "benchmark.annotations=x=[y]", "model=frame_max", "data.features=f"]
    prepared = prepare(given, "evaluate")
    assert prepared.count("data=annotated") == 1
    assert prepare([*given, "data=annotated"], "evaluate").count("data=annotated") == 1
    assert "data=annotated" in prepare([*given[1:], "benchmark=fivr_5k,evve", "-m"], "evaluate")
    assert "benchmark.annotations='x=[y]'" in prepared


@pytest.mark.parametrize(
    ("program", "settings", "message"),
    [
        (
            "evaluate",
            ["benchmark=evve", "data=demo"],
            "data=demo and benchmark=evve do not go together: leave data= out",
        ),
        ("evaluate", ["benchmark=evve,muvr_base", "-m"], "these need different data, sweep one kind at a time"),
        ("evaluate", ["benchmark=evve", "model=frame_max"], "benchmark.annotations must be given"),
        (
            "evaluate",
            ["benchmark=evve", "benchmark.annotations=x"],
            "benchmark=evve needs something to evaluate: scores=",
        ),
        (
            "evaluate",
            ["data=annotated", "model=frame_max"],
            "data=annotated is of benchmark=fivr_5k, .*muvr_base has other",
        ),
        ("train", ["benchmark=fivr_200k"], "benchmark=fivr_200k is for evaluation only, it has no training part"),
        ("train", ["data=annotated"], "data=annotated is of benchmark=fivr_5k"),
    ],
)
def test_what_does_not_go_together(program: str, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(settings, program)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("benchmark.split=test", "it has no splits"),
        ("benchmark.gallery=split", "it has no splits"),
        ("benchmark.modes=[tv]", "has no mode tv; it has v"),
        ("model.whiten=true", "no training part to fit it on. A checkpoint brings its own whitening"),
        ("calibration=[centring]", "calibration: .*no training part to fit it on: give calibration_background=STORE"),
    ],
)
def test_what_needs_a_training_part(setting: str, message: str) -> None:
    given = ["benchmark=cc_web_video", "benchmark.annotations=x", "data.features=f", "model=frame_max", setting]
    with pytest.raises(ConfigError, match=message):
        prepare(given, "evaluate")


def test_published_rows() -> None:
    rows = {(row.system, row.partition): row for row in published_rows("fivr_200k")}
    assert rows["ViSiL", "DSVR"].metrics == {"mAP": 0.892}
    assert rows["DnS fine", "ISVR"].metrics == {"mAP": 0.741}
    assert rows["DnS coarse", "CSVR"].metrics == {"mAP": 0.558}
    starred = {(row.system, row.partition): row.metrics["mAP"] for row in published_rows("cc_web_video")}
    assert starred["ViSiL", "cc*"] == 0.971
    assert starred["DnS fine", "c"] == 0.995
    assert published_rows("evve") == published_rows("fivr_5k") == ()
