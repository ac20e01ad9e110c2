"""evaluate.py on questions as a program: what it prints, exit codes, kills, interrupts, sweeps."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from muvr_train.rerank.answer_file import read_answers
from tests.rerank.local_server import LocalServer
from tests.rerank.question_runs import ROOT, evaluate, lines, metrics, names, results, start


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_first_command_as_it_is_shown(tmp_path: Path, shared: Path) -> None:
    arguments = (
        "benchmark=muvr_qa",
        "answerer=always_yes",
        f"benchmark.questions={shared}/data/muvr_qa",
        "out=outputs/qa",
    )
    ended = start(tmp_path, *arguments)
    assert ended.returncode == 0, ended.stderr
    for text in ("all", "tagged", "untagged", "dance", "50.0", "+0.00", "GPT-4o", "over 200 questions"):
        assert text in ended.stdout
    files = {path.name for path in Path("outputs/qa").iterdir()}
    assert files >= {
        "answers.jsonl",
        "questions.jsonl",
        "results.json",
        "per_question.csv",
        "metrics.json",
        "report.html",
    }


def test_the_second_command_as_it_is_shown(tmp_path: Path, shared: Path) -> None:
    file = shared / "data" / "iv_bench" / "test_data.jsonl"
    ended = start(
        tmp_path, "benchmark=iv_bench", "answerer=fixed_letter", f"benchmark.questions={file}", "out=outputs/iv"
    )
    assert ended.returncode == 0, ended.stderr
    for text in ("overall", "perception", "reasoning", "Keyframe", "human", "1,686", "over 1,686 questions"):
        assert text in ended.stdout
    found = metrics("outputs/iv")
    assert abs(found["after_32f", "overall"]["accuracy"] - 0.103) < 0.03
    meta = results("outputs/iv")["meta"]
    assert meta["counts"]["questions"] == 1686
    assert "faults" in meta


def test_no_torch_is_needed_for_references(tmp_path: Path, questions: Path) -> None:
    program = (
        "import sys; from muvr_train.evaluate import main; main(); "
        "sys.exit('torch was imported' if {'torch', 'transformers', 'openai', 'av'} & set(sys.modules) else 0)"
    )
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            "benchmark=muvr_qa",
            "answerer=coin",
            f"benchmark.questions={questions}",
            "out=o",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_nothing_is_asked_twice_over_kills_and_the_result_is_the_same(
    tmp_path: Path, questions: Path, own: Path
) -> None:
    rng = random.Random(7)
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "--config-dir", str(own))
    answered: set[str] = set()
    for concurrency in (1, 3):
        before = len(names(tmp_path / "asked.txt"))
        kill = f"answerer.kill_at={rng.randint(3, 9)}"
        ended = start(tmp_path, *base, "out=killed", kill, f"answerer.concurrency={concurrency}")
        assert ended.returncode == -9
        assert not (tmp_path / "killed" / "results.json").exists()
        assert answered.isdisjoint(names(tmp_path / "asked.txt")[before:])
        answered = {answer.question for answer in read_answers(tmp_path / "killed" / "answers.jsonl")}
        assert 0 <= len(names(tmp_path / "asked.txt")) - len(answered) <= 1 + concurrency
    with (tmp_path / "killed" / "answers.jsonl").open("ab") as file:
        file.write('{"question": "news/ö'.encode()[:-1])
    before = len(names(tmp_path / "asked.txt"))
    evaluate(*base[:3], "out=killed", "answerer.concurrency=2", extra=own)
    last = names(tmp_path / "asked.txt")[before:]
    assert len(last) == len(set(last)) == 24 - len(answered)
    assert answered.isdisjoint(last)
    evaluate(*base[:3], "out=clean", extra=own)
    for name in ("per_question.csv", "questions.jsonl", "metrics.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "clean" / name).read_bytes()


@pytest.mark.parametrize(("number", "concurrency", "code"), [(2, 3, 130), (15, 1, 143)])
def test_ctrl_c_and_sigterm_end_at_once_and_keep_all_answers(
    tmp_path: Path, questions: Path, own: Path, number: int, concurrency: int, code: int
) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "out=o")
    stop = ("answerer.kill_at=8", f"answerer.signal={number}", f"answerer.concurrency={concurrency}")
    ended = start(tmp_path, *base, *stop, "--config-dir", str(own))
    assert ended.returncode == code, ended.stderr
    kept = {answer.question for answer in read_answers(Path("o/answers.jsonl"))}
    assert 7 - concurrency < len(kept) < 24
    assert f"of 24 questions were asked. {len(kept)} answers are kept in o/answers.jsonl" in " ".join(
        ended.stderr.split()
    )
    assert "Traceback" not in ended.stderr
    asked = len(names(Path("asked.txt")))
    evaluate(*base, extra=own)
    assert set(names(Path("asked.txt"))[asked:]) == {line["question"] for line in lines("o")} - kept


def test_a_sweep_goes_on_over_failed_questions_and_names_those_runs(tmp_path: Path, questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "benchmark.report=false")
    ended = start(tmp_path, *base, "answerer.failing=7,0,12", "out=s", "-m", "--config-dir", str(own))
    assert ended.returncode == 1
    assert [results(f"s_{run}")["meta"]["counts"]["failed"] for run in range(3)] == [3, 0, 2]
    told = " ".join(ended.stderr.split())
    assert "error: 3 of 24 questions failed and count as wrong" in told
    assert told.endswith("error: runs of the sweep with failed questions: s_0, s_2")
    assert "Traceback" not in told
    again = start(tmp_path, *base, "answerer.failing=0", "out=s_0,s_2", "-m", "--config-dir", str(own))
    assert again.returncode == 0, again.stderr
    assert len(names(tmp_path / "asked.txt")) == 3 * 24 + 5


def test_a_sweep_goes_on_where_an_answerer_can_answer_nothing(tmp_path: Path, questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "benchmark.report=false")
    ended = start(tmp_path, *base, "answerer.failing=1,7,0", "out=s", "-m", "--config-dir", str(own))
    assert ended.returncode == 1
    assert not (tmp_path / "s_0/results.json").exists()
    assert [results(f"s_{run}")["meta"]["counts"]["failed"] for run in (1, 2)] == [3, 0]
    told = " ".join(ended.stderr.split())
    assert "error: the first 8 questions all failed, the last one with: no answer after 3 tries" in told
    assert told.endswith("error: runs of the sweep whose answerer could answer nothing: s_0")
    assert "error: runs of the sweep with failed questions: s_1 error:" in told
    assert "Traceback" not in told


def test_a_sweep_goes_on_over_servers_that_are_not_there(tmp_path: Path, shared: Path) -> None:
    file = f"benchmark.questions={shared}/data/iv_bench/test_data.jsonl"
    texts = ("benchmark=iv_bench", file, "benchmark.video=false", "benchmark.image=none", "benchmark.limit=3")
    with LocalServer(lambda _: "A") as server:
        urls = f"answerer.base_url=http://127.0.0.1:9/v1,{server.url}"
        asked = ("answerer=openai", "answerer.model=tiny", urls, "benchmark.report=false", "out=s", "-m")
        ended = start(tmp_path, *texts, *asked)
    told = " ".join(ended.stderr.split())
    assert ended.returncode == 1, told
    assert "error: answerer.base_url=http://127.0.0.1:9/v1/: no server answers there" in told
    assert told.endswith("error: runs of the sweep whose answerer could answer nothing: s_0")
    assert not (tmp_path / "s_0/results.json").exists()
    assert results("s_1")["meta"]["counts"]["failed"] == 0


def test_a_fault_of_ones_own_class_is_named(tmp_path: Path, questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "--config-dir", str(own), "out=o")
    ended = start(tmp_path, *base, "answerer.fault=true")
    assert ended.returncode == 1
    assert "Mine fails at question news/news-q0 > tö0-1 (images_6f)" in ended.stderr
    assert "my_answerers.py, line" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "o").exists()
