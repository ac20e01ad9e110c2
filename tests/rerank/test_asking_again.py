"""Asking again: what a file of answers spares, and what a rest that keeps failing does not undo."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import AnswerFile, read_answers
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answerer, Clip, Picture, Question, Reply, Request, Visual
from tests.rerank.asked import Recorder, clip_visual, plain, question, texts
from tests.rerank.local_server import LocalServer


class Steps(Recorder):
    """Remembers in which order it is called."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.steps: list[str] = []

    def begin(self, questions: Any) -> None:
        self.steps.append("begin")

    def identity(self) -> dict[str, str]:
        self.steps.append("identity")
        return {"name": self.name}

    def prepare(self) -> None:
        self.steps.append("prepare")

    def warm_up(self, questions: Any) -> None:
        self.steps.append(f"warm up for {len(questions)}")

    def reply(self, request: Request) -> Reply:
        self.steps.append("answer")
        return super().reply(request)


@pytest.mark.parametrize("visuals", [True, False])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_nothing_is_prepared_where_nothing_is_open(tmp_path: Path, concurrency: int, visuals: bool) -> None:
    path, questions = tmp_path / "answers.jsonl", [question(f"q{n}") for n in range(6)]
    one = Steps(concurrency=concurrency, needs_visuals=visuals)
    with AnswerFile(path) as file:
        first = ask(one, questions, file)
    assert one.steps == ["begin", "identity", "prepare", "warm up for 6", *["answer"] * 6]
    again = Steps(concurrency=concurrency, needs_visuals=visuals)
    with AnswerFile(path) as file:
        assert ask(again, questions, file) == first
    assert again.steps == ["begin", "identity"]
    more = Steps(concurrency=concurrency, needs_visuals=visuals)
    lost = question("m", visual=clip_visual("m", missing=True))
    with AnswerFile(path) as file:
        ask(more, [*questions, lost] if visuals else questions, file)
        assert more.steps == ["begin", "identity"]  # what cannot be shown is not asked either
        ask(more, [*questions, question("new")], file)
    assert more.steps[2:] == ["begin", "identity", "prepare", "warm up for 7", "answer"]


@pytest.mark.parametrize("concurrency", [1, 5])
@pytest.mark.parametrize("method", ["prepare", "warm_up"])
@pytest.mark.parametrize("error", [ConfigError("no such model"), DataError("there is no server")])
def test_what_cannot_be_prepared_is_tried_once(tmp_path: Path, concurrency: int, method: str, error: Exception) -> None:
    tried: list[int] = []

    def fails(*_: object) -> None:
        tried.append(1)
        raise error

    broken = type("Broken", (Recorder,), {method: fails})(concurrency)
    path = tmp_path / "a.jsonl"
    with AnswerFile(path) as file, pytest.raises(type(error), match=f"^{error}$"):
        ask(broken, [question(f"q{n}") for n in range(20)], file)
    assert (tried, broken.asked, path.exists()) == ([1], [], False)


def test_a_server_that_is_gone_is_not_missed_by_a_finished_run(tmp_path: Path) -> None:
    questions = [Question(f"q{n}", "s", (f"#{n}",), ("yes", "no"), "yes") for n in range(5)]

    def run(url: str) -> dict[tuple[str, str], Any]:
        answerer = OpenAIServer("tiny", url, retries=0)
        try:
            with AnswerFile(tmp_path / "answers.jsonl") as file:
                return ask(answerer, questions, file)
        finally:
            answerer.close()

    with LocalServer() as server:
        first = run(server.url)
        assert server.listed == 1
    assert run(server.url) == first
    questions.append(Question("new", "s", ("#new",), ("yes", "no"), "yes"))
    with pytest.raises(DataError):
        run(server.url)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_rest_that_keeps_failing_ends_with_complete_results(tmp_path: Path, concurrency: int) -> None:
    names = [f"q{n}" for n in range(40)]
    bad, path = tuple(names[:30]), tmp_path / "answers.jsonl"
    questions = [question(name) for name in [*names[30:], *bad]]
    with AnswerFile(path) as file:
        ask(Recorder(concurrency, failing=bad), questions, file)
    for order in (questions, questions[::-1]):
        again = Recorder(concurrency, failing=bad)
        with AnswerFile(path) as file:
            found = ask(again, order, file)
        assert sorted(again.asked) == sorted(bad)
        assert {name for (name, _), answer in found.items() if not answer.answered} == set(bad)


def test_answers_to_other_questions_are_no_sign_that_these_can_be_answered(tmp_path: Path) -> None:
    class Other(Recorder):
        def identity(self) -> dict[str, str]:
            return {"name": "other"}

    names, path = [f"q{n}" for n in range(20)], tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        ask(Recorder(), [question(name) for name in names], file)
        ask(Recorder(), [question(name, text="Another prompt?") for name in names[:7]], file)
        for one, text in ((Other, "Does it match?"), (Recorder, "A third prompt?")):
            failing = one(failing=tuple(names))
            with pytest.raises(DataError, match=r"the first 8 questions all failed.*\b0 answers are kept"):
                ask(failing, [question(name, text=text) for name in names], file)
            assert len(failing.asked) == 8
        with pytest.raises(DataError, match=r"\b7 answers are kept"):
            ask(
                Broken(), [question(name, text="Another prompt?") for name in names], file
            )  # of these, not 27 as the file has


class Broken(Recorder):
    def reply(self, request: Request) -> Reply:
        raise ZeroDivisionError


def test_log_probabilities_that_were_there_once_may_be_absent_for_a_while(tmp_path: Path) -> None:
    class Sometimes(Recorder):
        given = True

        def reply(self, request: Request) -> Reply:
            return Reply("Yes", {"Yes": -0.1} if self.given else None)

    class Never(Sometimes):
        given = False

    questions, path = [question(f"q{n}") for n in range(30)], tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        ask(Sometimes(), questions[:5], file, logprobs=True)
        assert len(ask(Never(), questions[::-1], file, logprobs=True)) == 30


def test_the_text_of_an_answer_with_log_probabilities_is_not_asked_for_again(tmp_path: Path) -> None:
    class Both(Recorder):
        def reply(self, request: Request) -> Reply:
            return Reply("Yes", {"Yes": -0.1} if request.logprobs else None)

    questions, path = [question(f"q{n}") for n in range(4)], tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        first = ask(Both(), questions[:3], file, logprobs=True)
        one = Both()
        found = ask(one, questions, file)
        assert one.asked == ["q3"]
        assert all(found[place] == answer for place, answer in first.items())
        ask(one, questions, file, logprobs=True)
        assert one.asked == ["q3", "q3"]  # of which there was only the text


@pytest.mark.parametrize(
    ("reply", "lacking"),
    [
        (Reply("yes", seconds=float("nan")), "seconds that are a number"),
        (Reply("yes", seconds=-1.0), "seconds that are a number"),
        (Reply("yes", seconds="2"), "seconds that are a number"),  # type: ignore[arg-type]
        (Reply("yes", tokens={"yes": "x"}), "tokens that are numbers by text"),  # type: ignore[dict-item]
        (Reply("yes", tokens=[("yes", 0.5)]), "tokens that are numbers by text"),  # type: ignore[arg-type]
        (Reply("yes", prompt_tokens="many"), "prompt_tokens that are a number"),  # type: ignore[arg-type]
        (Reply("yes", completion_tokens=float("inf")), "completion_tokens that are"),  # type: ignore[arg-type]
        (Reply(b"yes"), "a text"),  # type: ignore[arg-type]
    ],
)
def test_a_reply_of_wrong_types_is_named(tmp_path: Path, reply: Reply, lacking: str) -> None:
    class Odd(Recorder):
        def reply(self, request: Request) -> Reply:
            return reply

    with (
        AnswerFile(tmp_path / "a.jsonl") as file,
        pytest.raises(DataError, match=rf"Odd\.answer must give a Reply with {lacking}.*, at q \(images_2f\) it gave"),
    ):
        ask(Odd(), [question("q")], file)


def test_making_pictures_for_pages_is_no_time_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("muvr_train.rerank.one_question.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    seen: list[Any] = []
    frames = Clip((np.zeros((2, 2, 3), np.uint8),))

    def load() -> Clip:
        clock[0] += 2
        return frames

    def keep(part: Picture | Clip) -> None:
        clock[0] += 100
        seen.append(part)

    class Slow(Recorder):
        def reply(self, request: Request) -> Reply:
            clock[0] += 3
            return super().reply(request)

    asked = question("q", visual=Visual("video", "v", lambda: "v", load, keep))
    with AnswerFile(tmp_path / "a.jsonl") as file:
        (answer,) = ask(Slow(2), [asked], file).values()
    assert seen == [frames]
    assert answer.seconds == 5


class Default(Answerer):
    needs_visuals = False

    def __init__(self, say: str = "yes", concurrency: int = 1) -> None:
        self.say, self.concurrency = say, concurrency

    def answer(self, request: Request) -> Reply:
        return Reply(self.say)


class Twin(Default):
    pass


def test_other_classes_and_other_settings_share_no_answers(tmp_path: Path) -> None:
    path, asked = tmp_path / "answers.jsonl", [question("q")]

    def said(one: Answerer, **configured: Any) -> str:
        one.configured = configured
        with AnswerFile(path) as file:
            return ask(one, asked, file)["q", "images_2f"].text

    assert said(Default("yes"), say="yes", concurrency=1) == "yes"
    assert said(Default("no"), say="no", concurrency=1) == "no"
    assert said(Twin("maybe"), say="yes", concurrency=1) == "maybe"
    assert said(Default("not asked", 4), say="yes", concurrency=4) == "yes"
    assert len(texts(path)) == 3


def test_halves_of_characters_are_written_and_read(tmp_path: Path) -> None:
    path, odd = tmp_path / "answers.jsonl", question("id \ud83d", text="what \udc00?")
    with AnswerFile(path) as file:
        first = ask(Recorder(), [odd], file)
    assert plain(first) == {("id \ud83d", "images_2f"): ("answered", "Yes, id \ufffd.")}
    with AnswerFile(path) as file:
        again = Recorder()
        assert plain(ask(again, [odd], file)) == plain(first)
    assert again.asked == []
    line = {"question": "a", "setting": "s", "key": "k", "status": "answered", "text": "\ud83d yes \U0001f600"}
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert [answer.text for answer in read_answers(path)] == ["? yes \U0001f600"]
