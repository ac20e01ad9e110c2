"""evaluate.py benchmark=muvr_qa and benchmark=iv_bench, as users run them: what is scored, asked and told."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from muvr_train.errors import DataError, IncompleteError
from muvr_train.runner.question_sets import RELEASED, unlike_published
from tests.rerank.question_runs import OWN, composed, evaluate, lines, metrics, names, results


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


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
        (("muvr_qa", "benchmark.limit=4"), "4 questions, the released file has 200"),
        (("iv_bench", "benchmark.image=none"), "benchmark.image=none"),
        (("iv_bench", "benchmark.reasoning=true"), "benchmark.reasoning=true"),
        (("iv_bench", "benchmark.image=none", "benchmark.video=false"), "benchmark.image=none; benchmark.video=false"),
        (("iv_bench", "benchmark.frames=[8,16]"), "benchmark.frames without 32"),
        (("iv_bench", "benchmark.limit=5"), "5 questions, the released file has 1,686"),
    ],
)
def test_what_is_not_as_published_is_named(arguments: tuple[str, ...], why: str) -> None:
    name, *more = arguments
    benchmark = composed(f"benchmark={name}", "answerer=oracle", *more, "out=o").benchmark
    assert why in "; ".join(unlike_published(benchmark, benchmark.limit or RELEASED[name]))
    assert unlike_published(composed(f"benchmark={name}", "answerer=oracle", "out=o").benchmark, RELEASED[name]) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("muvr_qa", "benchmark.limit=3"), " questions, the released file has 200"),
        (("iv_bench", "benchmark.image=none", "benchmark.limit=5"), "released file has 1,686; benchmark.image=none"),
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


def test_failures_are_told_counted_and_asked_again(
    questions: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ("benchmark=muvr_qa", "answerer=mine", f"benchmark.questions={questions}")
    why = "6 of 24 questions failed and count as wrong: .*no answer after 3 tries.*out=o asks only these"
    with pytest.raises(IncompleteError, match=why):
        evaluate(*base, "out=o", "answerer.failing=4", extra=own)
    assert "6 failed" in capsys.readouterr().out
    counts = {"questions": 24, "answered": 18, "failed": 6, "invalid": 0, "from_file": 0}
    assert results("o")["meta"]["counts"] == counts
    assert Counter(line["status"] for line in lines("o")) == {"answered": 18, "failed": 6}
    assert {line["right"] for line in lines("o") if line["status"] == "failed"} == {"0"}
    evaluate(*base, "out=o", extra=own)
    assert len(names(Path("asked.txt"))) == 30
    evaluate(*base, "out=p", "answerer.failing=4", "allow_failures=true", extra=own)
    assert results("p")["meta"]["counts"]["failed"] == 6
