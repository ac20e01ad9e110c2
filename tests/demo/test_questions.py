"""The built-in corpus's own questions: right by the annotation and by the pixels, the same every time."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.muvr_qa import pair_rows, read_questions, write_qa
from muvr_train.demo import questions
from muvr_train.demo.annotations import write_annotations
from muvr_train.demo.corpus import DemoCorpus
from muvr_train.demo.draw import draw_video
from muvr_train.demo.iv_items import PLACES, TASKS, draw_image, iv_items, parts_of
from muvr_train.demo.plan import make_plan
from muvr_train.demo.questions import NOTE, demo_iv, demo_qa, qa_rows
from muvr_train.demo.spec import FPS, PARTITIONS

PLANS = {size: make_plan(size) for size in ("tiny", "default")}
SIZES = pytest.mark.parametrize("size", list(PLANS))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoCorpus:
    """A corpus that is not rendered: the questions come from its plan."""
    root = tmp_path / "demo"
    made = DemoCorpus(root, root / "annotations", root / "videos", root / "masks")
    monkeypatch.setattr(questions, "build_demo", lambda *_: made)
    return made


@pytest.mark.parametrize("size", ["tiny", pytest.param("default", marks=pytest.mark.slow)])
def test_muvr_qa_rows_are_true_and_false_by_the_annotation(size: str, tmp_path: Path) -> None:
    plan = PLANS[size]
    write_annotations(plan, tmp_path)
    rows = qa_rows(plan)
    assert list(rows) == list(PARTITIONS)
    assert sum(map(len, rows.values())) == 20
    for partition, own in rows.items():
        assert [row.tag != "" for row in own] == [False, False, True, True]
        folder = tmp_path / partition
        number = {entry["video_name"]: entry["id"] for entry in read(folder / "videos.json")}
        matches = {
            entry["query_id"]: set(entry["rel_lists"]["pos_all"]["id_list"])
            for entry in read(folder / "query_rel_lists.json")
        }
        tags = {entry["query_id"]: entry["tag_lists"] for entry in read(folder / "query_tag_lists.json")}
        texts = {entry["id"]: entry["prompt_en"] for entry in read(folder / "queries_en.json")}
        for row in own:
            query, target = number[row.query], number[row.target]
            right = set(tags[query][row.tag]["id_list"]) if row.tag else matches[query]
            assert (target in right) == (row.label == 1)
            assert row.text == texts[query]
            assert target != query


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_muvr_qa_rows_are_pairs_and_can_be_written(corpus: DemoCorpus, tmp_path: Path) -> None:
    rows, where = demo_qa()
    assert where is corpus
    for partition, own in rows.items():
        assert len(pair_rows(own, partition)) == 2
        write_qa(tmp_path / f"{partition}.jsonl", own)
    assert read_questions(tmp_path) == rows
    assert "made-up" in NOTE


@SIZES
def test_iv_bench_items(size: str) -> None:
    plan = PLANS[size]
    items, videos = iv_items(plan), {video.id: video for video in plan.videos}
    assert Counter(item.task for item in items) == dict.fromkeys(TASKS, 4)
    assert len({(item.video, item.number) for item in items}) == 20
    for item in items:
        assert len({item.answer, *item.distractors}) == 1 + len(item.distractors) == 10
        parts = list(parts_of(videos[item.video]))
        shown = {part.name for part in parts}
        here = [self_of(videos[name], frame) in shown for name, frame in item.stills]
        if item.task in ("Existence", "Reverse Existence"):
            wanted = item.task == "Existence"
            assert item.answer.split(", ") == [
                place for place, there in zip(PLACES, here, strict=True) if there == wanted
            ]
        else:
            assert here == [True]
            assert item.stills[0][0] == item.video
        if item.task == "Counting":
            assert int(item.answer) == len(shown) - 1
        if item.task == "Keyframe extraction":
            second = item.stills[0][1] // FPS
            assert item.answer == item.location == f"00:{second:02d}-00:{second + 1:02d}"
        if item.task == "Temporal Reasoning":
            names = [part.name for part in parts]
            assert names[names.index(self_of(*(videos[item.video], item.stills[0][1]))) + 1] == item.answer


def self_of(video: Any, frame: int) -> str:
    """The place that a frame shows."""
    (name,) = (part.name for part in parts_of(video) if part.first <= frame < part.first + part.frames)
    return str(name)


def test_images_are_stills_of_the_videos() -> None:
    plan = PLANS["tiny"]
    videos = {video.id: video for video in plan.videos}
    item = next(item for item in iv_items(plan) if len(item.stills) == 4)
    frames = [np.asarray(next(islice(draw_video(videos[name]), frame, None))) for name, frame in item.stills]
    assert np.asarray(draw_image(item, plan)).tolist() == np.concatenate(frames, axis=1).tolist()


def test_iv_bench_files_are_written_once_and_in_the_released_form(corpus: DemoCorpus, shared: Path) -> None:
    file, videos, images = demo_iv()
    assert videos == corpus.videos
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    entries = [entry for line in lines for (own,) in [list(line.values())] for entry in own]
    assert [len(line) for line in lines] == [1] * 10
    released = json.loads((shared / "data" / "iv_bench" / "test_data.jsonl").open(encoding="utf-8").readline())
    assert {tuple(entry) for entry in entries} == {tuple(next(iter(released.values()))[0])}
    assert {path.name for path in images.iterdir()} == {entry["image_name"] for entry in entries}
    for path in images.iterdir():
        with Image.open(path) as picture:
            assert picture.size in ((160, 120), (640, 120))
    before = {path: path.stat().st_mtime_ns for path in corpus.root.rglob("*") if path.is_file()}
    content = {path: path.read_bytes() for path in before}
    demo_iv()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    file.unlink()  # as after a kill: made again, the same
    demo_iv()
    assert {path: path.read_bytes() for path in corpus.root.rglob("*") if path.is_file()} == content
