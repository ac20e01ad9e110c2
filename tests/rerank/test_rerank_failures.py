"""evaluate.py rerank=... where answers or videos are missing, or the run is stopped."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from muvr_train.errors import DataError, IncompleteError
from muvr_train.rerank.answer_file import read_answers
from tests.features.test_copies_extract import write_video
from tests.rerank.reranked import (
    K,
    Workplace,
    answers_of,
    expected_precisions,
    expected_rows,
    metrics,
    rerank,
)


def test_failures_keep_their_place_and_are_counted(place: Workplace) -> None:
    """Every third question fails: those pairs stay, the results are complete, and the program ends with an error."""
    failing = rerank("keep_drop", "mine", "answerer.failing=3", "answerer.says=no")
    why = rf"33 of {20 * K} pairs failed.*server is busy.*out=failing asks only these"
    with pytest.raises(IncompleteError, match=why):
        place.evaluate(*place.file, *failing, "out=failing")
    row = place.results("failing")["reranked"][0]
    assert (row["counts"]["failed"], row["counts"]["used"], row["counts"]["calls"]) == (33, 67, 100)
    answers = answers_of("failing")
    assert len(answers) == 67
    lines = place.lines("failing", row["name"])
    expected = expected_precisions(place, "keep_drop", answers)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)
    assert row["cost"] == {
        "pairs_per_query": K,
        "seconds_per_query": pytest.approx(67 * 2.0 / 20, abs=1),  # and what the failed ones took
        "prompt_tokens_per_query": pytest.approx(67 * 100 / 20),
        "completion_tokens_per_query": pytest.approx(67 / 20),
    }
    Path("asked.txt").unlink()
    place.evaluate(*place.file, *failing, "answerer.failing=0", "out=failing", "allow_failures=true")
    again = place.results("failing")["reranked"][0]["counts"]
    assert (again["failed"], again["from_file"], again["calls"]) == (0, 67, 33)
    assert len(Path("asked.txt").read_text().splitlines()) == 33


def test_allowed_failures_are_no_error(place: Workplace) -> None:
    failing = rerank("keep_drop", "mine", "answerer.failing=3")
    place.evaluate(*place.file, *failing, "out=allowed", "allow_failures=true")
    assert place.results("allowed")["reranked"][0]["counts"]["failed"] == 33


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (rerank("keep_drop", "mine", "answerer.failing=1"), "questions all failed"),
        (
            rerank("keep_drop", "mine", "answerer.says=perhaps"),
            "nothing can be reranked: 100 answers say neither yes nor no",
        ),
        (
            ("rerank=probability", f"rerank.top_k={K}", "answerer=mine"),
            "the first 8 answers came without log-probabilities",
        ),
    ],
)
def test_without_a_usable_answer_nothing_is_called_reranked(
    place: Workplace, typed: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=message):
        place.evaluate(*place.file, *typed, "out=nothing", "allow_failures=true")
    content = place.results("nothing")
    assert [row["name"] for row in content["reranked"]] == [f"perfect reranker@{K}"]
    assert metrics(content["rows"]) == expected_rows(place)
    assert any(message in note for note in content["meta"]["notes"])
    shown = capsys.readouterr().out
    assert "+ rerank@" not in shown
    assert message in " ".join(shown.split())
    assert (place.folder / "nothing/metrics.json").is_file()


def test_videos_that_are_missing_are_named_before_anything_is_asked(place: Workplace) -> None:
    videos = place.folder / "some videos/news"
    videos.mkdir(parents=True)
    write_video(videos / "t0q0.mp4", 0, 4)
    looking = (*rerank("keep_drop", "mine", "answerer.looks=true"), f"data.videos={videos.parent}")
    with pytest.raises(DataError, match=r"of 100 questions lack .* files: .*no such file.*allow_failures=true"):
        place.evaluate(*place.file, *looking, "out=missing")
    assert not Path("asked.txt").exists()
    content = place.results("missing")
    assert metrics(content["rows"]) == expected_rows(place), "what was scored is not lost"
    assert [row["name"] for row in content["reranked"]] == [f"perfect reranker@{K}"]
    with pytest.raises(DataError, match=r"the first \d+ questions all failed|100 of 100 pairs failed|nothing can"):
        place.evaluate(*place.file, *looking, "out=missing", "allow_failures=true")


def plain_metrics(place: Workplace) -> dict[str, float]:
    """The flat metrics of mode tv without reranking."""
    every = json.loads((place.folder / "raw/metrics.json").read_text())
    return {name: value for name, value in every.items() if "/tv/" in name}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_has_its_plain_results_and_says_how_to_go_on(
    place: Workplace, number: signal.Signals, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    typed, out = (*place.file, *rerank("keep_drop", "mine")), f"stopped-{code}"
    try:
        with pytest.raises(SystemExit) as stopped:
            place.evaluate(*typed, "answerer.kill_at=8", f"answerer.signal={int(number)}", f"out={out}")
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.value.code == code
    assert f"stopped: 7 of {20 * K} questions were asked. 7 answers are kept in {out}/answers.jsonl" in caplog.text
    assert f"the same command with out={out} asks only the rest" in caplog.text
    assert f"the results without reranking are complete in {out}" in caplog.text
    plain = json.loads((place.folder / out / "metrics.json").read_text())
    assert plain == pytest.approx(plain_metrics(place), abs=1e-12)
    assert metrics(place.results(out)["rows"]) == expected_rows(place)
    assert place.results(out)["reranked"] == []
    asked = Path("asked.txt").read_text().splitlines()
    place.evaluate(*typed, f"out={out}")
    again = Path("asked.txt").read_text().splitlines()[len(asked) :]
    assert (len(again), set(again) & set(asked[:7])) == (20 * K - 7, set())
    assert len(json.loads((place.folder / out / "metrics.json").read_text())) == 3 * len(plain)


@pytest.mark.slow
def test_a_killed_run_goes_on_without_asking_twice_and_says_what_failed(place: Workplace) -> None:
    """Real processes: one is killed at its 41st question, the next one asks the other 60, of which two fail."""
    typed = (*place.file, *rerank("keep_drop", "mine"), "out=killed", "benchmark.report=false", "benchmark.bootstrap=0")
    first = place.call(*typed, "answerer.kill_at=41")
    assert first.returncode == -9, first.stderr
    assert metrics(place.results("killed")["rows"]) == expected_rows(place)
    assert place.results("killed")["reranked"] == []
    plain = json.loads((place.folder / "killed/metrics.json").read_text())
    assert plain == pytest.approx(plain_metrics(place), abs=1e-12)
    assert len(list(read_answers(place.folder / "killed/answers.jsonl"))) == 40
    second = place.call(*typed, "answerer.failing=30")
    assert second.returncode == 1, second.stderr
    assert "error: 2 of 100 pairs failed" in second.stderr
    assert "out=killed asks only these" in second.stderr
    asked = Counter((place.folder / "asked.txt").read_text().splitlines())
    assert len(asked) == 20 * K
    assert set(asked.values()) == {1}
    counts = place.results("killed")["reranked"][0]["counts"]
    assert counts == {"pairs": 100, "calls": 60, "from_file": 40, "failed": 2, "invalid": 0, "used": 98}
    for text in (f"scores_tv + rerank@{K} (mine)", f"perfect reranker@{K}", "difference", "calls", "seconds a query"):
        assert text in second.stdout
