"""Impossible settings of reranking: named before anything is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError

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
    (
        [
            "model=frame_max",
            "benchmark=fivr_5k",
            "benchmark.annotations=a",
            "data.features=b",
            "rerank=keep_drop",
            "answerer=coin",
        ],
        r"tasks of benchmark=fivr_5k ask the same queries",
    ),
    (
        ["scores=x.npz", "data=muvr", "data.annotations=a", "rerank=keep_drop", "answerer=openai", "answerer.model=m"],
        r"rerank=keep_drop shows videos to the answerer: add data.videos=DIR",
    ),
    (
        [
            *("model=frame_max", "data=folder", "data.videos=v", "benchmark=copies"),
            *("data.regime=self_supervised", "rerank=keep_drop", "answerer=openai", "answerer.model=m"),
        ],
        r"edited copies of data=folder are no files",
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
    np.savez("x.npz", a=np.zeros(1))
    with pytest.raises(ConfigError, match=message):
        cli.prepare(typed, "evaluate")


def test_reranking_is_no_part_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=r"rerank= is no setting of this program \(train\)"):
        cli.prepare(["rerank=keep_drop"], "train")
