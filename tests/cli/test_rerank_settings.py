"""Impossible settings of reranking: named before anything is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

COIN = ("rerank=keep_drop", "answerer=coin")
SERVER = ("answerer=openai", "answerer.model=m", "answerer.base_url=http://localhost:8000/v1")
FIVR = ("model=frame_max", "benchmark=fivr_5k", "benchmark.annotations=a", "data.features=b")
MISTAKES = [
    (["model=frame_max", "rerank=keep_drop"], r"rerank=keep_drop asks a model .* add answerer=NAME"),
    (
        ["model=frame_max", "rerank=probability", "answerer=oracle"],
        r"Oracle has no log-probabilities; add rerank.decision=text",
    ),
    (["model=frame_max", "rerank=keep_drop", "answerer=coin", "rerank.top_k=0"], r"rerank.top_k=0 is not possible"),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=coin", "rerank.method=drop"],
        r"rerank.method=drop .*keep_drop \| probability",
    ),
    (["model=frame_max", "rerank=keep_drop", "answerer=coin", "rerank.languages=[xx]"], r"not known in 'xx'"),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=coin", "rerank.frmes=2"],
        r"rerank.frmes: there is no such setting",
    ),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=coin", "benchmark.modes=[v]", "rerank.mode=tv"],
        r"rerank.mode=tv is not evaluated: benchmark.modes=\['v'\]",
    ),
    ([*FIVR, "rerank=keep_drop", *SERVER], r"rerank=keep_drop shows videos to the answerer: add data.videos=DIR"),
    ([*FIVR, *COIN, "rerank.comparison=text"], r"queries of benchmark=fivr_5k have no description"),
    ([*FIVR, *COIN, "rerank.mode=tv"], r"rerank.mode=tv is not evaluated: benchmark=fivr_5k has v"),
    (
        ["scores=x.npz", "data=muvr", "data.annotations=a", "rerank=keep_drop", *SERVER],
        r"rerank=keep_drop shows videos to the answerer: add data.videos=DIR",
    ),
    (
        ["scores=x.npz", "data=folder", "data.videos=v", "rerank=keep_drop", *SERVER],
        r"shows edited copies to the answerer, .* add data.features=STORE",
    ),
    (
        ["model=frame_max", *COIN, "rerank.mode=zz"],
        r"rerank.mode=zz is not evaluated: benchmark=muvr_base has v, t, tv",
    ),
    (
        ["model=frame_max", "benchmark=muvr_filter", *COIN, "rerank.mode=tag_0.0", "benchmark.tag_mode=[10,0]"],
        r"rerank.mode=tag_0.0 is not evaluated: .* first benchmark.tag_mode is reranked, tag_10",
    ),
    (["scores=x.npz", *COIN, "rerank.mode=tv"], r"rerank.mode= changes nothing here: a file of scores has one mode"),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=fixed_letter"],
        r"rerank=keep_drop asks for yes or no, and FixedLetter says a letter",
    ),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=file", "answerer.path=/nowhere"],
        r"answerer.path=/nowhere: there is no such file",
    ),
    (
        ["model=frame_max", "rerank=keep_drop", "answerer=openai", "answerer.model=m"],
        r"variable OPENAI_API_KEY holds no key: set it, or give answerer.base_url=URL",
    ),
    (
        ["model=frame_max", *COIN, "rerank.comparison=text", "rerank.query_frames=3"],
        r"rerank.query_frames= changes nothing here: rerank.comparison=text shows no frame of the query",
    ),
    (["benchmark=muvr_qa", "rerank=keep_drop", "answerer=coin"], r"rerank= cannot go with benchmark=muvr_qa"),
    (["model=frame_max", "rerank=null", "answerer=coin"], r"rerank"),
]


@pytest.mark.parametrize(("typed", "message"), MISTAKES)
def test_mistakes_are_named_before_anything_is_loaded(
    typed: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    np.savez("x.npz", a=np.zeros(1))
    with pytest.raises(ConfigError, match=message):
        cli.prepare(typed, "evaluate")


QUESTIONS = ["benchmark.questions=q", "data.videos=v"]
TAKEN = [
    [*FIVR, *COIN],
    [*FIVR, "rerank=keep_drop", *SERVER, "data.videos=v"],
    ["model=frame_max", *COIN, "rerank.mode=v", "benchmark.modes=[v,tv]"],
    ["model=frame_max", "benchmark=muvr_filter", *COIN, "rerank.mode=tag_0.3"],
    ["model=frame_max", "data=folder", "data.videos=v", "rerank=keep_drop", *SERVER],
    ["scores=x.npz", "data=folder", "data.videos=v", "data.features=s", "rerank=keep_drop", *SERVER],
    ["model=frame_max", *COIN, "rerank.comparison=text", "rerank.masks=m"],  # places of files may stand there unread
    ["-m", "benchmark=muvr_qa", "answerer=coin", *QUESTIONS, "benchmark.comparison=images,text", "data.masks=m"],
    ["-m", "benchmark=iv_bench", "answerer=coin", *QUESTIONS, "benchmark.image=given,none", "data.images=i"],
]


@pytest.mark.parametrize("typed", TAKEN)
def test_what_can_be_reranked(typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    np.savez("x.npz", a=np.zeros(1))
    assert cli.prepare(typed, "evaluate")


def test_a_key_or_an_address_in_the_environment_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed = ["model=frame_max", "rerank=keep_drop", "answerer=openai", "answerer.model=m"]
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "http://localhost:8000/v1")
            assert cli.prepare(typed, "evaluate")


def test_reranking_is_no_part_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=r"rerank= is no setting of this program \(train\)"):
        cli.prepare(["rerank=keep_drop"], "train")
