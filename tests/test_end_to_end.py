"""The programs as a user runs them, on toy data in MUVR's layout, each in a process of its own."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.features.test_copies_extract import write_video
from tests.toy import make_toy

ROOT = Path(__file__).parents[1]


class Workplace:
    """A user's folder outside the repository, with toy data in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations, self.features = make_toy(folder / "data")
        self.data = ("data=muvr", f"data.annotations={self.annotations}", f"data.features={self.features}")

    def call(self, program: str, *arguments: str, time_limit: float = 120) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
        environment |= {
            "OMP_NUM_THREADS": "1",
            "MUVR_TRAIN_CACHE": str(self.folder / "cache"),
            "HOME": str(self.folder),
        }
        return subprocess.run(
            [sys.executable, *([str(ROOT / program)] if program.endswith(".py") else ["-m", program]), *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=time_limit,
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("workplace with spaces"))


@pytest.fixture(scope="module")
def run(place: Workplace) -> Path:
    done = place.call(
        *("train.py", "experiment=s2vs_evaclip", *place.data, "run=first", "data.batch.topics=3"),
        *("trainer.max_epochs=2", "trainer.steps_per_epoch=5", "trainer.every_n_epochs=1", "trainer=cpu"),
        "save_scores=true",
    )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout
    assert "frame_max whitened" in done.stdout
    assert "written for evaclip" in done.stderr
    return place.folder / "checkpoints" / "first"


@pytest.mark.slow
def test_saved_scores_of_a_training_give_its_metrics(place: Workplace, run: Path) -> None:
    scores = f"scores={run / 'scores_tv.npz'}"
    done = place.call(
        *(
            "evaluate.py",
            *place.data[:2],
            scores,
            "benchmark.split=test",
            "out=outputs/scores",
            "benchmark.report=false",
        )
    )
    assert done.returncode == 0, done.stderr
    again, first = (
        json.loads((out / "results.json").read_text())["rows"] for out in (place.folder / "outputs/scores", run)
    )
    metrics = {row["partition"]: row["metrics"] for row in first if row["mode"] == "tv"}
    assert {row["partition"] for row in again} == set(metrics)
    for row in again:
        assert row["metrics"] == pytest.approx(metrics[row["partition"]], abs=1e-9)


@pytest.mark.slow
def test_an_exported_model_gives_the_scores_of_its_checkpoint(place: Workplace, run: Path) -> None:
    checkpoint = f"ckpt_path={run / 'best.ckpt'}"
    done = place.call("muvr_train.export", checkpoint, "out=exported model")
    assert (done.returncode, done.stdout.strip()) == (0, "exported model/model.safetensors"), done.stderr
    scores = []
    for number, name in enumerate((checkpoint, "ckpt_path=exported model")):
        out = f"outputs/export-{number}"
        done = place.call(
            *("evaluate.py", name, f"out={out}", "save_scores=true", "benchmark.report=false", "benchmark.modes=[tv]")
        )
        assert done.returncode == 0, done.stderr
        with np.load(place.folder / out / "scores_tv.npz", allow_pickle=False) as file:
            scores.append({key: file[key] for key in file.files})
    assert scores[0].keys() == scores[1].keys()
    assert all(np.array_equal(value, scores[1][key]) for key, value in scores[0].items())
    refused = place.call("evaluate.py", "ckpt_path=exported model", "data.fractions=[0.2,0.2,0.6]", "out=outputs/x")
    assert refused.returncode == 2, refused.stderr


def logged(run: Path) -> dict[int, dict[str, float]]:
    rows: dict[int, dict[str, float]] = {}
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(int(row["step"]), {})[row["name"]] = float(row["value"])
    return rows


def test_step_0_has_the_untrained_rows_and_the_models_own(run: Path) -> None:
    rows = logged(run)
    assert set(rows) >= {0, 5, 10}
    own = {name.removeprefix("val/") for name in rows[0] if name.startswith("val/")}
    for name in ("zero_shot", "zero_shot_whitened"):
        assert {key.removeprefix(f"{name}/") for key in rows[0] if key.startswith(f"{name}/")} == own
    for metric in ("mAP", "uAP", *(f"recall@{k}" for k in (1, 5, 10, 200, 500, 1000, 2000))):
        assert {
            f"muvr_base/{mode}/{part}/{metric}" for mode in ("v", "t", "tv") for part in ("news", "dance", "mean")
        } <= own
    assert "val/muvr_base/tv/mean/mAP" in rows[10]


def test_an_untrained_residual_network_scores_as_its_base(run: Path) -> None:
    rows = logged(run)[0]
    assert rows["zero_shot_whitened/muvr_base/t/mean/mAP"] == pytest.approx(rows["val/muvr_base/t/mean/mAP"], abs=1e-9)


def test_what_a_run_leaves(run: Path) -> None:
    for name in ("config.yaml", "best.ckpt", "last.ckpt", "metrics.json", "results.json", "per_query.csv"):
        assert (run / name).is_file(), name
    assert (run / "similarity_map.png").read_bytes().startswith(b"\x89PNG")
    assert (run.parent / "latest").resolve() == run.resolve()
    assert list((run / "wandb").glob("offline-run-*/*.wandb"))
    meta = json.loads((run / "results.json").read_text())["meta"]
    assert meta["protocol"] == {
        "split": "test",
        "gallery": "split",
        "split_source": "topic",
        "transductive": False,
        "trained_queries_among_them": 0,
        "folds": None,
    }
    assert {"version", "time", "command", "config", "store", "ties", "on_missing", "definitions", "seed"} <= meta.keys()
    named = [row["name"] for row in json.loads((run / "results.json").read_text())["baselines"]]
    assert named[:2] == ["frame_max", "frame_max whitened"]


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluate_gives_what_training_logged(place: Workplace, run: Path, split: str) -> None:
    best = json.loads((run / "training.json").read_text())["best_step"]
    during = logged(run)[best] if split == "val" else json.loads((run / "metrics.json").read_text())
    done = place.call(
        "evaluate.py", "ckpt_path=checkpoints/first/best.ckpt", f"benchmark.split={split}", f"out=out/{split}"
    )
    assert done.returncode == 0, done.stderr
    after = json.loads((place.folder / "out" / split / "metrics.json").read_text())
    compared = {name for name in after if name.startswith(f"{split}/")}
    assert len(compared) == 3 * 3 * 9
    for name in compared:
        assert after[name] == pytest.approx(during[name], abs=1e-6), name
    meta = json.loads((place.folder / "out" / split / "results.json").read_text())["meta"]
    assert len(meta["checkpoint_sha256"]) == 64


def test_zero_shot_needs_no_training(place: Workplace) -> None:
    done = place.call("train.py", "experiment=zero_shot", *place.data, "run=zero")
    assert done.returncode == 0, done.stderr
    content = json.loads((place.folder / "checkpoints/zero/results.json").read_text())
    assert content["meta"]["protocol"]["split"] == "all"
    assert content["meta"]["protocol"]["gallery"] == "full"
    assert content["meta"]["model"] == "zero"
    assert "untrained" in done.stdout
    assert "frame_max whitened" in done.stdout


def fails(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    message = done.stderr[done.stderr.index("error: ") :]
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in message, message


@pytest.mark.slow
def test_a_store_of_another_size_than_the_checkpoint(place: Workplace, run: Path) -> None:
    _, wide = make_toy(place.folder / "wide", dim=24)
    done = place.call("evaluate.py", "ckpt_path=checkpoints/first/best.ckpt", f"data.features={wide}", "out=out/wide")
    fails(done, 1, "another size", "x 16", "x 24")


@pytest.mark.slow
def test_a_missing_store_an_empty_folder_and_no_annotations(place: Workplace) -> None:
    (place.folder / "empty").mkdir()
    annotations = f"data.annotations={place.annotations}"
    fails(place.call("evaluate.py", "model=frame_max", "data=muvr", annotations, "data.features=nowhere"), 1, "nowhere")
    fails(place.call("evaluate.py", "model=frame_max", "data=muvr", annotations, "data.features=empty"), 1, "empty")
    features = f"data.features={place.features}"
    done = place.call("evaluate.py", "model=frame_max", "data=muvr", "data.annotations=empty", features)
    fails(done, 1, "empty", "videos.json")


@pytest.mark.slow
def test_a_truncated_shard_is_named(place: Workplace) -> None:
    store = place.folder / "store"
    done = place.call("muvr_train.import_features", str(place.features), str(store))
    assert done.returncode == 0, done.stderr
    shard = next(store.glob("video-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1000])
    done = place.call("evaluate.py", "model=frame_max", *place.data[:2], f"data.features={store}")
    fails(done, 1, shard.name)


@pytest.mark.slow
def test_missing_features_are_listed_and_nothing_is_scored(place: Workplace, tmp_path: Path) -> None:
    annotations, features = make_toy(tmp_path / "holes")
    (features / "news" / "t0m0.npy").unlink()
    data = ("data=muvr", f"data.annotations={annotations}", f"data.features={features}", f"out={tmp_path / 'out'}")
    fails(place.call("evaluate.py", "model=frame_max", *data), 1, "news/t0m0", "on_missing=official")
    assert not (tmp_path / "out").exists()
    done = place.call("evaluate.py", "model=frame_max", *data, "on_missing=official")
    assert done.returncode == 0, done.stderr
    assert "missing_database 1" in done.stdout


@pytest.mark.slow
def test_training_finds_holes_before_it_starts_and_the_name_stays_free(place: Workplace, tmp_path: Path) -> None:
    annotations, features = make_toy(tmp_path / "holes")
    lost = [features / "dance" / f"t{topic}m1.npy" for topic in range(5)]
    for path in lost:
        path.unlink()
    data = ("data=muvr", f"data.annotations={annotations}", f"data.features={features}", "run=holes", "logger=csv")
    fails(place.call("train.py", *data, "debug=smoke"), 1, "dance/t", "on_missing=official")
    assert not (place.folder / "checkpoints/holes").exists()
    done = place.call("train.py", *data, "debug=smoke", "on_missing=official")
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-4] ids of the training part have no features", done.stderr)
    assert "missing_database 1" in done.stdout


@pytest.mark.slow
def test_training_topics_are_never_scored_as_test_topics(place: Workplace, run: Path) -> None:
    checkpoint = place.folder / "moved.ckpt"
    checkpoint.write_bytes((run / "best.ckpt").read_bytes())
    done = place.call(
        "evaluate.py", "ckpt_path=moved.ckpt", *place.data, "data.fractions=[0.4,0.2,0.4]", "out=out/moved"
    )
    fails(done, 2, "data.fractions=[0.4, 0.2, 0.4]", "[0.6,0.2,0.2]", "held-out")
    done = place.call("evaluate.py", "ckpt_path=moved.ckpt", *place.data, "out=out/moved")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["another spelling", "a link", "a copy"])
def test_training_topics_are_known_wherever_their_annotation_lies(place: Workplace, run: Path, way: str) -> None:
    again = place.folder / way
    again.mkdir()
    if way == "a link":
        (again / "it").symlink_to(place.annotations)
    elif way == "a copy":
        shutil.copytree(place.annotations, again / "it")
    path = place.annotations / ".." / "annotations" if way == "another spelling" else again / "it"
    data = (f"ckpt_path={run / 'best.ckpt'}", *place.data, f"data.annotations={path}", "data.fractions=[0.2,0.2,0.6]")
    quick = ("benchmark.report=false", "benchmark.bootstrap=0", "trainer=cpu")
    out = place.folder / "out" / way
    fails(place.call("evaluate.py", *data, f"out={out}", *quick), 2, "4 of the 12 queries are training queries")
    assert not out.exists()


@pytest.mark.slow
def test_an_evaluation_on_training_queries_says_so(place: Workplace, run: Path) -> None:
    quick = ("benchmark.report=false", "benchmark.bootstrap=0", "trainer=cpu")
    done = place.call("evaluate.py", f"ckpt_path={run / 'best.ckpt'}", "benchmark.split=all", "out=out/all", *quick)
    assert done.returncode == 0, done.stderr
    assert "12 of the 20 evaluated queries are training queries" in done.stderr
    assert "12 of the 20 queries were trained on" in " ".join(done.stdout.split())
    meta = json.loads((place.folder / "out/all/results.json").read_text())["meta"]
    assert meta["protocol"]["trained_queries_among_them"] == 12
    assert "12 of the 20 queries were trained on" in meta["notes"][-1]
    clean = place.call("evaluate.py", "model=frame_max", *place.data, "benchmark.gallery=full", "out=out/none", *quick)
    assert clean.returncode == 0, clean.stderr
    compared = place.call("muvr_train.reports.compare", "out/all", "out/none")
    fails(compared, 1, "different trained_queries_among_them: 12 in all, 0 in none")


@pytest.mark.slow
def test_a_checkpoint_that_does_not_know_its_queries_is_compared_by_its_config(place: Workplace, run: Path) -> None:
    content = torch.load(run / "best.ckpt", weights_only=True)
    assert len(content["muvr_train"]["trained_queries"]) == 12
    del content["muvr_train"]["trained_queries"]
    torch.save(content, place.folder / "old.ckpt")
    data = ("ckpt_path=old.ckpt", *place.data, "benchmark.report=false", "benchmark.bootstrap=0", "trainer=cpu")
    done = place.call("evaluate.py", *data, "data.fractions=[0.4,0.2,0.4]", "out=out/old")
    fails(done, 2, "data.fractions=[0.4, 0.2, 0.4]", "held-out")
    done = place.call("evaluate.py", *data, "benchmark.split=all", "out=out/old")
    assert done.returncode == 0, done.stderr
    meta = json.loads((place.folder / "out/old/results.json").read_text())["meta"]
    assert meta["protocol"]["trained_queries_among_them"] == 12


@pytest.mark.slow
def test_a_checkpoint_cannot_call_other_code(place: Workplace, run: Path) -> None:
    content = torch.load(run / "best.ckpt", weights_only=True)
    for group, node in (("model", {"_target_": "os.system"}), ("fusion", {"x": {"_target_": "os.getcwd"}})):
        recipe = {**content["muvr_train"], group: {**content["muvr_train"][group], **node}}
        torch.save({**content, "muvr_train": recipe}, place.folder / "evil.ckpt")
        done = place.call("evaluate.py", "ckpt_path=evil.ckpt", *place.data, "out=out/evil")
        fails(done, 1, "evil.ckpt", "refused")


def test_a_monitor_that_does_not_exist(place: Workplace) -> None:
    done = place.call(
        "train.py", *place.data, "run=monitor", "logger=csv", "trainer.monitor=val/muvr_base/tv/mean/nDCG"
    )
    assert done.returncode != 0
    assert "monitor" in done.stderr
    assert "mAP" in done.stderr
    assert "Traceback" not in done.stderr


def test_16_bit_training_needs_a_gpu(place: Workplace) -> None:
    done = place.call("train.py", *place.data, "run=half", "logger=csv", "trainer=cpu", "trainer.precision=16-mixed")
    fails(done, 2, "trainer.precision=16-mixed", "bf16-mixed")


@pytest.mark.slow
def test_bfloat16_training(place: Workplace) -> None:
    settings = ("run=bf16", "logger=csv", "trainer=cpu", "trainer.precision=bf16-mixed", "debug=smoke")
    done = place.call("train.py", *place.data, *settings)
    assert done.returncode == 0, done.stderr
    rows = logged(place.folder / "checkpoints/bf16")
    assert all(math.isfinite(rows[step]["train/loss"]) for step in range(1, 7))


@pytest.mark.slow
def test_the_built_in_corpus_from_an_empty_cache(tmp_path: Path) -> None:
    """Rendering, extraction, training, tables: everything that `make train` does, in small."""
    place = Workplace(tmp_path)
    done = place.call("train.py", "experiment=s2vs_evaclip", "debug=smoke", "run=smoke", time_limit=400)
    assert done.returncode == 0, done.stderr
    for partition in ("news", "others", "instance", "region", "dance"):
        assert partition in done.stdout
    assert len(list((tmp_path / "cache").rglob("*.mp4"))) > 100
    done = place.call("evaluate.py", "model=frame_max", "data.size=tiny", "out=out/raw")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_folder_of_videos_without_annotation(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    folder = tmp_path / "my videos [2026], a=b"
    folder.mkdir()
    for seed in range(12):
        write_video(folder / f"clip {seed}.mp4", seed)
    (folder / "broken.mp4").write_bytes(b"no video")
    settings = ("run=own", "logger=csv", "encoder=demo", "trainer.max_epochs=1", "trainer.steps_per_epoch=4")
    done = place.call("train.py", "experiment=s2vs_self_supervised", f"data.videos={folder}", *settings)
    assert done.returncode == 0, done.stderr
    assert "1 video of the folder is left out" in done.stderr
    meta = json.loads((tmp_path / "checkpoints/own/results.json").read_text())["meta"]
    assert meta["protocol"]["split"] == "test"
    assert meta["protocol"]["transductive"] is False
    done = place.call("evaluate.py", "ckpt_path=checkpoints/own/best.ckpt", "out=out/own")
    assert done.returncode == 0, done.stderr
    after = json.loads((tmp_path / "out/own/metrics.json").read_text())
    before = json.loads((tmp_path / "checkpoints/own/metrics.json").read_text())
    assert after == pytest.approx(before, abs=1e-6)
