"""The answerer against a real server on this machine: one question at a time, every kind of trouble alone."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.types import AnswerError, Clip, Part, Picture, Question, Reply, Request
from tests.rerank.local_server import COLOURS, LocalServer


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MY_KEY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def plain(name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((24, 32, 3), COLOURS[name], np.uint8)


def request(*parts: Part, logprobs: bool = False, max_tokens: int = 16) -> Request:
    question = Question("q1", "images_1f", (), ("yes", "no"), "yes", max_tokens)
    return Request(parts or ("Does it match?",), question, logprobs)


class Asking:
    """An answerer whose pauses are written down instead of waited for."""

    def __init__(self, server: LocalServer, **settings: Any) -> None:
        self.answerer = OpenAIServer("tiny", server.url, **settings)
        self.pauses: list[float] = []
        self.answerer.sleep = self.pauses.append  # type: ignore[assignment]

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *error: object) -> None:
        self.answerer.close()

    def ask(self, *parts: Part, **more: Any) -> Reply:
        return self.answerer.answer(request(*parts, **more))


def failing(*faults: str | None) -> Any:
    """One fault after another, then none."""
    left = list(faults)
    return lambda _: left.pop(0) if left else None


def test_texts_and_pixels_arrive_in_order() -> None:
    parts = ("Look", Picture(plain("red")), "then", Clip((plain("green"), plain("blue"), plain("white"))), "Well, 何?")
    with LocalServer() as server, Asking(server) as asking:
        assert asking.ask(*parts) == Reply("Look red then green blue white Well, 何?", None, 7, 2)
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
        with Asking(server, **settings) as asking, pytest.raises(AnswerError, match="log-prob"):
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
        assert asking.answerer.repeated == {kind: len(faults)}
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


def test_closing_ends_waits_and_says_what_was_repeated(caplog: pytest.LogCaptureFixture) -> None:
    with LocalServer(fault=lambda _: "500") as server:
        answerer = OpenAIServer("tiny", server.url, back_off=50)
        answerer.sleep = lambda _: (answerer.close(), True)[1]
        with caplog.at_level(logging.INFO), pytest.raises(AnswerError, match="stopped"):
            answerer.answer(request())
    assert "1 requests, of which failed: 1 x HTTP 500" in caplog.text


# prepare


def test_prepare_asks_nothing_of_a_server_that_lists_the_model() -> None:
    with LocalServer(models=("other", "tiny")) as server, Asking(server) as asking:
        asking.answerer.prepare()
        assert (server.listed, len(server.asked)) == (1, 0)


@pytest.mark.parametrize("models", [None, (), ("tin*",)])
def test_prepare_believes_servers_that_list_nothing_or_patterns(models: tuple[str, ...] | None) -> None:
    with LocalServer(models=models) as server, Asking(server) as asking:
        asking.answerer.prepare()
        assert len(server.asked) == 0


@pytest.mark.parametrize("status", ["400", "404", "422"])
def test_prepare_names_the_nearest_models(status: str) -> None:
    models = ("Qwen/Qwen2.5-VL-7B-Instruct", "OpenGVLab/InternVL3-8B")
    with LocalServer(models=models, fault=failing(status)) as server:
        answerer = OpenAIServer("Qwen/Qwen2.5-VL-7B-Instuct", server.url)
        with pytest.raises(ConfigError, match=r"did you mean 'Qwen/Qwen2\.5-VL-7B-Instruct'\?.*so it is") as error:
            answerer.prepare()
        assert "answerer.model=Qwen/Qwen2.5-VL-7B-Instuct" in str(error.value)
        assert "OpenGVLab/InternVL3-8B" in str(error.value)


@pytest.mark.parametrize("fault", [None, "500", "drop"])
def test_prepare_goes_on_with_a_model_that_answers_without_being_listed(fault: str | None) -> None:
    with LocalServer(models=("other",), fault=failing(fault)) as server, Asking(server) as asking:
        asking.answerer.prepare()
        assert len(server.asked) == 1
        assert server.asked[0].body["model"] == "tiny"


def test_prepare_names_a_server_that_is_not_there(free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}/v1"
    with pytest.raises(DataError, match=rf"answerer\.base_url={url}/: no server answers there: .*start it"):
        OpenAIServer("tiny", url).prepare()


def test_keys_come_from_the_environment_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " sk-very-secret\n")
    with LocalServer(key="sk-very-secret") as server:
        asking = Asking(server, api_key_env="MY_KEY")
        asking.answerer.prepare()
        assert asking.ask("Hi").text == "Hi"
        assert "sk-very-secret" not in str(asking.answerer.identity())
    with LocalServer(key="sk-another") as server:
        asking = Asking(server, api_key_env="MY_KEY")
        with pytest.raises(ConfigError, match=r"refuses the key: bad key: Bearer \(the key\)"):
            asking.answerer.prepare()
        with pytest.raises(AnswerError, match=r"HTTP 401: bad key: Bearer \(the key\)"):
            asking.ask()


def test_a_server_of_ones_own_needs_no_key_and_openais_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        answerer = OpenAIServer("tiny")
        answerer.prepare()
        assert answerer.answer(request()).text == "Does it match?"
        assert server.asked[0].headers["authorization"] == "Bearer no-key"
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigError, match=r"the environment has no MY_KEY: export"):
        OpenAIServer("tiny", api_key_env="MY_KEY").prepare()
    monkeypatch.setenv("MY_KEY", "ключ")
    with pytest.raises(ConfigError, match=r"MY_KEY holds characters"):
        OpenAIServer("tiny", api_key_env="MY_KEY").prepare()


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "nonsense"])
def test_proxies_do_not_stand_before_this_machine(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    with LocalServer() as server, Asking(server) as asking:
        asking.answerer.prepare()
        assert asking.ask("Hi").text == "Hi"


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    with pytest.raises(ConfigError, match="proxy of the environment"):
        OpenAIServer("tiny", "http://example.invalid/v1").prepare()


# settings


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model": ""}, "answerer.model"),
        ({"concurrency": 0}, "answerer.concurrency must be a whole number of at least 1, got 0"),
        ({"concurrency": 2.5}, "answerer.concurrency"),
        ({"concurrency": None}, "answerer.concurrency"),
        ({"retries": -1}, "answerer.retries"),
        ({"timeout": 0}, "answerer.timeout must be a number above 0"),
        ({"timeout": float("nan")}, "answerer.timeout"),
        ({"back_off": "1"}, "answerer.back_off"),
        ({"temperature": -0.1}, "answerer.temperature must be a number of at least 0, or null"),
        ({"seed": 1.5}, "answerer.seed"),
        ({"max_tokens": 0}, "answerer.max_tokens"),
        ({"max_tokens_key": "length"}, "max_tokens, max_completion_tokens"),
        ({"top_logprobs": True}, "answerer.top_logprobs"),
        ({"base_url": "localhost:8000/v1"}, "give one such as http://localhost:8000/v1"),
        ({"base_url": "http://me:secret@host/v1"}, "holds a password"),
        ({"base_url": "http://host/v1/chat/completions/"}, "leave out /chat/completions"),
        ({"extra": {"stream": True}}, "answerer.extra.stream"),
        ({"extra": {"temperature": 1}}, "that is set by answerer.temperature"),
        ({"image_format": "gif"}, "answerer.image_format"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        OpenAIServer(**{"model": "tiny", **wrong})
    assert says in str(error.value)
    assert "secret" not in str(error.value)


def test_a_key_in_place_of_its_variable_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="never the key itself") as error:
        OpenAIServer("tiny", api_key_env="sk-very-secret")
    assert "sk-very" not in str(error.value)


def test_identity_is_what_determines_answers() -> None:
    base = OpenAIServer("tiny", "http://a/v1").identity()
    same = OpenAIServer("tiny", "http://b/v1", "MY_KEY", concurrency=99, retries=1, back_off=3, timeout=5).identity()
    assert same == base
    for name, value in {
        "model": "other", "temperature": 0.5, "seed": None, "max_tokens": 5, "system": "x", "extra": {"top_k": 1},
        "detail": "low", "frame_times": True, "image_format": "png", "image_quality": 50, "max_side": 9,
        "max_image_mb": 1.0, "max_request_mb": None, "top_logprobs": 5,
    }.items():  # fmt: skip
        assert OpenAIServer(**{"model": "tiny", name: value}).identity() != base, name
    json.dumps(base, allow_nan=False)


def test_the_settings_can_be_checked_without_the_client_or_torch() -> None:
    code = (
        "import sys; from muvr_train.rerank.answerers.openai_server import OpenAIServer; OpenAIServer('m');"
        "sys.exit(str({'torch', 'openai', 'PIL', 'httpx2'} & set(sys.modules)) if "
        "{'torch', 'openai', 'PIL', 'httpx2'} & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == ""


def test_a_missing_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'muvr-train\[mllm\]'"):
        OpenAIServer("tiny", "http://127.0.0.1:9/v1").prepare()
