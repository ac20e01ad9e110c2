"""evaluate.py benchmark=muvr_qa and benchmark=iv_bench, as users run them."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from muvr_train import cli, runner
from muvr_train.benchmarks.muvr_qa import QaRow, write_qa
from muvr_train.errors import ConfigError, DataError
from muvr_train.preflight.compose import Composer
from muvr_train.rerank.answer_file import read_answers
from tests.interrupts import hear_interrupts

ROOT = Path(__file__).parents[2]
OWN = """
import os
import threading
from pathlib import Path

from muvr_train.rerank.types import Answerer, AnswerError, Reply

LOCK = threading.Lock()


class Mine(Answerer):
    name = "mine"
    needs_visuals = False

    def __init__(self, concurrency=1, kill_at=None, signal=9, failing=0, log="asked.txt", fault=False):
        self.concurrency, self.kill_at, self.signal = concurrency, kill_at, signal
        self.failing, self.log, self.fault = failing, log, fault
        self.asked = 0

    def identity(self):
        return {"name": "mine"}

    def answer(self, request):
        with LOCK:
            self.asked += 1
            number = self.asked
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(request.question.id + "\\n")
        if number == self.kill_at:
            os.kill(os.getpid(), self.signal)
        if self.kill_at and number >= self.kill_at and self.concurrency > 1 and self.signal != 9:
            threading.Event().wait()  # a server that does not answer any more
        if self.fault:
            raise ZeroDivisionError("half")
        if self.failing and number % self.failing == 0:
            raise AnswerError("no answer after 3 tries")
        return Reply("Yes." if sum(map(ord, request.question.id)) % 3 else "**No**")
"""


def evaluate(*arguments: str, extra: Path | None = None) -> dict[str, float]:
    """Run evaluate.py in this process, without Hydra's folders and logs."""
    argv = [*arguments, *(["--config-dir", str(extra)] if extra else [])]
    texts = [text for text in cli.prepare(argv, "evaluate") if "=" in text and not text.startswith("-")]
    cfg = Composer(cli.config_dir(), "evaluate", extra).compose(texts)
    cfg = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    cli.check_paths(cfg)
    return runner.evaluate(cfg)


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run evaluate.py as a process."""
    return subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=hear_interrupts,
    )


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Twelve pairs of two partitions; ids and texts outside ASCII."""
    folder = tmp_path / "问题 [1]=x"
    folder.mkdir()
    for partition in ("news", "dance"):
        rows = [
            QaRow(f"{partition}-q{n}", f"tö{n}-{label}", label, "找一个 ‘dance’", "+night" if n % 2 else "")
            for n in range(6)
            for label in (1, 0)
        ]
        write_qa(folder / f"{partition}.jsonl", rows)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's answerer: one file with its class, one with its settings."""
    (tmp_path / "my_answerers.py").write_text(OWN, encoding="utf-8")
    folder = tmp_path / "my_configs" / "answerer"
    folder.mkdir(parents=True)
    settings = "concurrency: 1\nkill_at: null\nsignal: 9\nfailing: 0\nfault: false\nlog: asked.txt\n"
    (folder / "mine.yaml").write_text(f"_target_: my_answerers.Mine\n{settings}", encoding="utf-8")
    sys.modules.pop("my_answerers", None)
    return tmp_path / "my_configs"


def results(out: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(out) / "results.json").read_text(encoding="utf-8"))
    return content


def metrics(out: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["mode"], row["partition"]): row["metrics"] for row in results(out)["rows"]}


def lines(out: str | Path) -> list[dict[str, str]]:
    with (Path(out) / "per_question.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("answerer", "accuracy", "score"), [("always_yes", 0.5, 0.0), ("always_no", 0.5, -1.0), ("oracle", 1.0, 1.0)]
)
def test_references_score_what_they_must_on_the_released_pairs(
    shared: Path, answerer: str, accuracy: float, score: float
) -> None:
    flat = evaluate("benchmark=muvr_qa", f"answerer={answerer}", f"benchmark.questions={shared}/data/muvr_qa", "out=qa")
    found = metrics("qa")
    for partition in ("all", "tagged", "untagged", "news", "others", "instance", "region", "dance"):
        assert found["images_6f", partition]["accuracy"] == accuracy
        assert found["images_6f", partition]["reranking_score"] == score
        assert flat[f"all/muvr_qa/images_6f/{partition}/accuracy"] == accuracy
    assert len(lines("qa")) == 200
    meta = results("qa")["meta"]
    assert meta["counts"] == {"questions": 200, "answered": 200, "failed": 0, "invalid": 0, "from_file": 0}
    assert (meta["model"], meta["benchmark"]) == (answerer, "muvr_qa")


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


def test_rows_by_category(tmp_path: Path, shared: Path) -> None:
    file = shared / "data" / "iv_bench" / "test_data.jsonl"
    base = ("benchmark=iv_bench", "answerer=coin", f"benchmark.questions={file}", "benchmark.report=false")
    videos = [video for line in file.read_text(encoding="utf-8").splitlines() for video in json.loads(line)]
    where = tmp_path / "by [topic], v=2.csv"
    where.write_text("video_id,category\n" + "".join(f"{one},{one[0]}\n" for one in videos[:-1]), encoding="utf-8")
    evaluate(*base, f"benchmark.categories={where}", "out=iv")
    counts = {row["partition"]: row["counts"]["questions"] for row in results("iv")["rows"]}
    by_category = {name: count for name, count in counts.items() if name.startswith("category: ")}
    assert len(by_category) == len({one[0] for one in videos[:-1]}) + 1
    assert sum(by_category.values()) == 1686
    assert 0 < by_category["category: (none)"] < 20
    assert any(f"1 of {len(videos)} videos have no category" in note for note in results("iv")["meta"]["notes"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("muvr_qa", "benchmark.comparison=text"), "benchmark.comparison=text"),
        (("muvr_qa", "benchmark.tags=false", "benchmark.query_frames=3"), "benchmark.query_frames=3; benchmark.tags=f"),
        (("muvr_qa", "benchmark.limit=3"), " questions, the released file has 200"),
        (("iv_bench", "benchmark.image=none"), "benchmark.image=none"),
        (("iv_bench", "benchmark.reasoning=true"), "benchmark.reasoning=true"),
        (("iv_bench", "benchmark.image=none", "benchmark.video=false"), "benchmark.image=none; benchmark.video=false"),
        (("iv_bench", "benchmark.frames=[8,16]"), "benchmark.frames without 32"),
        (("iv_bench", "benchmark.limit=5"), "5 questions, the released file has 1,686"),
    ],
)
def test_published_rows_stand_beside_what_was_published_only(
    shared: Path, arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *more = arguments
    files = {"muvr_qa": "muvr_qa", "iv_bench": "iv_bench/test_data.jsonl"}
    where = f"benchmark.questions={shared}/data/{files[name]}"
    evaluate(f"benchmark={name}", "answerer=oracle", where, *more, "benchmark.report=false", "out=o")
    (note,) = [note for note in results("o")["meta"]["notes"] if "No published figures stand beside" in note]
    assert why in note
    assert "(published)" not in capsys.readouterr().out


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


def test_an_answerer_of_ones_own_and_names_outside_ascii(questions: Path, own: Path) -> None:
    out = "ergebnisse ü [a]=b"
    evaluate("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", f"out={out}", extra=own)
    assert Counter(line["status"] for line in lines(out)) == {"answered": 24}
    assert len(names(Path("asked.txt"))) == 24
    line = next(line for line in lines(out) if line["query"] == "news-q1")
    assert (line["tag"], line["partition"], line["target"], line["truth"]) == ("+night", "news", "tö1-1", "yes")
    asked = [json.loads(text) for text in names(Path(out) / "questions.jsonl")]
    assert [entry["question"] for entry in asked] == [line["question"] for line in lines(out)]
    assert "<video: news/tö1-1>" in next(e["prompt"] for e in asked if "tö1-1" in e["question"])


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
    ended = start(tmp_path, *base, "out=killed", "answerer.concurrency=2")
    assert ended.returncode == 0, ended.stderr
    last = names(tmp_path / "asked.txt")[before:]
    assert len(last) == len(set(last)) == 24 - len(answered)
    assert answered.isdisjoint(last)
    assert start(tmp_path, *base, "out=clean").returncode == 0
    for name in ("per_question.csv", "questions.jsonl", "metrics.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "clean" / name).read_bytes()


@pytest.mark.parametrize(("number", "concurrency", "code"), [(2, 1, 130), (2, 3, 130), (15, 3, 143)])
def test_ctrl_c_and_sigterm_end_at_once_and_keep_all_answers(
    tmp_path: Path, questions: Path, own: Path, number: int, concurrency: int, code: int
) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "out=o")
    stop = ("answerer.kill_at=8", f"answerer.signal={number}", f"answerer.concurrency={concurrency}")
    ended = start(tmp_path, *base, *stop, "--config-dir", str(own))
    assert ended.returncode == code, ended.stderr
    kept = {answer.question for answer in read_answers(Path("o/answers.jsonl"))}
    assert 7 - concurrency < len(kept) < 24
    told = ended.stderr.replace("\n", " ")
    assert f"{len(kept)} of 24 questions were asked. {len(kept)} answers are kept in o/answers.jsonl" in told
    assert "Traceback" not in ended.stderr
    asked = len(names(Path("asked.txt")))
    evaluate(*base, extra=own)
    assert set(names(Path("asked.txt"))[asked:]) == {line["question"] for line in lines("o")} - kept


def test_a_sweep_asks_every_answerer_in_a_folder_of_its_own(tmp_path: Path, questions: Path) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "benchmark.report=false")
    ended = start(tmp_path, *base, "answerer=always_yes,always_no", "out=s", "-m")
    assert ended.returncode == 0, ended.stderr
    scores = [metrics(folder)["images_6f", "all"]["reranking_score"] for folder in ("s_0", "s_1")]
    assert scores == [0.0, -1.0]


def test_a_finished_run_asks_nothing_and_changed_questions_are_asked(questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "out=o")
    log = Path("asked.txt")
    evaluate(*base, extra=own)
    first = (Path("o") / "per_question.csv").read_bytes()
    evaluate(*base, extra=own)
    assert (Path("o") / "per_question.csv").read_bytes() == first
    assert len(names(log)) == 24
    evaluate(*base, "benchmark.frames=[6,1]", extra=own)
    assert len(names(log)) == 48
    assert {mode for mode, _ in metrics("o")} == {"images_6f", "images_1f"}
    evaluate(*base, "benchmark.comparison=text", extra=own)
    assert len(names(log)) == 72
    evaluate(*base, "benchmark.tags=false", extra=own)
    assert len(names(log)) == 96  # a setting of its own, also those without a tag
    evaluate(*base, extra=own)
    assert len(names(log)) == 96
    assert (Path("o") / "per_question.csv").read_bytes() == first


def test_failures_are_told_counted_and_asked_again(tmp_path: Path, questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "--config-dir", str(own), "out=o")
    ended = start(tmp_path, *base, "answerer.failing=4")
    assert ended.returncode == 1
    assert "6 of 24 questions failed and count as wrong" in ended.stderr
    assert "no answer after 3 tries" in ended.stderr
    assert "out=o asks only these" in ended.stderr
    assert "6 failed" in ended.stdout
    counts = {"questions": 24, "answered": 18, "failed": 6, "invalid": 0, "from_file": 0}
    assert results("o")["meta"]["counts"] == counts
    assert Counter(line["status"] for line in lines("o")) == {"answered": 18, "failed": 6}
    assert {line["right"] for line in lines("o") if line["status"] == "failed"} == {"0"}
    evaluate(*base[:3], "out=o", extra=own)
    assert len(names(Path("asked.txt"))) == 30
    evaluate(*base[:3], "out=p", "answerer.failing=4", "allow_failures=true", extra=own)
    assert results("p")["meta"]["counts"]["failed"] == 6


def test_a_fault_of_ones_own_class_is_named(tmp_path: Path, questions: Path, own: Path) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "--config-dir", str(own), "out=o")
    ended = start(tmp_path, *base, "answerer.fault=true")
    assert ended.returncode == 1
    assert "Mine fails at question news/news-q0 > tö0-1 (images_6f)" in ended.stderr
    assert "my_answerers.py, line" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "o").exists()


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


def test_missing_files_are_listed_before_anything_is_asked(questions: Path, own: Path) -> None:
    class_file = Path("my_answerers.py")
    class_file.write_text(OWN.replace("needs_visuals = False", "needs_visuals = True"), encoding="utf-8")
    Path("videos").mkdir()
    shutil.copy(class_file, "videos/tö1-1.mp4")  # no video, but a file
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}", "data.videos=videos")
    with pytest.raises(DataError, match=r"24 of 24 questions lack .* files: .*benchmark\.missing=wrong"):
        evaluate(*base, "out=o", extra=own)
    assert not Path("asked.txt").exists()
    evaluate(*base, "benchmark.missing=wrong", "out=o", extra=own)  # asked for: no error
    assert results("o")["meta"]["counts"]["failed"] == 24
    assert metrics("o")["images_6f", "all"]["accuracy"] == 0.0
    with pytest.raises(DataError, match=r"data\.videos=nowhere"):
        evaluate(*base[:3], "data.videos=nowhere", "out=o", extra=own)


def test_results_of_another_kind_are_not_replaced_silently(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "out=o", "benchmark.report=false")
    evaluate(*base, "answerer=coin")
    cli.prepare([*base, "answerer=coin"], "evaluate")
    cli.prepare([*base, "answerer=coin", "benchmark.frames=12"], "evaluate")
    assert "replace" not in capsys.readouterr().err
    cli.prepare([*base, "answerer=always_no"], "evaluate")
    assert "out=o holds results of coin: those of always_no replace them" in capsys.readouterr().err
    cli.prepare(["model=frame_max", "out=o"], "evaluate")
    assert "out=o holds results of coin: those of frame_max replace them" in capsys.readouterr().err
    cli.prepare(["benchmark=iv_bench", "answerer=coin", "out=o"], "evaluate")
    assert "replace them" in capsys.readouterr().err


def test_a_run_without_a_folder_is_named_by_what_is_asked() -> None:
    completed = cli.prepare(["benchmark=iv_bench", "answerer=coin"], "evaluate")
    assert any(text.startswith("out='outputs/iv_bench-coin-") for text in completed)
    assert "data=questions" in completed


def test_two_runs_at_once_cannot_write_the_same_answers(questions: Path) -> None:
    from muvr_train.rerank.answer_file import AnswerFile

    base = ("benchmark=muvr_qa", f"benchmark.questions={questions}", "answerer=coin", "out=o")
    with AnswerFile(Path("shared.jsonl")), pytest.raises(DataError, match="another run is writing its answers"):
        evaluate(*base, "answers=shared.jsonl")
    evaluate(*base, "answers=shared.jsonl")
    assert len(names(Path("shared.jsonl"))) == 24
    assert not Path("o/answers.jsonl").exists()
