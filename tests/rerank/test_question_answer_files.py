"""evaluate.py on answers of a file: earlier runs, answers made elsewhere, wrong files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from muvr_train import cli
from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import AnswerFile
from tests.rerank.question_runs import evaluate, metrics, names, results, start


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("benchmark", ["muvr_qa", "iv_bench"])
def test_answers_of_a_file_give_the_same_numbers(shared: Path, benchmark: str) -> None:
    data = {"muvr_qa": "muvr_qa", "iv_bench": "iv_bench/test_data.jsonl"}[benchmark]
    base = (f"benchmark={benchmark}", f"benchmark.questions={shared}/data/{data}", "benchmark.report=false")
    first = evaluate(*base, "answerer=coin", "out=first")
    again = evaluate(*base, "answerer=file", "answerer.path=first/answers.jsonl", "out=again")
    assert first == again
    assert Path("first/per_question.csv").read_bytes() == Path("again/per_question.csv").read_bytes()
    assert Path("first/metrics.json").read_bytes() == Path("again/metrics.json").read_bytes()
    assert results("again")["meta"]["model"] == "coin"


def answer_elsewhere(out: str, text: str, skip: int = 0) -> Path:
    """Add a text to each line of questions.jsonl."""
    path = Path("answered elsewhere.jsonl")
    asked = [json.loads(line) for line in names(Path(out) / "questions.jsonl")][skip:]
    path.write_text("".join(f"{json.dumps({**one, 'text': text})}\n" for one in asked), encoding="utf-8")
    return path


def test_the_list_of_questions_can_be_answered_elsewhere(questions: Path) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}")
    evaluate(*base, "answerer=always_no", "out=o")
    path = answer_elsewhere("o", "Yes, it is.")
    evaluate(*base, "answerer=file", f"answerer.path={path}", "out=p")
    assert metrics("p")["images_6f", "all"]["reranking_score"] == 0.0
    path = answer_elsewhere("o", "yes", skip=10)
    with pytest.raises(DataError, match=r"10 of 24 questions failed.*not in the file"):
        evaluate(*base, "answerer=file", f"answerer.path={path}", "out=q")
    assert results("q")["meta"]["counts"]["failed"] == 10


def test_wrong_answer_files_are_refused(shared: Path, questions: Path) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "answerer=file")
    iv = ("benchmark=iv_bench", f"benchmark.questions={shared}/data/iv_bench/test_data.jsonl", "benchmark.report=false")
    evaluate(*iv, "answerer=fixed_letter", "benchmark.limit=5", "out=iv")
    with pytest.raises(DataError, match="has no answer to any of the 24 questions"):
        evaluate(*base, "answerer.path=iv/answers.jsonl", "out=o")
    with pytest.raises(DataError, match=r"(?s)is to the choices.*benchmark\.seed"):
        evaluate(
            *iv, "answerer=file", "answerer.path=iv/answers.jsonl", "benchmark.limit=5", "benchmark.seed=1", "out=p"
        )
    Path("bad.jsonl").write_text('{"question": "a", "text": "yes"}\n{"question": "b"}\n{"question": "c"}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl:2 has no 'text'"):
        evaluate(*base, "answerer.path=bad.jsonl", "out=o")
    Path("o").mkdir(exist_ok=True)
    Path("o/answers.jsonl").touch()
    with pytest.raises(ConfigError, match="is the file that this run writes its own answers into"):
        evaluate(*base, "answerer.path=o/answers.jsonl", "out=o")
    with pytest.raises(ConfigError, match=r"answerer\.path=nothing\.jsonl: there is no such file"):
        evaluate(*base, "answerer.path=nothing.jsonl", "out=o")


def test_two_runs_at_once_cannot_write_the_same_answers(questions: Path) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "answerer=coin", "out=o")
    with AnswerFile(Path("shared.jsonl")), pytest.raises(DataError, match="another run is writing its answers"):
        evaluate(*base, "answers=shared.jsonl")
    evaluate(*base, "answers=shared.jsonl")
    assert len(names(Path("shared.jsonl"))) == 24
    assert not Path("o/answers.jsonl").exists()


def test_no_file_that_the_run_writes_is_taken_for_answers(questions: Path) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "answerer=coin")
    ended = start(Path.cwd(), *base, "out=o")  # a program, which also writes Hydra's files
    assert ended.returncode == 0, ended.stderr
    found = sorted(path for path in Path("o").rglob("*") if path.is_file() and path.name != "answers.jsonl")
    assert {"questions.jsonl", "results.json", "evaluate.log", "config.yaml"} <= {path.name for path in found}
    Path("link.jsonl").symlink_to("o/results.json")
    for path in (*found, Path("link.jsonl"), Path("o/../o/results.json"), Path("o/results.json").resolve()):
        with pytest.raises(ConfigError, match=rf"answers={path} is a file that this run writes something else into"):
            cli.prepare([*base, "out=o", f"answers={path}"], "evaluate")
    for place in ("new/questions.jsonl", "new/report.html", "new/scores_tv.npz"):  # of a folder that is not there yet
        with pytest.raises(ConfigError, match="writes something else into"):
            cli.prepare([*base, "out=new", f"answers={place}"], "evaluate")
    for place in ("o/answers.jsonl", "o/other answers.jsonl", "new/questions.jsonl", "questions.jsonl"):
        cli.prepare([*base, "out=o", f"answers='{place}'"], "evaluate")
    with pytest.raises(ConfigError, match=r"answerer\.path=o/questions\.jsonl is a file that this run writes"):
        cli.prepare([*base[:2], "answerer=file", "answerer.path=o/questions.jsonl", "out=o"], "evaluate")


def test_reranking_takes_no_file_that_it_writes_for_answers() -> None:
    base = ("model=frame_max", "data.size=tiny", "benchmark.split=all", "rerank=keep_drop", "answerer=oracle", "out=o")
    names = ("results.json", "per_query.csv", "metrics.json", "report.md", "report.tex", "report.html", "resampled.npz")
    more = ("reranked_scores_tv.npz", "scores_tv+tag.npz", "similarity_map.png", "reranking/report.html")
    for name in (*names, *more, "questions.jsonl"):
        with pytest.raises(ConfigError, match="is a file that this run writes something else into"):
            cli.prepare([*base, f"answers='o/{name}'"], "evaluate")
    cli.prepare([*base, "answers=o/answers.jsonl"], "evaluate")


@pytest.mark.parametrize("content", ["line one\nmy notes without newline", "my notes", '{"question": 1}\nrest'])
def test_notes_taken_for_answers_stay_as_they_are(questions: Path, content: str) -> None:
    Path("notes.txt").write_text(content)
    with pytest.raises(DataError, match=r"notes\.txt:1"):
        evaluate("benchmark=muvr_qa", f"benchmark.questions={questions}", "answerer=coin", "answers=notes.txt", "out=o")
    assert Path("notes.txt").read_text() == content
