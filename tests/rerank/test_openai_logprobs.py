"""Servers that give log-probabilities always, never, or now and then."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muvr_train.errors import AnswererError
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answer, Question
from tests.rerank.local_server import Asked, LocalServer

GIVEN = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -3.0}]}]}


def choice(with_them: bool) -> dict[str, Any]:
    given = {"logprobs": GIVEN} if with_them else {}
    return {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop", **given}


def counted(has: Callable[[int, Asked], bool]) -> Callable[[Asked], dict[str, Any]]:
    """Answer by the number of the request, from 1, and what it asks."""
    lock, numbers = threading.Lock(), iter(range(1, 10_000))

    def answer(asked: Asked) -> dict[str, Any]:
        with lock:
            number = next(numbers)
        return choice(has(number, asked))

    return answer


def run(server: LocalServer, number: int, folder: Path, **settings: Any) -> dict[str, Answer]:
    answerer = OpenAIServer("tiny", server.url, **settings)
    answerer.sleep = lambda _: True  # type: ignore[assignment]
    questions = [Question(f"q{one}", "s", (f"#{one}",), ("yes", "no"), "yes") for one in range(number)]
    try:
        with AnswerFile(folder / "answers.jsonl") as file:
            return {answer.question: answer for answer in ask(answerer, questions, file, logprobs=True).values()}
    finally:
        answerer.close()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_replies_that_lack_them_now_and_then_are_asked_for_again(tmp_path: Path, concurrency: int, first: int) -> None:
    with LocalServer(counted(lambda number, _: number % 2 == first)) as server:
        answers = run(server, 30, tmp_path, concurrency=concurrency, retries=50)
    assert {name: dict(one.tokens or {}) for name, one in answers.items()} == {
        f"q{number}": {"yes": -0.1, "no": -3.0} for number in range(30)
    }


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_question_whose_replies_never_have_them_fails_alone(tmp_path: Path, concurrency: int) -> None:
    bad = {"#9", "#20"}
    with LocalServer(counted(lambda _, asked: asked.text not in bad)) as server:
        answers = run(server, 30, tmp_path, concurrency=concurrency, retries=4)
    failed = {name: one.reason for name, one in answers.items() if not one.answered}
    assert failed == dict.fromkeys(("q9", "q20"), "the reply has no log-probabilities of tokens (5 tries)")
    assert Counter(asked.text for asked in server.asked)["#9"] == 5


@pytest.mark.parametrize("retries", [0, 6])
@pytest.mark.parametrize("concurrency", [1, 6])
def test_a_server_that_never_gives_them_stops_the_run_soon(tmp_path: Path, concurrency: int, retries: int) -> None:
    message = r"tiny can answer nothing: the server gives no log-probabilities of tokens.*decision=text.*0 answers"
    with LocalServer(counted(lambda *_: False)) as server, pytest.raises(AnswererError, match=message):
        run(server, 60, tmp_path, concurrency=concurrency, retries=retries)
    assert len(server.asked) <= max(3, 2 * concurrency)
