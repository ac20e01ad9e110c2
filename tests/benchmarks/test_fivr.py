"""FIVR: the tasks and their convention on a hand-made file, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.fivr import read_fivr
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.results import Results
from tests.matrix_scores import MatrixScores

OFFICIAL = Protocol(on_missing="official")
ANNOTATION = {
    "q1": {"ND": ["a", "q1"], "DS": ["b", "a"], "CS": ["c", "b"], "IS": ["d", "elsewhere"], "DA": ["e"]},
    "q2": {"ND": ["e"], "DS": []},
}
PART = {"queries": ["q2", "q1"], "database": {"a", "b", "c", "d", "e", "q1"}}
CONTENT = {"5k": PART, "200k": {**PART, "database": {*PART["database"], "f"}}, "annotation": ANNOTATION}
SCORES = {
    "q1": {"q1": 1.0, "d": 0.9, "a": 0.8, "e": 0.7, "b": 0.6, "c": 0.5},
    "q2": {"q1": 0.65, "a": 0.54, "e": 0.53, "b": 0.2, "c": 0.1, "d": 0.05},
}


def write(folder: Path, content: Any = CONTENT, easy: str | None = "a\ne\n", name: str = "fivr_audio.pickle") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(pickle.dumps(content))
    if easy is not None:
        (folder / "fivr_easy_duplicates.txt").write_text(easy)
    return folder


def without(*videos: str) -> dict[str, dict[str, float]]:
    return {query: {v: s for v, s in row.items() if v not in videos} for query, row in SCORES.items()}


def values(results: Results, metric: str) -> dict[str, float]:
    return {str(row["partition"]): row["metrics"][metric] for row in results.rows}  # type: ignore[index]


def test_hand_worked_values_of_every_task(tmp_path: Path) -> None:
    benchmark = read_fivr(write(tmp_path), "5k")
    source = MatrixScores.of(SCORES)
    results = evaluate_scores(source, benchmark)
    assert source.asked == 1  # six tasks, one scoring
    q1_isvr = (1 + 2 / 2 + 3 / 4 + 4 / 5) / 4
    expected = {
        "DSVR": ((1 / 2 + 2 / 4) / 2 + 1 / 3) / 2,
        "CSVR": ((1 / 2 + 2 / 4 + 3 / 5) / 3 + 1 / 3) / 2,
        "ISVR": (q1_isvr + 1 / 3) / 2,
        "DSVR_hard": 1 / 2,  # q2 has no match left and is not counted
        "CSVR_hard": (1 / 2 + 2 / 3) / 2,
        "ISVR_hard": 1.0,
    }
    expected["mean"] = (expected["DSVR"] + expected["CSVR"] + expected["ISVR"]) / 3
    assert values(results, "mAP") == pytest.approx(expected, abs=1e-12)
    pooled = values(results, "uAP")
    # pooled: q1d, q1a, q1e, q2q1, q1b, q2a, q2e, q1c, ...
    assert pooled["DSVR"] == pytest.approx((1 / 2 + 2 / 5 + 3 / 7) / 3, abs=1e-12)
    assert pooled["DSVR_hard"] == pytest.approx(1 / 3, abs=1e-12)  # q1d, q2q1, q1b*


def test_queries_levels_and_databases(tmp_path: Path) -> None:
    benchmark = read_fivr(write(tmp_path), "5k")
    assert benchmark.name == "fivr_5k"
    assert [p.name for p in benchmark.partitions] == ["DSVR", "CSVR", "ISVR", "DSVR_hard", "CSVR_hard", "ISVR_hard"]
    task, hard = benchmark["ISVR"], benchmark["ISVR_hard"]
    assert task.query_ids == ("q1", "q2")
    assert task.topics == ("fivr_5k/q1", "fivr_5k/q2")
    assert task.database == ("a", "b", "c", "d", "e", "q1")
    assert hard.database == ("b", "c", "d", "q1")
    # the closest label of a video counts; the query and what is not in the database are no matches; DA is not used
    assert dict(task.judgements[0].positives) == {"a": "ND", "b": "DS", "c": "CS", "d": "IS"}
    assert dict(hard.judgements[1].positives) == {}
    assert benchmark.warnings == ("fivr_5k: 1 annotated matches are not in its database and are cut",)
    assert read_fivr(tmp_path, "200k")["DSVR"].database == ("a", "b", "c", "d", "e", "f", "q1")


def test_matches_are_cut_to_the_videos_that_were_found(tmp_path: Path) -> None:
    benchmark = read_fivr(write(tmp_path), "5k")
    results = evaluate_scores(MatrixScores.of(without("b", "e")), benchmark, OFFICIAL)
    rows = {str(row["partition"]): row for row in results.rows}
    assert rows["DSVR"]["metrics"]["mAP"] == pytest.approx(1 / 2)  # type: ignore[index]
    counts = rows["DSVR"]["counts"]
    assert counts["missing_database"] == 2  # type: ignore[index]
    assert counts["queries"] == 2  # type: ignore[index]
    assert counts["counted_queries"] == 1  # type: ignore[index]
    assert counts["positives"] == 1  # type: ignore[index]
    assert counts["self_removed"] == 1  # type: ignore[index]
    assert "DSVR_hard" not in rows  # no match of it is left
    missing = evaluate_scores(MatrixScores.of({"q1": SCORES["q1"]}), benchmark, OFFICIAL)
    assert missing.rows[0]["counts"]["missing_queries"] == 1  # type: ignore[index]
    assert values(missing, "mAP")["DSVR"] == pytest.approx(1 / 2)


def test_a_benchmark_without_any_match_is_an_error(tmp_path: Path) -> None:
    benchmark = read_fivr(write(tmp_path), "5k")
    with pytest.raises(
        DataError, match=r"fivr_5k: no partition is left in mode v: DSVR, CSVR, .*no match of any query was"
    ):
        evaluate_scores(MatrixScores.of(without("a", "b", "c", "d", "e")), benchmark, OFFICIAL)


def test_without_the_easy_duplicates_there_are_no_hard_tasks_and_a_warning(tmp_path: Path) -> None:
    benchmark = read_fivr(write(tmp_path / "fivr", easy=None, name="fivr.pickle"), "5k")
    assert [partition.name for partition in benchmark.partitions] == ["DSVR", "CSVR", "ISVR"]
    assert "the hard tasks are left out" in benchmark.warnings[-1]
    assert read_fivr(tmp_path / "fivr" / "fivr.pickle", "5k") == benchmark


def changed(**changes: Any) -> dict[str, Any]:
    return {**CONTENT, **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "the whole file must be a dictionary, found a list of 2"),
        ({"200k": PART}, "the whole file must be a dictionary with key '5k', found a dict with keys '200k'"),
        (changed(**{"5k": {"queries": ["q1"]}}), "5k must be a dictionary with key 'database'"),
        (changed(**{"5k": {**PART, "queries": "q1"}}), r"5k / queries must be a list or set of video ids, found 'q1'"),
        (changed(**{"5k": {**PART, "queries": ["q1", 3]}}), r"5k / queries must be .*found '3' \(int\)"),
        (changed(**{"5k": {**PART, "queries": ["q1", "q1"]}}), "5k / queries holds 1 ids twice: q1"),
        (changed(**{"5k": {**PART, "queries": []}}), "5k has 0 queries and 6 videos"),
        (changed(annotation={"q1": {}}), "annotation must be a dictionary with key 'q2'"),
        (changed(annotation={**ANNOTATION, "q1": {"XX": []}}), "annotation / q1 has labels .*XX.*known are ND"),
        (changed(annotation={**ANNOTATION, "q1": {"ND": {"a": 1}}}), "annotation / q1 / ND must be a list or set"),
    ],
)
def test_a_file_that_is_not_fivr_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"fivr_audio\.pickle.*{message}"):
        read_fivr(write(tmp_path, content), "5k")


def test_a_missing_file_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "evve.pickle").touch()
    with pytest.raises(DataError, match=r"holds no fivr_audio.pickle or fivr.pickle; it holds: evve.pickle"):
        read_fivr(tmp_path, "5k")
    with pytest.raises(DataError, match="there is no such file or folder"):
        read_fivr(tmp_path / "nothing", "5k")
