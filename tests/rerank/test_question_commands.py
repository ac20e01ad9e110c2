"""What the command line of questions refuses, names and limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from muvr_train import cli
from muvr_train.benchmarks.muvr_qa import QaPair, QaRow
from muvr_train.errors import ConfigError, DataError
from muvr_train.runner.question_sets import limited
from tests.rerank.question_runs import evaluate, lines, metrics, results, start

QA = ("benchmark=muvr_qa", "answerer=oracle", "benchmark.report=false")
IV = ("benchmark=iv_bench", "answerer=oracle", "benchmark.report=false")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def pairs(partition: str, count: int) -> list[QaPair]:
    return [QaPair(partition, QaRow(f"q{n}", "t", 1, "text"), QaRow(f"q{n}", "f", 0, "text")) for n in range(count)]


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        (None, {"news": 3, "dance": 1, "region": 5}),
        (1, {"news": 1}),
        (2, {"news": 1}),
        (3, {"news": 1, "dance": 1}),
        (7, {"news": 2, "dance": 1, "region": 1}),
        (14, {"news": 3, "dance": 1, "region": 3}),
        (100, {"news": 3, "dance": 1, "region": 5}),
    ],
)
def test_limits_count_questions_evenly_over_partitions(limit: int | None, counts: dict[str, int]) -> None:
    every = {"news": pairs("news", 3), "dance": pairs("dance", 1), "region": pairs("region", 5)}
    kept = limited(every, limit)
    assert {name: len(some) for name, some in kept.items()} == counts
    assert all(some == every[name][: len(some)] for name, some in kept.items())


@pytest.mark.parametrize(("base", "asked", "there"), [(QA, 8, 20), (IV, 7, 20)])
def test_a_limit_counts_questions_and_is_told(base: tuple[str, ...], asked: int, there: int) -> None:
    evaluate(*base, "benchmark.limit=7", "out=o")
    meta = results("o")["meta"]
    assert meta["counts"]["questions"] == asked
    assert f"limited to {asked} of {there} questions (benchmark.limit)" in meta["corpus"]


@pytest.mark.parametrize(
    ("base", "setting", "name"),
    [
        (QA, "benchmark.tags=false", "images_6f_no_tags"),
        (IV, "benchmark.reasoning=true", "after_32f_reasoning"),
        (IV, "benchmark.duplicates=keep", "after_32f_kept"),
        (IV, "benchmark.resolution=448", "after_32f_448px"),
    ],
)
def test_other_experiments_have_names_of_their_own_and_the_oracle_is_right(
    base: tuple[str, ...], setting: str, name: str
) -> None:
    evaluate(*base, setting, "out=o")
    whole = "all" if base is QA else "overall"
    assert metrics("o")[name, whole]["accuracy"] == 1.0


def test_answers_that_were_there_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    evaluate(*QA, "out=o")
    assert results("o")["meta"]["counts"]["from_file"] == 0
    with caplog.at_level("INFO"):
        evaluate(*QA, "benchmark.frames=[6,1]", "out=o")
    assert "20 of 40 answers were there already (o/answers.jsonl), 20 asked" in caplog.text
    assert results("o")["meta"]["counts"]["from_file"] == 20


def test_unreadable_answers_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(*QA, "out=o")
    asked = [json.loads(line) for line in Path("o/questions.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = ["Vielleicht", "yes or no", *["ja"] * 18]
    answers = [{**one, "text": text} for one, text in zip(asked, texts, strict=True)]
    answers[2] |= {"text": "Well, the", "finish": "length"}
    Path("a.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in answers), encoding="utf-8")
    capsys.readouterr()
    evaluate("benchmark=muvr_qa", "answerer=file", "answerer.path=a.jsonl", "benchmark.report=false", "out=p")
    shown = capsys.readouterr().out
    assert (
        '20 of 20 answers could not be read, e.g. "Vielleicht" (18 no choice named, 1 several named, 1 cut off)'
        in shown
    )
    assert "answerer.max_tokens" in shown
    assert "benchmark.languages" in shown
    assert [line["reason"] for line in lines("p")][:4] == [
        "no choice named",
        "several named",
        "cut off",
        "no choice named",
    ]


def test_files_that_may_be_missing_do_not_fail_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"Query": "q", "Target": f"t{label}", "Label": label, "prompt_en": "a dog", "Tag": ""} for label in (1, 0)]
    (tmp_path / "news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (tmp_path / "videos").mkdir()
    (tmp_path / "one.py").write_text(
        "from muvr_train.rerank.types import Answerer, Reply\n\n\n"
        "class One(Answerer):\n    def answer(self, request):\n        return Reply('yes')\n"
    )
    (tmp_path / "my_configs" / "answerer").mkdir(parents=True)
    (tmp_path / "my_configs" / "answerer" / "one.yaml").write_text("_target_: one.One\n")
    base = ("benchmark=muvr_qa", "answerer=one", "benchmark.questions=news.jsonl", "data.videos=videos", "out=o")
    evaluate(*base, "benchmark.missing=wrong", extra=tmp_path / "my_configs")
    assert "2 of 2 questions lack 3 files" in caplog.text
    assert "2 of 2 questions failed and count as wrong" in capsys.readouterr().out
    with pytest.raises(DataError, match=r"data\.videos=videos: holds no video file"):
        evaluate(*base, extra=tmp_path / "my_configs")


def test_masks_that_no_query_has_are_told(tmp_path: Path) -> None:
    rows = [{"Query": "q", "Target": f"t{label}", "Label": label, "prompt_en": "a dog", "Tag": ""} for label in (1, 0)]
    (tmp_path / "news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (tmp_path / "masks").mkdir()
    evaluate(*QA, "benchmark.questions=news.jsonl", "data.masks=masks", "out=o")
    assert any("masks of 0 of the 1 queries" in note for note in results("o")["meta"]["notes"])


def test_runs_of_a_sweep_are_named_by_what_each_asks(tmp_path: Path) -> None:
    ended = start(tmp_path, "-m", "benchmark=muvr_qa,iv_bench", "answerer=coin,oracle", *QA[2:], "benchmark.limit=2")
    assert ended.returncode == 0, ended.stderr
    names = sorted(path.name for path in Path("outputs").iterdir())
    starts = ["iv_bench-coin", "iv_bench-oracle", "multirun.yaml", "muvr_qa-coin", "muvr_qa-oracle"]
    assert all(name.startswith(begin) for name, begin in zip(names, starts, strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


@pytest.mark.parametrize("subject", [QA[:2], ("model=frame_max",)])
@pytest.mark.parametrize(
    ("out", "why"), [("file", "is a file and no folder"), ("file/deeper", "is a file"), ("x" * 300, "cannot be made")]
)
def test_a_folder_that_cannot_be_made_is_refused_at_once(subject: tuple[str, ...], out: str, why: str) -> None:
    Path("file").touch()
    with pytest.raises(ConfigError, match=f"out={out}.*{why}"):
        cli.prepare([*subject, f"out={out}"], "evaluate")
    cli.prepare([*subject, "out=a/b/c"], "evaluate")
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("answerer=retriever",), r"answerer\.scores must be given: add answerer\.scores=FILE.*save_scores=true"),
        (("answerer=file",), r"answerer\.path must be given: add answerer\.path=FILE.*questions\.jsonl"),
        (("answerer=openai",), r"answerer\.model must be given: add answerer\.model=NAME"),
        (("answerer=coin", "benchmark.languages=[xx]"), r"benchmark\.languages=\[xx\]: yes and no are not known"),
        (("answerer=coin", "benchmark.frame=3"), "did you mean 'benchmark.frames'"),
    ],
)
def test_messages_say_what_to_give(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        cli.prepare(["benchmark=muvr_qa", *arguments], "evaluate")


def test_names_of_what_no_question_needs_are_not_proposed() -> None:
    for typed in ("residencyy=ram", "benchmark.batch_size=3", "scoring_precisio=32"):
        with pytest.raises(ConfigError, match="there is no such setting") as error:
            cli.prepare([*QA[:2], typed], "evaluate")
        assert not any(name in str(error.value) for name in ("'residency", "encoder.", "'scoring_precision'"))
