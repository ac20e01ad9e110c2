"""Settings of answerers that cannot be right end a command before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

QA = ("benchmark=muvr_qa", "out=o")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("answerer=openai",), "answerer.model must be given"),
        (("answerer=openai", "answerer.model=m", "answerer.concurrency=0"), "answerer.concurrency must be"),
        (("answerer=openai", "answerer.model=m", "answerer.timeout=soon"), "answerer.timeout must be"),
        (("answerer=openai", "answerer.model=m", "answerer.base_url=localhost:8000/v1"), "http://localhost:8000/v1"),
        (("answerer=openai", "answerer.model=m", "answerer.image_format=gif"), "jpeg, png"),
        (("answerer=openai", "answerer.model=m", "answerer.image_qualty=9"), "did you mean 'answerer.image_quality'"),
        (("answerer=openai", "answerer.model=m", "+answerer.extra.stream=true"), "answerer.extra.stream"),
        (("answerer=openai", "answerer.model=m", "answerer.extra=x"), "answerer.extra must be keys with values"),
        (("answerer=openai", "answerer.model=m", "answerer.extra=0"), "answerer.extra must be keys with values"),
        (("answerer=transformers", "answerer.model=m", "answerer.dtype=int3"), "answerer.dtype=int3"),
        (("answerer=transformers", "answerer.model=m", "answerer.template=x"), "answerer.template must be keys with"),
        (("answerer=transformers", "answerer.model=m", "answerer.processor=x"), "answerer.processor must be keys with"),
        (("answerer=transformers", "answerer.model=m", "answerer.trust_remote_code=maybe"), "must be true or false"),
    ],
)
def test_they_are_named(settings: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as error:
        cli.prepare([*QA, *settings], "evaluate")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        ("answerer.model=Qwen/Qwen2.5-VL-7B-Instruct", "answerer.base_url=http://[::1]:8000/v1"),
        ("answerer.model=/models/größe 7b,q4=x", "answerer.base_url=https://host/v1?a=b", "answerer.max_side=null"),
        ("answerer.model=m", "+answerer.extra.chat_template_kwargs.enable_thinking=false", "answerer.temperature=null"),
    ],
)
def test_right_ones_are_taken_as_typed(
    settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    assert cli.prepare([*QA, "answerer=openai", *settings], "evaluate")
