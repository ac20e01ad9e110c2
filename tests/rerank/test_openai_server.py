"""The answerer against a real server on this machine: one question at a time, every kind of trouble alone."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest

from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.types import AnswerError, Clip, Picture, Reply
from tests.rerank.local_server import LocalServer
from tests.rerank.server_asking import Asking, failing, plain, request


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MY_KEY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_texts_and_pixels_arrive_in_order() -> None:
    parts = ("Look", Picture(plain("red")), "then", Clip((plain("green"), plain("blue"), plain("white"))), "Well, 何?")
    with LocalServer() as server, Asking(server) as asking:
        assert asking.ask(*parts) == Reply("Look red then green blue white Well, 何?", None, 7, 2, finish="stop")
        (asked,) = server.asked
    assert [getattr(part, "shape", part) for part in asked.shown] == [
        "Look", (24, 32, 3), "then", (24, 32, 3), (24, 32, 3), (24, 32, 3), "Well, 何?",
    ]  # fmt: skip


def test_the_body_says_what_the_settings_say() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}
    settings: dict[str, Any] = {
        "temperature": None, "seed": None, "system": "Be brief. Ü", "max_tokens": 99, "extra": extra,
        "max_tokens_key": "max_completion_tokens", "top_logprobs": 5, "frame_times": True, "detail": "low",
    }  # fmt: skip
    with LocalServer() as server:
        with Asking(server) as asking:
            asking.ask()
        with Asking(server, retries=0, **settings) as asking, pytest.raises(AnswerError, match="log-prob"):
            asking.ask(Clip((plain("red"),), (1.5,)), logprobs=True)
        first, second = (asked.body for asked in server.asked)
    assert first == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Does it match?"}],
        "temperature": 0.0,
        "seed": 0,
        "max_tokens": 16,
    }
    image = second["messages"][1]["content"].pop(1)
    assert image["image_url"]["detail"] == "low"
    assert second == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief. Ü"},
            {"role": "user", "content": [{"type": "text", "text": "[1.5 s]"}]},
        ],
        "max_completion_tokens": 99,
        "logprobs": True,
        "top_logprobs": 5,
        **extra,
    }


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("500", "HTTP 500"),
        ("503", "HTTP 503"),
        ("408", "HTTP 408"),
        ("409", "HTTP 409"),
        ("429", "HTTP 429"),
        ("drop", "connection"),
        ("truncate", "connection"),
        ("slow", "timeout"),
        ("malformed", "malformed JSON"),
        ("no_choices", "no message"),
        ("null", "no text"),
    ],
)
def test_passing_trouble_is_asked_again(fault: str, kind: str) -> None:
    faults, timeout = ([fault], 2) if fault == "slow" else ([fault] * 3, 300)
    with LocalServer(fault=failing(*faults)) as server, Asking(server, timeout=timeout, back_off=4.0) as asking:
        assert asking.ask("Red?").text == "Red?"
        assert asking.answerer.requests == len(server.asked) == len(faults) + 1
        assert asking.answerer.failures == {kind: len(faults)}
    assert len({json.dumps(asked.body) for asked in server.asked}) == 1
    assert len(asking.pauses) == len(faults)
    assert all(2 * 2**tries <= pause <= 4 * 2**tries for tries, pause in enumerate(asking.pauses))


@pytest.mark.parametrize("fault", ["500", "drop", "malformed", "slow"])
def test_trouble_that_does_not_pass_fails_the_question_alone(fault: str) -> None:
    with LocalServer(fault=lambda _: fault) as server, Asking(server, retries=2, timeout=0.3) as asking:
        with pytest.raises(AnswerError, match="3 tries") as error:
            asking.ask()
        assert not error.value.fatal
        assert len(server.asked) == 3
        assert len(asking.pauses) == 2


def test_without_retries_there_is_one_try() -> None:
    with LocalServer(fault=failing("500")) as server, Asking(server, retries=0) as asking:
        with pytest.raises(AnswerError, match=r"^HTTP 500: so it is$"):
            asking.ask()
        assert asking.pauses == []


@pytest.mark.parametrize(("retry_after", "least", "most"), [("9", 9, 9), ("86400", 60, 60), ("soon", 0.5, 1)])
def test_the_servers_wish_for_a_pause_is_respected(retry_after: str, least: float, most: float) -> None:
    with LocalServer(fault=failing("429"), retry_after=retry_after) as server, Asking(server) as asking:
        asking.ask()
    assert least <= asking.pauses[0] <= most


@pytest.mark.parametrize("status", ["400", "413", "422"])
def test_a_refused_question_fails_at_once_with_the_servers_words(status: str) -> None:
    says = {"error": {"message": "maximum context length is 4096 tokens, " + "x" * 900}}
    with LocalServer(fault=failing(status), says=says) as server, Asking(server) as asking:
        with pytest.raises(AnswerError, match=f"HTTP {status}: maximum context length is 4096 tokens") as error:
            asking.ask()
        assert not error.value.fatal
        assert len(str(error.value)) < 450
        assert ("max_request_mb" in str(error.value)) == (status == "413")
        assert len(server.asked) == 1
        assert asking.ask("Next").text == "Next"


@pytest.mark.parametrize("status", ["401", "402", "403", "404", "405"])
def test_what_no_question_can_get_past_is_fatal(status: str) -> None:
    with LocalServer(fault=failing(status)) as server, Asking(server) as asking:
        with pytest.raises(AnswerError, match=f"HTTP {status}: so it is") as error:
            asking.ask()
        assert error.value.fatal
        assert server.url in str(error.value)
        assert len(server.asked) == 1


def test_a_spent_account_is_not_asked_again() -> None:
    says = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    with LocalServer(fault=failing("429"), says=says) as server, Asking(server) as asking:
        with pytest.raises(AnswerError, match="current quota") as error:
            asking.ask()
        assert error.value.fatal


def test_log_probabilities() -> None:
    top = [{"token": "Yes", "logprob": -0.2}, {"token": "はい", "logprob": -2.0}]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Yes"},
        "logprobs": {"content": [{"token": "Yes", "logprob": -0.2, "top_logprobs": top}]},
    }
    with LocalServer(answer=lambda _: choice) as server, Asking(server) as asking:
        assert asking.ask(logprobs=True).tokens == {"Yes": -0.2, "はい": -2.0}
        assert asking.ask().tokens is None
        bodies = [asked.body for asked in server.asked]
    assert (bodies[0]["logprobs"], bodies[0]["top_logprobs"]) == (True, 20)
    assert "logprobs" not in bodies[1]


def test_a_server_that_refuses_log_probabilities_stops_the_run() -> None:
    says = {"message": "Requested sample logprobs of 20, which is greater than max allowed: 5"}
    with LocalServer(fault=failing("400", "400"), says=says) as server, Asking(server) as asking:
        with pytest.raises(AnswerError, match=r"max allowed: 5; answerer\.top_logprobs.*decision=text") as error:
            asking.ask(logprobs=True)
        assert error.value.fatal
        with pytest.raises(AnswerError) as error:
            asking.ask()
        assert not error.value.fatal


def test_huge_images_are_bounded_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    huge = np.random.default_rng(0).integers(0, 256, (1500, 2500, 3), dtype=np.uint8)
    with LocalServer() as server, Asking(server, max_request_mb=0.5, max_side=1200) as asking:
        for _ in range(2):
            asking.ask(Picture(huge), Picture(huge), "Well?")
        assert all(asked.size <= 500_000 for asked in server.asked)
        assert server.asked[0].content == server.asked[1].content
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "2 images of question q1" in said[0]
    assert "max_request_mb=0.5" in said[0]


def test_a_server_that_goes_away_is_fatal_after_the_retries() -> None:
    with LocalServer(fault=failing(None, "gone")) as server, Asking(server, retries=1, timeout=5) as asking:
        asking.ask()
        with pytest.raises(AnswerError, match=r"the server is gone: no answer from the server http.*2 tries") as error:
            asking.ask()
        assert error.value.fatal


def test_closing_ends_waits_and_says_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    with LocalServer(fault=lambda _: "500") as server:
        answerer = OpenAIServer("tiny", server.url, back_off=50)
        answerer.sleep = lambda _: (answerer.close(), True)[1]
        with caplog.at_level(logging.INFO), pytest.raises(AnswerError, match="stopped"):
            answerer.answer(request())
    assert "1 requests, of which failed: 1 x HTTP 500" in caplog.text
