"""evaluate.py on what was asked before: finished runs, answers of several runs in one file, a user's own class."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.rerank.local_server import Asked, LocalServer
from tests.rerank.question_runs import evaluate, lines, names

FILES = ("per_question.csv", "questions.jsonl", "metrics.json", "answers.jsonl")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def files(out: str, without: str = "") -> dict[str, bytes]:
    return {name: (Path(out) / name).read_bytes() for name in FILES if name != without}


def short(asked: Asked) -> str:
    """Depends on the prompt alone, and not only on whether there is a condition."""
    return "yes" if len(asked.text) % 3 else "**No**"


BASE = (
    "benchmark=muvr_qa",
    "benchmark.frames=1",
    "benchmark.resolution=32",
    "benchmark.report=false",
    "benchmark.limit=8",
)


def test_a_finished_run_needs_no_server(tmp_path: Path) -> None:
    with LocalServer(short) as server:
        settings = (*BASE, "answerer=openai", "answerer.model=tiny", f"answerer.base_url={server.url}", "out=o")
        first = evaluate(*settings)
        assert len(server.asked) == 8
    kept = files("o")
    assert evaluate(*settings) == first
    assert files("o") == kept


def test_every_run_in_a_file_of_answers_is_scored_again_as_it_was(tmp_path: Path) -> None:
    runs: tuple[list[str], ...] = (
        [],
        ["benchmark.tags=false"],
        ["benchmark.query_frames=2"],
        ["benchmark.comparison=text"],
    )
    with LocalServer(short) as server:
        model = ("answerer=openai", "answerer.model=tiny", f"answerer.base_url={server.url}", "answers=all.jsonl")
        for number, more in enumerate(runs):
            evaluate(*BASE, *model, *more, f"out=first{number}")
    for number, more in enumerate(runs):
        evaluate(*BASE, "answerer=file", "answerer.path=all.jsonl", *more, f"out=again{number}")
        for name in FILES[:3]:
            assert (Path(f"first{number}") / name).read_bytes() == (Path(f"again{number}") / name).read_bytes()


OWN = """
from pathlib import Path
from muvr_train.rerank.types import Answerer, Reply


class Says(Answerer):
    needs_visuals = False

    def __init__(self, say="yes", concurrency=1, more=None):
        self.say, self.concurrency = say, concurrency

    def answer(self, request):
        with open("asked.txt", "a") as file:
            file.write("q\\n")
        return Reply(self.say)


class Other(Says):
    pass
"""


def test_another_setting_or_class_of_ones_own_is_asked_anew(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(OWN, encoding="utf-8")
    folder = tmp_path / "my" / "answerer"
    folder.mkdir(parents=True)
    for name in ("Says", "Other"):
        (folder / f"{name}.yaml").write_text(f"_target_: says.{name}\nsay: yes it is\nconcurrency: 1\nmore: .inf\n")
    sys.modules.pop("says", None)

    def asked(*settings: str) -> tuple[int, float]:
        found = evaluate(*BASE, *settings, "out=o", extra=tmp_path / "my")
        return len(names(Path("asked.txt"))), found["all/muvr_qa/images_1f_32px/all/reranking_score"]

    assert asked("answerer=Says") == (8, 0.0)
    assert asked("answerer=Says", "answerer.say=no") == (16, -1.0)
    assert asked("answerer=Other") == (24, 0.0)
    assert asked("answerer=Says", "answerer.more=2") == (32, 0.0)
    assert asked("answerer=Says", "answerer.concurrency=3") == (32, 0.0)
    assert asked("answerer=Says", "answerer.say=no") == (32, -1.0)


def test_halves_of_characters_in_questions_are_no_trouble(tmp_path: Path) -> None:
    item = {
        "data_id": 0,
        "image_name": "a.jpg",
        "question": "Which \ud83d?",
        "question_type": "Counting",
        "granularity": "Whole video",
        "answer": "one \ud83d",
        "distractors": ["two \udc00", "three \U0001f600"],
    }
    Path("iv.jsonl").write_text(json.dumps({"vid \ud83d": [item]}), encoding="utf-8")
    evaluate("benchmark=iv_bench", "answerer=oracle", "benchmark.questions=iv.jsonl", "out=iv")
    (row,) = lines("iv")
    assert (row["question"], row["right"]) == ("vid ?/0", "1")
    qa = [
        {"Query": "a \ud83d", "Target": f"{label}", "Label": label, "prompt_en": "x \ud83d", "Tag": "+t \udc00"}
        for label in (1, 0)
    ]
    Path("news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in qa), encoding="utf-8")
    evaluate("benchmark=muvr_qa", "answerer=oracle", "benchmark.questions=news.jsonl", "out=qa")
    assert [row["question"] for row in lines("qa")] == ["news/a ? [+t ?] > 1", "news/a ? [+t ?] > 0"]
