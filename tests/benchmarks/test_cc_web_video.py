"""CC_WEB_VIDEO: the four settings on a hand-made file, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.cc_web_video import read_cc_web_video
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from tests.matrix_scores import MatrixScores

INDEX = {"1/q": 1, "1/a": 2, "1/b": 3, "1/c": 4, "1/d": 5, "2/q": 11, "2/a": 12}
CONTENT = {
    "index": INDEX,
    "queries": ["1/q", "2/q"],
    # 9 and 19 are in no index: 9 is a match that cannot be found
    "ground_truth": [{1: "E", 2: "S", 3: "X", 4: "L", 9: "V", 5: "x"}, {11: "E", 12: "M", 19: "X"}],
    "excluded": [{3, 4, 12}, set()],
}
SCORES = {
    "1/q": {"1/q": 1.0, "1/b": 0.9, "2/a": 0.8, "1/a": 0.7, "1/d": 0.6, "1/c": 0.5, "2/q": 0.4},
    "2/q": {"1/q": 0.65, "1/b": 0.55, "2/a": 0.45, "1/a": 0.35, "1/d": 0.25, "1/c": 0.15, "2/q": 0.95},
}


def write(path: Path, content: Any = CONTENT) -> Path:
    (path / "cc_web_video.pickle").write_bytes(pickle.dumps(content))
    return path


def test_hand_worked_values_of_every_setting(tmp_path: Path) -> None:
    benchmark = read_cc_web_video(write(tmp_path))
    source = MatrixScores.of(SCORES)
    results = evaluate_scores(source, benchmark)
    assert source.asked == 1
    found = {str(row["partition"]): row["metrics"]["mAP"] for row in results.rows}  # type: ignore[index]
    expected = {
        "cc": ((1 + 2 / 3 + 3 / 5) / 4 + 1) / 2,  # q* b a* d c*, a fourth match is nowhere; q* a*
        "cc*": ((1 + 2 / 4 + 3 / 6) / 4 + (1 + 2 / 4) / 2) / 2,  # q* b a a* d c* q; q* q b a*
        "c": ((1 + 2 / 2) / 3 + 1) / 2,  # q* a* d, b and c are excluded
        "c*": ((1 + 2 / 2) / 3 + (1 + 2 / 4) / 2) / 2,  # q* a* d q; number 12 is excluded for the first query only
    }
    expected["mean"] = sum(expected.values()) / 4
    assert found == pytest.approx(expected, abs=1e-12)
    assert all(row["counts"]["self_removed"] == 0 for row in results.rows)  # type: ignore[index]


def test_a_missing_match_counts(tmp_path: Path) -> None:
    scores = {"1/q": {video: score for video, score in SCORES["1/q"].items() if video != "1/a"}}
    results = evaluate_scores(
        MatrixScores.of(scores), read_cc_web_video(write(tmp_path)), Protocol(on_missing="official")
    )
    assert results.metrics("v", "cc")["mAP"] == pytest.approx((1 + 2 / 4) / 4)
    counts = results.rows[0]["counts"]
    assert (counts["missing_queries"], counts["missing_database"]) == (1, 1)  # type: ignore[index]
    assert counts["positives"] == 4  # type: ignore[index]


def test_queries_levels_and_warnings(tmp_path: Path) -> None:
    benchmark = read_cc_web_video(write(tmp_path))
    assert [partition.name for partition in benchmark.partitions] == ["cc", "cc*", "c", "c*"]
    assert benchmark["cc"].topics == ("cc_web_video/1", "cc_web_video/2")
    assert benchmark["cc"].database == tuple(sorted(INDEX))
    first = benchmark["cc"].judgements[0]
    assert list(first.positives.values()) == ["E", "S", "L", "V"]
    assert first.ranked == {"1/q", "1/a", "1/b", "1/c", "1/d"}
    assert "2 labelled videos are not in the database; 1 of them are matches" in benchmark.warnings[0]


def changed(**changes: Any) -> dict[str, Any]:
    return {**CONTENT, **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(index={"1/q": 1, "2/q": "2"}), "every video's number in index must be a whole number, found '2'"),
        (changed(index={"1/q": 1, "2/q": 1}), "1 numbers in index are those of two videos"),
        (changed(queries=["1/q", "3/q"]), "queries: 1 ids are not in index: 3/q"),
        (changed(queries=["1/q"]), "ground_truth must be a list of 1, found a list of 2"),
        (changed(excluded=[set()]), "excluded must be a list of 2, found a list of 1"),
        (changed(ground_truth=[{1: "E"}, {"11": "E"}]), "ground_truth / 1 must be numbers of videos with a label each"),
        (changed(ground_truth=[{1: "E"}, ["11"]]), "ground_truth / 1 must be a dictionary"),
        (changed(excluded=[{"1/a"}, set()]), "excluded / 0 must be a set of numbers of videos"),
        (changed(queries=[], ground_truth=[], excluded=[]), "there is no query"),
    ],
)
def test_a_file_that_is_not_cc_web_video_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"cc_web_video\.pickle.*{message}"):
        read_cc_web_video(write(tmp_path, content))
