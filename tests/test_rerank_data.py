"""evaluate.py rerank=... on data other than MUVR's: tasks that share queries, edited copies; and after training."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.fivr import read_fivr
from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import read_answers
from tests import in_process
from tests.benchmarks.test_fivr import CONTENT, SCORES
from tests.features.test_copies_extract import write_video
from tests.reference import reranking as slow
from tests.reference.metrics import metrics_of_order
from tests.rerank.reranked import MINE, OWN
from tests.toy import make_toy

ROOT = Path(__file__).parents[1]
K = 3
TASKS = ("DSVR", "CSVR", "ISVR", "DSVR_hard", "CSVR_hard", "ISVR_hard")
FIVR = ("benchmark=fivr_5k", "benchmark.annotations=annotations", "scores=toy.npz", "benchmark.report=false")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with FIVR's toy annotation, scores of it, and an answerer of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "annotations").mkdir()
    Path("annotations/fivr_audio.pickle").write_bytes(pickle.dumps(CONTENT))
    Path("annotations/fivr_easy_duplicates.txt").write_text("a\ne\n")
    videos = list(SCORES["q1"])
    rows = np.array([[SCORES[query][video] for video in videos] for query in SCORES])
    np.savez("toy.npz", query_ids=list(SCORES), database_ids=videos, scores=rows)
    Path("mine.py").write_text(OWN)
    Path("own/answerer").mkdir(parents=True)
    Path("own/answerer/mine.yaml").write_text(MINE)
    return tmp_path


def evaluate(*arguments: str, method: str | None = "keep_drop") -> dict[str, Any]:
    """Rerank in this process (or only evaluate); give results.json."""
    rerank = [f"rerank={method}", f"rerank.top_k={K}", "rerank.decision=text"] if method else []
    in_process.evaluate(*arguments, *rerank, "out=out", extra=Path("own").resolve())
    content: dict[str, Any] = json.loads(Path("out/results.json").read_text())
    return content


def call(*arguments: str, program: str = "evaluate.py") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / program), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def precisions(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["partition"]: row["metrics"]["mAP"] for row in rows}


def expected_of(task: str, answers: Mapping[tuple[str, str], str]) -> float:
    """Mean average precision of a task by the slow twin."""
    found = []
    partition = read_fivr(Path("annotations"), "5k")[task]
    for judgement in partition.judgements:
        row = SCORES[judgement.query]
        order = slow.ranking({video: row[video] for video in partition.database if video != judgement.query})
        said = {video: answers[judgement.query, video] for video in order[:K]}
        labels = [int(video in judgement.positives) for video in slow.dropped(order, K, said)]
        if any(labels):
            found.append(metrics_of_order(labels, sum(labels), ())["AP"])
    return sum(found) / len(found)


def test_tasks_of_fivr_share_the_answers_about_a_pair(place: Path) -> None:
    """Each task by the slow twin, from answers that were asked for once; and again from the file of answers."""
    row, _ = evaluate(*FIVR, "answerer=coin", "answerer.seed=9")["reranked"]
    asked = [answer.question.split("|") for answer in read_answers(Path("out/answers.jsonl"))]
    texts = {(query, video): answer.text for (query, video, _), answer in
             zip(asked, read_answers(Path("out/answers.jsonl")), strict=True)}  # fmt: skip
    assert set(texts.values()) == {"yes", "no"}
    assert len(texts) == len(asked) == row["counts"]["pairs"] == row["counts"]["calls"]
    assert row["cost"]["pairs_per_query"] == len(asked) / 2
    expected = {task: expected_of(task, texts) for task in TASKS}
    expected["mean"] = sum(expected[task] for task in TASKS[:3]) / 3
    assert precisions(row["rows"]) == pytest.approx(expected, abs=1e-12)
    assert len({round(value, 6) for value in expected.values()}) > 2
    Path("out/answers.jsonl").rename("answers.jsonl")
    again, _ = evaluate(*FIVR, "answerer=file", "answerer.path=answers.jsonl", "answers=other.jsonl")["reranked"]
    assert precisions(again["rows"]) == precisions(row["rows"])


@pytest.mark.parametrize("method", ["keep_drop", "probability"])
def test_an_oracle_knows_every_task(place: Path, method: str) -> None:
    row, perfect = evaluate(*FIVR, "answerer=oracle", "save_scores=true", method=method)["reranked"]
    assert row["rows"] == perfect["rows"]
    ids = [answer.question for answer in read_answers(Path("out/answers.jsonl"))]
    assert {name.rpartition("|")[2] for name in ids} == set(TASKS)
    if method == "keep_drop":
        known = {task: {tuple(name.split("|")[:2]): answer.text for name, answer in
                        zip(ids, read_answers(Path("out/answers.jsonl")), strict=True)
                        if name.endswith(f"|{task}")} for task in TASKS}  # fmt: skip
        expected = {task: expected_of(task, known[task]) for task in TASKS}  # type: ignore[arg-type]
        assert {task: precisions(row["rows"])[task] for task in TASKS} == pytest.approx(expected, abs=1e-12)
    for name in ("answers.jsonl", "reranked_scores_scores.npz"):
        Path("out", name).rename(name)
    file = ("answerer=file", "answerer.path=answers.jsonl", "answers=other.jsonl")
    again, _ = evaluate(*FIVR, *file, method=method)["reranked"]
    assert again["rows"] == row["rows"], "the answers of each task are those of the file"
    saved = ("scores=reranked_scores_scores.npz", "benchmark.report=false")
    with pytest.raises(ConfigError, match="out=out holds results of toy, and those of reranked_scores_scores"):
        evaluate(*FIVR[:2], *saved, method=None)
    plain = evaluate(*FIVR[:2], *saved, "overwrite=true", method=None)
    assert precisions(plain["rows"]) == pytest.approx(precisions(row["rows"]), abs=1e-12)


def test_answers_of_a_retriever_are_scored_again_task_by_task(place: Path) -> None:
    row, perfect = evaluate(*FIVR, "answerer=retriever", "answerer.scores=toy.npz")["reranked"]
    assert row["rows"] != perfect["rows"]
    Path("out/answers.jsonl").rename("answers.jsonl")
    again, _ = evaluate(*FIVR, "answerer=file", "answerer.path=answers.jsonl", "answers=other.jsonl")["reranked"]
    assert again["rows"] == row["rows"]
    assert {answer.question.rpartition("|")[2] for answer in read_answers(Path("other.jsonl"))} == set(TASKS)


def test_a_file_with_answers_about_pairs_and_others_task_by_task_is_refused(place: Path) -> None:
    for answerer in ("coin", "oracle"):
        evaluate(*FIVR, f"answerer={answerer}", "answers=both.jsonl")
    file = ("answerer=file", "answerer.path=both.jsonl", "answers=other.jsonl")
    with pytest.raises(
        DataError, match=r"both\.jsonl has answers about pairs, and others task by task.*answerer\.only"
    ):
        evaluate(*FIVR, *file)
    for name, questions in (("coin", "pair"), ("oracle", "task")):
        row, perfect = evaluate(*FIVR, *file, f"answerer.only={name}")["reranked"]
        assert (row["rows"] == perfect["rows"]) == (questions == "task")


def test_who_looks_is_shown_each_pair_of_fivr_once(place: Path) -> None:
    Path("videos").mkdir()
    for number, video in enumerate(("q1", "q2", *sorted(set(SCORES["q1"]) - {"q1", "d"}))):
        write_video(Path(f"videos/{video}.mp4"), number, 2)
    Path("videos/c.mp4").write_bytes(b"no video")
    looking = ("answerer=mine", "answerer.looks=true", "data.videos=videos", "allow_failures=true")
    row, _ = evaluate(*FIVR, *looking)["reranked"]
    times = Counter(Path("asked.txt").read_text().split())
    assert set(times.values()) == {1}
    assert not any("|c|" in name or "|d|" in name for name in times)
    counts = row["counts"]
    assert counts["failed"] == 3  # d of both queries is not there, and c of q1 is broken; neither was a call
    assert counts["calls"] == len(times) == counts["pairs"] - 3
    again = evaluate(*FIVR, *looking)["reranked"][0]["counts"]
    assert again == {**counts, "calls": 0, "from_file": len(times)}


@pytest.mark.slow
def test_edited_copies_are_composed_for_who_looks(place: Path, shared: Path) -> None:
    """Real clips, as any folder of videos: features, scores, questions with frames made from the sources, a page."""
    Path("clips").mkdir()
    for clip in sorted((shared / "data/clips").glob("*.mp4"))[:8]:
        Path("clips", clip.name).symlink_to(clip)
    copies = (
        "data=folder",
        "data.videos=clips",
        "encoder=demo",
        "model=frame_max",
        "trainer=cpu",
        "benchmark.bootstrap=0",
    )
    looking = ("answerer=mine", "answerer.looks=true", "rerank.frames=2", "rerank.resolution=96")
    row, perfect = evaluate(*copies, *looking)["reranked"]
    assert row["counts"]["used"] == row["counts"]["pairs"] > 0
    assert {answer.text for answer in read_answers(Path("out/answers.jsonl"))} <= {"Yes", "No."}
    assert list(Path("out/reranking/report_files").iterdir())
    assert perfect["name"] == f"perfect reranker@{K}"


@pytest.mark.slow
def test_a_trained_checkpoint_in_two_processes_asks_once(place: Path) -> None:
    """The same rows as in one process, and only the first one asks."""
    annotations, features = make_toy(place / "data")
    data = ("data=muvr", f"data.annotations={annotations}", f"data.features={features}")
    short = ("trainer.max_epochs=1", "trainer.steps_per_epoch=1", "benchmark.report=false", "benchmark.bootstrap=0")
    trained = call(*data, "run=toy", "data.batch.topics=3", "trainer=cpu", *short, program="train.py")
    assert trained.returncode == 0, trained.stderr
    typed = ("ckpt_path=checkpoints/toy/last.ckpt", *short[2:], "rerank=keep_drop", f"rerank.top_k={K}")
    found = []
    for out, trainer in (("two", ("trainer=ddp_cpu", "trainer.devices=2")), ("one", ("trainer=cpu",))):
        Path("asked.txt").unlink(missing_ok=True)
        done = call("--config-dir", "own", *typed, "answerer=mine", "answerer.says=no", *trainer, f"out={out}")
        assert done.returncode == 0, done.stderr
        content = json.loads(Path(out, "results.json").read_text())
        row = content["reranked"][0]
        times = Counter(Path("asked.txt").read_text().splitlines())
        assert set(times.values()) == {1}
        assert len(times) == row["counts"]["calls"] == row["counts"]["pairs"] > 0
        assert row["name"] == f"toy + rerank@{K} (mine)"
        assert done.stdout.count(f"toy + rerank@{K} (mine), mode") == 1
        found.append(precisions(row["rows"]))
    assert found[0] == pytest.approx(found[1], abs=1e-9)
