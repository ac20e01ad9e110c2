"""Before the first question: settings, keys, proxies, and whether the server is there and knows the model."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.types import AnswerError
from tests.rerank.local_server import LocalServer
from tests.rerank.server_asking import Asking, failing, request


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
        assert (server.asked[0].body["model"], server.asked[0].body["max_tokens"]) == ("tiny", 16)


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
        ({"temperature": float("inf")}, "answerer.temperature"),
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
        ({"max_side": "big"}, "answerer.max_side must be a whole number above 0, or null, got 'big'"),
        ({"max_side": 9.5}, "answerer.max_side"),
        ({"max_image_mb": True}, "answerer.max_image_mb"),
        ({"frame_times": "no"}, "answerer.frame_times must be true or false, got 'no'"),
        ({"system": 3}, "answerer.system must be a text or null, got 3"),
        ({"base_url": 8000}, "answerer.base_url must be a text"),
        ({"extra": "top_k=1"}, "answerer.extra must be keys with values"),
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
        "max_image_mb": 1.0, "max_request_mb": None,
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
