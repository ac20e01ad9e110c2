"""The doctor: every planted fault is found under its name, and the rest is examined all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from muvr_train import check
from muvr_train.doctor.examine import examine
from muvr_train.doctor.findings import MOST_ALIKE, Examination, Finding, spread
from muvr_train.features.manifest import make_manifest
from muvr_train.features.shards import write_shard
from muvr_train.features.store import tag_key
from muvr_train.features.writer import StoreWriter
from tests.tables import write_csv

VIDEOS = [f"v{number}" for number in range(10)]
LONG = "word " * 76  # and a start and an end make 78
Examined = Callable[..., Examination]


def write_labels(folder: Path, splits: Sequence[str] = ("train", "train", "val", "test")) -> Path:
    """Four queries of videos v0 to v3, each with the match v4 to v7; v8 and v9 are others."""
    folder.mkdir()
    write_csv(folder / "videos.csv", ["video"], [[video] for video in VIDEOS])
    queries = [
        {
            "id": f"q{n}",
            "video": f"v{n}",
            "text": text,
            "split": splits[n],
            "tags": tags,
            **({"mask": "m.png"} if n == 3 else {}),
        }
        for n, (text, tags) in enumerate([("a cat", ["+in"]), (LONG, ["-out", "in"]), ("短い文", []), (None, [])])
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    rows = [(f"q{n}", f"v{n + 4}", 1, level) for n, level in enumerate(["copy", "event", "copy", ""])]
    rows += [("q0", "v8", 0, "hard"), ("q0", "v9", 0, ""), ("q1", "v9", -1, "")]
    write_csv(folder / "relevance.csv", ["query", "video", "label", "level"], rows)
    return folder


def frames(name: str) -> np.ndarray:
    """One frame for v1, else two; the norms are 5 and 10 times (1 + number)."""
    number = int(name[1:]) + 1
    rows = np.array([[3, 4], [6, 8]], np.float32) * number
    return rows[: 1 if name == "v1" else 2, None]


def write_store(folder: Path, videos: Sequence[str] = VIDEOS, texts: Sequence[str] = ("q0", "q1", "q2")) -> Path:
    with StoreWriter(folder, make_manifest("toy", text_encoder="toy text"), "float32") as writer:
        for name in videos:
            writer.add(name, frames(name))
        for name in texts:
            writer.add(name, np.ones((1, 1, 2), np.float32), "text")
        for query, tag in (("q0", "in"), ("q1", "out")):
            writer.add(tag_key(query, tag), np.ones((1, 1, 2), np.float32), "tags")
    return folder


def replace_videos(store: Path, **changed: np.ndarray) -> None:
    """Write the shard of the videos anew with other values of some, which no writer of ours would."""
    arrays = [changed.get(name, frames(name)).astype(np.float32) for name in VIDEOS]
    write_shard(store / "video-00000.safetensors", arrays, "float32")


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examined:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))

    def run(*settings: str) -> Examination:
        return examine(check.compose(settings))

    return run


def table(annotations: Path, features: Path | None = None) -> list[str]:
    named = [] if features is None else [f"data.features={features}"]
    return ["data=table", f"data.annotations={annotations}", *named]


def texts(examination: Examination, check: str, level: str = "ok") -> list[str]:
    return [finding.shown() for finding in examination.findings if (finding.check, finding.level) == (check, level)]


def test_a_sound_data_set(examined: Examined, tmp_path: Path) -> None:
    found = examined(*table(write_labels(tmp_path / "labels"), write_store(tmp_path / "store")))
    assert found.exit_code == found.count("error") == 0
    assert texts(found, "benchmark") == ["table: 1 partition, 4 queries, 10 database videos, 4 search topics"]
    assert texts(found, "partition all") == [
        "4 queries (train 2, val 1, test 1), 10 database videos, 1 / 1 / 1 matches per query"
    ]
    assert texts(found, "labels") == [
        "matches by level: copy 2, event 1, match 1; non-matches 2, of them hard 1; not judged 1"
    ]
    assert texts(found, "splits") == ["by annotation: train 2, val 1, test 1"]
    assert texts(found, "texts") == ["3 of 4 queries have one, words 2 / 3 / 76"]
    assert texts(found, "tags") == ["2 of 4 queries have some, 3 different; with + 1, with - 1"]
    assert texts(found, "missing videos") == ["none, all 10 are there"]
    assert texts(found, "missing texts") == ["none, all 3 are there"]
    assert texts(found, "values of video") == ["norms 5 / 41.2 / 100, frames per video 1 / 2 / 2"]
    assert texts(found, "values of text") == ["norms 1.41 / 1.41 / 1.41"]
    assert texts(found, "duplicates") == ["no two videos have equal features"]
    assert len(texts(found, "leakage")) == 1
    assert texts(found, "store")[0].startswith(
        "toy, texts by toy text; video 10 x 1 x 2, text 3 x 1 x 2, tags 2 x 1 x 2"
    )
    warnings = [(finding.check, finding.ids) for finding in found.findings if finding.level == "warning"]
    assert warnings == [("texts", ["q1"])]
    assert texts(found, "missing tags", "note") == [
        "1 of 3 have no vector (only benchmark=muvr_filter looks at tags): in of q1"
    ]
    assert texts(found, "masks") == ["1 of 4 queries have one (no model looks at masks yet)"]


def test_nothing_hides_anything_else(examined: Examined, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", texts=("q0",))
    bad, zero = frames("v2"), frames("v3")
    bad[0, 0, 0], zero[1] = np.nan, 0
    replace_videos(store, v2=bad, v3=zero, v5=frames("v2") * np.inf, v7=frames("v8"))
    found = examined(*table(write_labels(tmp_path / "labels"), store))
    assert found.exit_code == 1
    assert texts(found, "values of video", "error") == ["2 entries with NaN or infinity: v2, v5"]
    assert texts(found, "values of video", "warning") == [
        "1 entry with a vector of zeros (its cosine with anything is 0): v3"
    ]
    assert texts(found, "values of video") == ["norms 0 / 37.5 / 100, frames per video 1 / 2 / 2"]
    assert texts(found, "missing texts", "error") == ["2 of 3 have no features: q1, q2"]
    assert texts(found, "duplicates", "warning") == [
        "1 group of videos with equal features; 1 query with a match whose twin is no match (q3 ...): v7 = v8"
    ]


def test_missing_videos_stop_a_run_or_not(examined: Examined, tmp_path: Path) -> None:
    settings = table(write_labels(tmp_path / "labels"), write_store(tmp_path / "store", VIDEOS[:-3]))
    strict, official = examined(*settings), examined(*settings, "on_missing=official")
    assert texts(strict, "missing videos", "error") == ["3 of 10 have no features: v7, v8, v9"]
    assert texts(official, "missing videos", "warning") == ["3 of 10 have no features: v7, v8, v9"]
    assert (strict.exit_code, official.exit_code) == (1, 0)


def test_spare_videos_failures_and_unknown_encoders_are_told(examined: Examined, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreWriter(store, make_manifest("unknown (imported)"), "float32") as writer:
        for name in [*VIDEOS, "spare1"]:
            writer.add(name, frames("v" + name[-1]) * len(name))
    (store / "failures.csv").write_text(f'id,path,reason\nx,x.mp4,broken\ny,y.mp4,"no, {"long " * 30}"\n')
    found = examined(*table(write_labels(tmp_path / "labels"), store))
    assert texts(found, "store", "note") == [
        "the store does not say which encoder made the features",
        "not in the benchmark: 1 video of the store",
    ]
    (text,) = texts(found, "store", "warning")
    assert text.startswith(f"2 entries could not be made (all in {store / 'failures.csv'}): x (broken), y (no, long")
    assert text.endswith("...)")
    assert texts(found, "missing texts", "note") == ["the store has no text vectors: only video queries are used"]
    assert texts(found, "missing tags", "note") == ["the store has no tag vectors: queries cannot be filtered by tags"]


def test_leaks_through_equal_features(examined: Examined, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    replace_videos(store, v0=frames("v3"))
    found = examined(*table(write_labels(tmp_path / "labels"), store))
    (text,) = texts(found, "leakage", "warning")
    assert "leakage, equal features (1): v0 (test v3)" in text
    assert found.exit_code == 0


def test_an_empty_split_is_told(examined: Examined, tmp_path: Path) -> None:
    found = examined(*table(write_labels(tmp_path / "labels", ["train", "train", "val", "val"])))
    assert texts(found, "splits", "warning") == [
        "by annotation: train 2, val 2, test 0; no query in test: train.py will not work, evaluate.py will with "
        "benchmark.split=all"
    ]


def test_a_query_with_non_matches_only_is_told(examined: Examined, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels")
    text = (labels / "relevance.csv").read_text()
    (labels / "relevance.csv").write_text(text.replace("q0,v4,1,copy", "q0,v4,0,"))
    found = examined(*table(labels))
    assert texts(found, "labels", "warning") == ["1 query without a match: q0"]
    assert "queries without a match" in texts(found, "annotation", "warning")[0]


def test_benchmarks_that_bring_their_data_along(examined: Examined, shared: Path) -> None:
    found = examined("benchmark=evve", f"benchmark.annotations={shared / 'data/annotations'}")
    assert texts(found, "benchmark") == [
        "evve: 14 partitions, 620 queries, 2373 database videos, 13 search topics; partitions share queries and "
        "videos, which are counted once"
    ]
    assert texts(found, "partition dsk+arrested") == ["9 queries, 2373 database videos, 19 / 19 / 19 matches per query"]
    assert texts(found, "partitions", "note") == ["6 more partitions"]
    assert texts(found, "splits", "note") == ["none: this benchmark is for evaluation only"]
    assert found.exit_code == 0


def test_tag_expressions_need_vectors(examined: Examined, shared: Path) -> None:
    small = shared / "golden/muvr_small"
    data = [f"data.annotations={small / 'annotations'}", f"data.features={small / 'features/toyclip'}"]
    found = examined("data=muvr", "benchmark=muvr_filter", *data)
    (line,) = texts(found, "missing tags", "error")
    assert line.endswith("host's voice of others/BVq121cbab2")  # the query whose features the golden set leaves out
    assert "pairs of a query and a tag expression" in texts(found, "tags")[0]
    assert texts(found, "missing videos", "error")[0].startswith("36 of 1560 have no features: ")


def test_annotation_alone(examined: Examined, tmp_path: Path) -> None:
    found = examined(*table(write_labels(tmp_path / "labels")))
    assert texts(found, "store", "note") == ["no features are named: only the annotation is examined"]
    assert len(texts(found, "benchmark")) == 1
    assert found.exit_code == 0


def test_a_broken_annotation_leaves_the_store_to_be_examined(examined: Examined, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels")
    (labels / "relevance.csv").write_text("query,video,label\nq0,v44,1\nq0,v4,maybe\n")
    found = examined(*table(labels, write_store(tmp_path / "store")))
    (error,) = texts(found, "annotation", "error")
    assert "line 2: 'v44'" in error
    assert "line 3: 'maybe'" in error
    assert texts(found, "values of text") == ["norms 1.41 / 1.41 / 1.41"]
    assert found.exit_code == 1


def test_a_broken_store_leaves_the_annotation_to_be_examined(examined: Examined, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    shard = store / "video-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4])
    found = examined(*table(write_labels(tmp_path / "labels"), store))
    assert "is truncated" in texts(found, "store", "error")[0]
    assert len(texts(found, "partition all")) == 1
    gone = examined(*table(tmp_path / "no labels", tmp_path / "no store"))
    assert [finding.check for finding in gone.findings if finding.level == "error"] == ["annotation", "store"]


def test_nothing_is_extracted(examined: Examined, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for name in VIDEOS[:-1]:
        (videos / f"{name}.mp4").write_bytes(b"no video")
    found = examined(*table(write_labels(tmp_path / "labels")), f"data.videos={videos}")
    assert texts(found, "videos", "error") == [f"1 of 10 have no file in {videos}: v9"]
    assert texts(found, "store", "note") == [
        "the features are not extracted yet: the first run of train.py or evaluate.py does it"
    ]
    assert not (tmp_path / "cache").exists()
    assert texts(examined(), "annotation", "note")[0].startswith("the built-in corpus is not in the cache")
    assert not (tmp_path / "cache").exists()
    folder = examined("data=folder", f"data.videos={videos}")
    assert texts(folder, "videos") == [f"9 files in {videos}"]
    assert texts(examined("data=folder"), "videos", "error") == ["give data.videos=DIR, or data.features=STORE"]


def test_json_holds_all_ids_and_the_screen_the_first(examined: Examined, tmp_path: Path) -> None:
    settings = table(write_labels(tmp_path / "labels"), write_store(tmp_path / "store", VIDEOS[:4]))
    found = examined(*settings)
    content = json.loads(found.to_json())
    assert (content["errors"], content["warnings"]) == (found.count("error"), found.count("warning"))
    (missing,) = [entry for entry in content["findings"] if entry["check"] == "missing videos"]
    assert missing["ids"] == VIDEOS[4:]
    (values,) = [entry["values"] for entry in content["findings"] if entry["check"] == "values of video"]
    assert values["norms"]["min"] == pytest.approx(5)
    assert values["norms"]["max"] == pytest.approx(40)


def test_alike_lines_are_counted_and_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    alike = [Finding("annotation", "warning", f"line {number} [bold]") for number in range(MOST_ALIKE + 3)]
    Examination("[red]subject", (*alike, Finding("store", "error", "broken", ["a", "b"]))).print(Console(width=100))
    out = capsys.readouterr().out
    assert "[red]subject" in out
    assert f"line {MOST_ALIKE - 1} [bold]" in out
    assert f"line {MOST_ALIKE} [bold]" not in out
    assert "3 more (--json shows them)" in out
    assert "broken: a, b" in out
    assert out.rstrip().endswith(f"1 error, {MOST_ALIKE + 3} warnings")


@pytest.mark.parametrize(
    ("values", "expected"), [([2.5], "2.5 / 2.5 / 2.5"), ([4, 1], "1 / 2.5 / 4"), ([9, 1, 3], "1 / 3 / 9")]
)
def test_spread(values: Sequence[float], expected: str) -> None:
    assert spread(values) == expected


def start(*arguments: str) -> Any:
    command = [sys.executable, "-X", "importtime", "-m", "muvr_train.check", *arguments]
    return subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_program(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", VIDEOS[:-1])
    ended = start(*table(write_labels(tmp_path / "lab=els, [ü]"), store), "--json")
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["errors"] == 1
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "torch" in imported
    assert not {"pytorch_lightning", "wandb", "matplotlib"} & imported


def test_mistakes_of_settings_have_their_own_exit_code() -> None:
    ended = start("data=tabel")
    assert ended.returncode == 2
    assert "did you mean 'table'?" in ended.stderr
    assert "torch" not in {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
