"""Labels of your own as a user runs them: evaluation, training, a checkpoint, and clips that are extracted first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.table import read_table
from muvr_train.benchmarks.types import Benchmark
from muvr_train.evaluation import Protocol, evaluate
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from tests.tables import write_csv, write_table
from tests.toy import make_toy

ROOT = Path(__file__).parents[1]
SHORT = (
    *("data.batch.topics=3", "trainer.max_epochs=1", "trainer.steps_per_epoch=4", "trainer.every_n_epochs=1"),
    *("trainer=cpu", "logger=csv"),
)


def call(folder: Path, *arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MUVR_TRAIN_CACHE": str(cache or folder / "cache")}
    program = [str(ROOT / arguments[0])] if arguments[0].endswith(".py") else ["-m", arguments[0]]
    return subprocess.run(
        [sys.executable, *program, *arguments[1:]],
        cwd=folder,
        env={**environment, "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {(row["mode"], row["partition"]): row for row in content["rows"]}


@pytest.mark.parametrize("partition", ["news", "others", "instance", "region", "dance"])
def test_muvr_as_a_table_has_the_official_numbers(partition: str, shared: Path, tmp_path: Path) -> None:
    """But for one meaning: a query whose list of matches is empty, or holds itself, is official's alone."""
    small = shared / "golden/muvr_small"
    golden = json.loads((small / "golden.json").read_text())["toyclip"]
    import_muvr(small / "features/toyclip", tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    original = read_muvr(small / "annotations", partitions=[partition])
    benchmark = read_table(write_table(tmp_path / "table", original))
    dims, protocol = store.dims, Protocol(on_missing="official", ks=(200, 500, 1000, 2000))
    results = evaluate(Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims), store, benchmark, protocol)
    for mode in ("v", "t", "tv"):
        ours, official = results.metrics(mode, partition), golden[mode]["per_topic"][partition]
        aps = [
            golden[mode]["average_precision"][partition][query.id.split("/")[1]]
            for query in benchmark.queries
            if store.has(query.video_id) and benchmark.judgement_by_query[query.id].counted
            if query.id not in original.judgement_by_query[query.id].positives
        ]
        if partition in ("news", "others", "instance"):
            assert ours["uAP"] == pytest.approx(official["uAP"], abs=1e-9)
            assert ours["mAP"] == pytest.approx(official["mAP"], abs=1e-9)
        found = [row for row in results.per_query if row["mode"] == mode and row["counted"]]
        same = [row["AP"] for row in found if row["query"] not in original.judgement_by_query[row["query"]].positives]
        assert sorted(same) == pytest.approx(sorted(aps), abs=1e-9)


def two_queries_a_video(benchmark: Benchmark) -> Benchmark:
    """Let the second query of every topic show the video of the first, and give all queries other ids."""
    partitions = []
    for partition in benchmark.partitions:
        shown: dict[str, str] = {}
        queries = tuple(
            replace(query, id=f"ask {number} ü", video=shown.setdefault(query.topic, query.id))
            for number, query in enumerate(partition.queries, start=100 * len(partitions))
        )
        new = {old.id: query.id for old, query in zip(partition.queries, queries, strict=True)}
        judgements = tuple(replace(row, query=new[row.query]) for row in partition.judgements)
        partitions.append(replace(partition, queries=queries, judgements=judgements))
    return replace(benchmark, partitions=tuple(partitions))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with `labels` and `store`, where the text of each query lies under its own id."""
    folder = tmp_path_factory.mktemp("user")
    annotations, features = make_toy(folder / "data")
    original = read_muvr(annotations)
    benchmark = two_queries_a_video(original)
    write_table(folder / "labels", benchmark)
    import_muvr(features, folder / "imported")
    imported = FeatureStore(folder / "imported")
    with StoreWriter(folder / "store", imported.manifest | {"encoder": "toy"}, "float32") as writer:
        for video in imported.ids():
            writer.add(video, imported.array(video))
        for old, query in zip(original.queries, benchmark.queries, strict=True):
            writer.add(query.id, imported.array(old.id, "text"), "text")
    return folder


def test_evaluation(toy: Path) -> None:
    done = call(toy, "evaluate.py", "model=frame_max", "data=table", "data.annotations=labels", "data.features=store",
                "out=results")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = rows(toy / "results")
    assert set(found) == {(mode, part) for mode in ("v", "t", "tv") for part in ("news", "dance", "mean")}
    assert found["tv", "mean"]["benchmark"] == "table"
    assert found["tv", "mean"]["counts"]["queries"] == 20
    assert found["tv", "mean"]["counts"]["database"] == 80
    meta = json.loads((toy / "results" / "results.json").read_text(encoding="utf-8"))["meta"]
    assert meta["protocol"]["gallery"] == "full"
    # A query's video decides v; two queries of one video differ in t alone.
    per_query = [
        line.split(",") for line in (toy / "results" / "per_query.csv").read_text(encoding="utf-8").splitlines()
    ]
    where = {name: column for column, name in enumerate(per_query[0])}
    values: dict[str, list[tuple[str, str]]] = {}
    for row in per_query[1:]:
        values.setdefault(row[where["mode"]], []).append((row[where["topic"]], row[where["AP"]]))
    assert max(Counter(values["v"]).values()) == 2
    assert len(set(values["t"])) > 10


@pytest.mark.slow
def test_training_and_its_checkpoint(toy: Path) -> None:
    named = ("data=table", "data.annotations=labels", "data.features=store")
    done = call(toy, "train.py", "experiment=s2vs_evaclip", *named, *SHORT, "run=first")
    assert done.returncode == 0, done.stderr
    assert "val/table/tv/mean/mAP" in (toy / "checkpoints/first/training.json").read_text()
    again = call(toy, "evaluate.py", "ckpt_path=checkpoints/first/best.ckpt", "out=again")
    assert again.returncode == 0, again.stderr
    trained, evaluated = rows(toy / "checkpoints/first"), rows(toy / "again")
    assert trained.keys() == evaluated.keys()
    for key, row in trained.items():
        assert evaluated[key]["metrics"] == pytest.approx(row["metrics"], abs=1e-6)
    assert trained["tv", "mean"]["counts"]["database"] == 80  # the whole gallery, also for the test split


def test_a_store_of_other_videos_is_refused_with_names_of_both(toy: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels"
    labels.mkdir()
    write_csv(labels / "videos.csv", ["video"], [["mine/1"], ["mine/2"]])
    (labels / "queries.jsonl").write_text('{"id": "q", "video": "mine/1"}\n')
    write_csv(labels / "relevance.csv", ["query", "video", "label"], [("q", "mine/2", 1)])
    done = call(
        toy, "evaluate.py", "model=frame_max", "data=table", f"data.annotations={labels}", "data.features=store"
    )
    assert done.returncode == 1
    assert "holds none of the 2 videos of videos.csv" in done.stderr
    assert "mine/1, mine/2; the store has dance/d0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data=table"], "data.annotations must be given"),
        (["data=table", "data.annotations=labels"], "data=table needs data.features=STORE"),
        (["data=table", "data.annotations=labels", "data.features=store", "benchmark=muvr_base"], "do not go together"),
        (["benchmark=table"], "labels of your own are data=table"),
        (["data=table", "data.annotations=labels", "data.features=store", "benchmark.modes=[x]"], "benchmark.modes"),
    ],
)
def test_mistakes_of_settings(settings: list[str], message: str, toy: Path) -> None:
    done = call(toy, "evaluate.py", "model=frame_max", *settings)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


@pytest.mark.slow
def test_clips_are_extracted_once_and_examined(shared: Path, tmp_path: Path) -> None:
    """Hand-made labels on real clips; one clip is named by a path, one by a file name, one by its column `path`."""
    clips, labels = tmp_path / "clips", tmp_path / "labels"
    (clips / "deep").mkdir(parents=True)
    labels.mkdir()
    names = ("dogs_snow", "dog_walk_street", "drummer_porch", "drummer_studio", "cat_rug", "classroom", "parking_car")
    for name in names:
        target = clips / ("deep" if name == "cat_rug" else ".") / f"{name}.mp4"
        target.symlink_to(shared / "data/clips" / f"{name}.mp4")
    videos = [(name, "") for name in names[:4]] + [("cat_rug", ""), ("classroom.mp4", ""), ("a, b", "parking_car.mp4")]
    write_csv(labels / "videos.csv", ["video", "path"], videos)
    queries = [("dogs", "dogs_snow", "dogs outdoors"), ("drums", "drummer_porch", "a person plays drums")]
    queries += [
        ("dogs too", "dogs_snow", "another dog"),
        ("room", "classroom.mp4", "people"),
        ("cat", "cat_rug", "a cat"),
    ]
    lines = [json.dumps({"id": query, "video": video, "text": text}) for query, video, text in queries]
    (labels / "queries.jsonl").write_text("\n".join(lines))
    pairs = [("dogs", "dog_walk_street", 1), ("drums", "drummer_studio", 1), ("dogs too", "cat_rug", 1)]
    pairs += [("dogs too", "dog_walk_street", -1), ("room", "a, b", 1), ("cat", "dogs_snow", 1)]
    write_csv(labels / "relevance.csv", ["query", "video", "label"], pairs)
    named = ("data=table", "data.annotations=labels", "data.videos=clips", "encoder=efficientnet_lite0")
    before = call(tmp_path, "muvr_train.check", *named[:-1])
    assert before.returncode == 0, before.stdout + before.stderr
    assert "the features are not extracted yet" in before.stdout
    done = call(tmp_path, "evaluate.py", "model=frame_max", *named, "out=results")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "results")
    assert found["v", "all"]["counts"]["queries"] == 5
    assert found["v", "all"]["counts"]["positives"] == 5
    stores = [path for path in (tmp_path / "cache/features").iterdir() if path.is_dir()]
    assert len(stores) == 1
    stamp = (stores[0] / "index.json").stat().st_mtime_ns
    again = call(tmp_path, "evaluate.py", "model=frame_max", *named, "out=again")
    assert again.returncode == 0, again.stderr
    assert rows(tmp_path / "again")["v", "all"]["metrics"] == found["v", "all"]["metrics"]
    assert (stores[0] / "index.json").stat().st_mtime_ns == stamp
    after = call(tmp_path, "muvr_train.check", *named[:-1], "--json")
    assert after.returncode == 0, after.stdout + after.stderr
    content = {entry["check"]: entry for entry in json.loads(after.stdout)["findings"] if entry["level"] == "ok"}
    assert content["store"]["values"]["encoder"] == "efficientnet_lite0"
    assert content["missing videos"]["text"] == "none, all 7 are there"
    (clips / "parking_car.mp4").unlink()
    gone = call(tmp_path, "evaluate.py", "model=frame_max", *named)
    assert gone.returncode == 1
    assert "1 videos have no file in clips: a, b (no file parking_car.mp4)" in gone.stderr
