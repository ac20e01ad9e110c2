"""Whole runs against a server that fails at random: nothing lost, nothing twice, never too many at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answer, Clip, Question, Visual
from tests.rerank.local_server import COLOURS, FAULTS, LocalServer, at_random

NAMES = tuple(COLOURS)


def coloured(number: int) -> Question:
    """A question whose right answer can only be known from its own two frames, in their order."""
    seen = (NAMES[number % 4], NAMES[number // 4 % 4])
    frames = tuple(np.full((16, 16, 3), COLOURS[name], np.uint8) for name in seen)
    visual = Visual("video", f"v{number}", lambda: f"v{number}", lambda: Clip(frames))
    return Question(f"frage {number} ü", "images_2f", (visual, f"#{number}"), NAMES, " ".join(seen))


def run(
    server: LocalServer, questions: list[Question], folder: Path, logprobs: bool = False, **settings: Any
) -> tuple[OpenAIServer, Answers]:
    """Ask all, without waiting between tries."""
    answerer = OpenAIServer("tiny", server.url, **settings)
    answerer.sleep = lambda _: True  # type: ignore[assignment]
    answerer.prepare()
    try:
        with AnswerFile(folder / "answers.jsonl") as file:
            return answerer, ask(answerer, questions, file, logprobs)
    finally:
        answerer.close()


Answers = dict[tuple[str, str], Answer]


def right(questions: list[Question], answers: Answers) -> bool:
    """Each question has the answer to its own frames and text."""
    return all(
        answers[question.id, question.setting].text == f"{question.truth} {question.parts[1]}" for question in questions
    )


@pytest.mark.parametrize(("faults", "timeout"), [(FAULTS, 3), (FAULTS[:-1], 300)])
def test_ten_percent_random_failures_lose_nothing_and_ask_nothing_twice(
    tmp_path: Path, faults: tuple[str, ...], timeout: float
) -> None:
    questions = [coloured(number) for number in range(150)]
    with LocalServer(fault=at_random(0.1, 0, faults), gather=6) as server:
        answerer, answers = run(server, questions, tmp_path, concurrency=6, timeout=timeout)
    assert list(answers) == [(question.id, question.setting) for question in questions]
    assert right(questions, answers)
    assert server.answers() == {str(question.parts[1]): 1 for question in questions}
    assert server.most == 6
    met = Counter(asked.fault for asked in server.asked if asked.fault)
    assert answerer.requests == len(server.asked) == 150 + met.total()
    assert answerer.failures.total() == met.total() > 5
    assert answerer.failures["timeout"] == met["slow"]
    assert answerer.failures["HTTP 429"] == met["429"]
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(line["status"] for line in lines) == {"answered": 150}
    assert all(line["prompt_tokens"] == 7 for line in lines)


def test_the_number_of_candidates_matters_only_where_log_probabilities_are_wanted(tmp_path: Path) -> None:
    questions = [coloured(number) for number in range(3)]
    token = {"token": "red", "logprob": -0.1, "top_logprobs": []}
    choice = {"message": {"role": "assistant", "content": "red"}, "logprobs": {"content": [token]}}
    with LocalServer(lambda _: choice) as server:
        run(server, questions, tmp_path, top_logprobs=20)
        run(server, questions, tmp_path, top_logprobs=5)
        assert len(server.asked) == 3
        run(server, questions, tmp_path, logprobs=True, top_logprobs=20)
        assert len(server.asked) == 6
        run(server, questions, tmp_path, logprobs=True, top_logprobs=5)
        assert [asked.body.get("top_logprobs") for asked in server.asked] == [None] * 3 + [20] * 3 + [5] * 3
        run(server, questions, tmp_path, logprobs=True, top_logprobs=20)
        assert len(server.asked) == 9


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons hold on to the arguments of a call")
@pytest.mark.parametrize("concurrency", [1, 3])
def test_pixels_are_let_go_of_while_the_server_thinks(tmp_path: Path, concurrency: int) -> None:
    command = [sys.executable, "-m", "tests.rerank.letting_go", str(tmp_path), str(concurrency)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ended.stdout == "2 [0]", ended.stderr


def test_concurrency_one_asks_one_at_a_time(tmp_path: Path) -> None:
    questions = [coloured(number) for number in range(12)]
    with LocalServer(fault=at_random(0.2, 3, ("500", "drop", "malformed"))) as server:
        _, answers = run(server, questions, tmp_path, concurrency=1)
    assert right(questions, answers)
    assert server.most == 1


def test_a_second_run_asks_only_what_failed(tmp_path: Path) -> None:
    questions = [coloured(number) for number in range(40)]
    bad = {"#7": "500", "#11": "400", "#30": "malformed"}
    with LocalServer(fault=lambda asked: bad.get(asked.text)) as server:
        _, answers = run(server, questions, tmp_path, retries=2)
        failed = {answer.question: answer.reason for answer in answers.values() if not answer.answered}
        assert set(failed) == {"frage 7 ü", "frage 11 ü", "frage 30 ü"}
        assert failed["frage 7 ü"] == "HTTP 500: so it is (3 tries)"
        assert failed["frage 11 ü"] == "HTTP 400: so it is"
        assert Counter(asked.text for asked in server.asked) == {
            **{f"#{number}": 1 for number in range(40)}, "#7": 3, "#30": 3,
        }  # fmt: skip
        server.asked.clear()
        bad.clear()
        _, again = run(server, questions, tmp_path)
        assert Counter(asked.text for asked in server.asked) == {"#7": 1, "#11": 1, "#30": 1}
    assert right(questions, again)


def test_a_server_that_goes_away_keeps_what_it_answered(tmp_path: Path) -> None:
    questions = [coloured(number) for number in range(40)]
    with (
        LocalServer(fault=lambda asked: "gone" if asked.text == "#20" else None) as server,
        pytest.raises(DataError, match=r"the server is gone.*asks only the rest"),
    ):
        run(server, questions, tmp_path, concurrency=2, retries=1)
    answered = server.answers()
    assert 19 <= len(answered) < 40
    with LocalServer() as other:
        _, answers = run(other, questions, tmp_path)
    assert right(questions, answers)
    kept = {line["question"] for line in map(json.loads, (tmp_path / "answers.jsonl").open(encoding="utf-8"))}
    assert len(kept) == 40
    assert len(other.asked) <= 40 - len(answered) + 2  # those under way when it went


def test_a_refused_key_stops_at_once(tmp_path: Path) -> None:
    with (
        LocalServer(fault=lambda _: "403") as server,
        pytest.raises(DataError, match=r"tiny can answer nothing.*HTTP 403.*0 answers are kept"),
    ):
        run(server, [coloured(number) for number in range(60)], tmp_path, concurrency=3)
    assert len(server.asked) <= 3
