"""What the command line of questions refuses before anything is loaded, and how it names a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError
from tests.rerank.question_runs import evaluate


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


SERVER = ("answerer=openai", "answerer.model=m", "answerer.base_url=http://localhost:8000/v1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["benchmark=muvr_qa"], "asks a model: add answerer="),
        (["benchmark=muvr_qa", "answerer=always_ye"], "did you mean 'always_yes'"),
        (["benchmark=muvr_qa", "answerer=coin", "model=frame_max"], "model= cannot go with benchmark=muvr_qa"),
        (["benchmark=muvr_qa", "answerer=coin", "scores=x.npz"], "answerer=retriever answerer.scores=FILE"),
        (["benchmark=muvr_qa", "answerer=coin", "ckpt_path=x.ckpt"], "ckpt_path= cannot go with"),
        (["benchmark=muvr_qa", "answerer=coin", "save_scores=true"], "save_scores= cannot go with"),
        (["benchmark=muvr_qa", "answerer=coin", "calibration=[centring]"], "calibration= cannot go with"),
        (["benchmark=muvr_qa", "answerer=coin", "seed=1"], "a coin's tosses are answerer.seed"),
        (["benchmark=muvr_qa", "answerer=coin", "on_missing=official"], "benchmark.missing=error|wrong"),
        (["benchmark=muvr_qa", "answerer=coin", "data=muvr"], "do not go together: leave data= out"),
        (["benchmark=muvr_qa", "answerer=coin", "benchmark.frame=3"], "did you mean 'benchmark.frames'"),
        (["benchmark=muvr_qa", "answerer=coin", "benchmark.frames=0"], "whole number >= 1"),
        (["benchmark=muvr_qa", "answerer=coin", "benchmark.missing=skip"], "error | wrong"),
        (["benchmark=muvr_qa", "answerer=coin", "benchmark.decision=logprob"], "Coin has no log-probabilities"),
        (["benchmark=muvr_qa", "answerer=coin", "benchmark.languages=[xx]"], "not known in 'xx'"),
        (["benchmark=muvr_qa", "answerer=coin", "data.videos=x"], "needs benchmark.questions=FILE"),
        (["benchmark=muvr_qa", "answerer=file"], "answerer.path must be given"),
        (["benchmark=iv_bench", "answerer=coin", "benchmark.video=false"], "add benchmark.image=none"),
        (["benchmark=iv_bench", *SERVER, "benchmark.questions=x"], "add data.videos=DIR"),
        (
            ["benchmark=iv_bench", "answerer=always_no"],
            "benchmark=iv_bench asks for a letter, and AlwaysNo says yes or no",
        ),
        (["benchmark=iv_bench", "answerer=retriever", "answerer.scores=x"], "Retriever says yes or no"),
        (["benchmark=muvr_qa", "answerer=fixed_letter"], "benchmark=muvr_qa asks for yes or no, and FixedLetter says"),
        (["benchmark=muvr_qa", "answerer=file", "answerer.path=/nowhere"], "answerer.path=/nowhere: there is no such"),
        (["benchmark=muvr_qa", "answerer=file", "answerer.path=/"], "answerer.path=/: is a folder"),
        (
            ["benchmark=muvr_qa", "answerer=coin", "benchmark.comparison=text", "benchmark.query_frames=2"],
            "benchmark.query_frames= changes nothing here",
        ),
        (
            ["benchmark=iv_bench", "answerer=coin", "benchmark.image=none", "benchmark.image_position=before"],
            "benchmark.image_position= changes nothing here: benchmark.image=none shows no image",
        ),
        (
            [
                *("benchmark=iv_bench", "answerer=coin", "benchmark.image=none"),
                "benchmark.video=false",
                "benchmark.frames=8",
            ],
            "benchmark.frames= changes nothing here: benchmark.video=false shows no video",
        ),
        (
            ["benchmark=iv_bench", "answerer=coin", "benchmark.report=false", "benchmark.report_items=8"],
            "benchmark.report_items= changes nothing here",
        ),
        (["benchmark=iv_bench", "answerer=coin", "benchmark.languages=[en]"], "benchmark=muvr_qa would have it"),
        (["model=frame_max", "answerer=coin"], "answerer= is of runs that ask questions"),
        (["model=frame_max", "answers=x.jsonl"], "answers= is of runs that ask questions"),
        (["model=frame_max", "data=questions"], "data=questions is of benchmark=muvr_qa, iv_bench"),
    ],
)
def test_impossible_settings_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cli.prepare([*arguments, "out=o"], "evaluate")
    assert message in str(caught.value)


def test_nothing_is_trained_on_questions() -> None:
    with pytest.raises(ConfigError, match="asks a model and trains none"):
        cli.prepare(["benchmark=muvr_qa"], "train")


def test_results_of_another_kind_are_not_replaced_silently(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "out=o", "benchmark.report=false")
    evaluate(*base, "answerer=coin")
    cli.prepare([*base, "answerer=coin"], "evaluate")
    cli.prepare([*base, "answerer=coin", "benchmark.report=true", "benchmark.report_items=3"], "evaluate")
    relative = os.path.relpath(questions)
    cli.prepare([*base, "answerer=coin", f"benchmark.questions={relative}"], "evaluate")
    cli.prepare([*base, "answerer=always_no", "overwrite=true"], "evaluate")
    assert "replace" not in capsys.readouterr().err
    cli.prepare([*base, "answerer=always_no"], "evaluate")
    assert "out=o holds results of coin: those of always_no replace them" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="out=o holds results of coin, and those of frame_max would replace them"):
        cli.prepare(["model=frame_max", "out=o"], "evaluate")
    cli.prepare(["benchmark=iv_bench", "answerer=coin", "out=o"], "evaluate")
    told = capsys.readouterr().err
    assert told.count("replace them") == 1
    assert "benchmark." not in told


@pytest.mark.parametrize(
    ("settings", "old", "new"),
    [
        (["benchmark.limit=4"], "benchmark.limit=null", "benchmark.limit=4"),
        (["benchmark.frames=12"], "benchmark.frames=6", "benchmark.frames=12"),
        (["benchmark.frames=[6,12]"], "benchmark.frames=6", "benchmark.frames=[6,12]"),
        (["benchmark.resolution=64"], "benchmark.resolution=null", "benchmark.resolution=64"),
        (["benchmark.tags=false"], "benchmark.tags=true", "benchmark.tags=false"),
        (["benchmark.comparison=text"], "benchmark.comparison=images", "benchmark.comparison=text"),
        (["benchmark.languages=[en,de]"], "benchmark.languages=[en]", "benchmark.languages=[en,de]"),
        (["benchmark.missing=wrong"], "benchmark.missing=error", "benchmark.missing=wrong"),
        (["data.masks=somewhere"], "data.masks=null", "data.masks=somewhere"),
        (["answerer.seed=1"], "answerer.seed=0", "answerer.seed=1"),
        (
            ["benchmark.limit=4", "benchmark.frames=3"],
            "benchmark.frames=6, benchmark.limit=null",
            "benchmark.frames=3, benchmark.limit=4",
        ),
    ],
)
def test_results_of_other_settings_are_not_replaced_silently(
    questions: Path, capsys: pytest.CaptureFixture[str], settings: list[str], old: str, new: str
) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "out=o", "benchmark.report=false", "answerer=coin")
    evaluate(*base)
    capsys.readouterr()
    cli.prepare([*base, *settings], "evaluate")
    told = capsys.readouterr().err.replace("'", "")
    assert told == (
        f"warning: out=o holds results of coin with {old}: those of coin with {new} replace them; choose another out= "
        "to keep them (answers stay in the file of answers)\n"
    )


def test_other_questions_are_named(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("benchmark=muvr_qa", "answerer=coin", "out=o", "benchmark.report=false")
    evaluate(*base)
    capsys.readouterr()
    cli.prepare([*base, f"benchmark.questions={questions}"], "evaluate")
    told = capsys.readouterr().err
    assert "results of coin with benchmark.questions=null: those of coin with benchmark.questions=" in told


def test_a_run_without_a_folder_is_named_by_what_is_asked() -> None:
    completed = cli.prepare(["benchmark=iv_bench", "answerer=coin"], "evaluate")
    assert any(text.startswith("out='outputs/iv_bench-coin-") for text in completed)
    assert "data=questions" in completed
