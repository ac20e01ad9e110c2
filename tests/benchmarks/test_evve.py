"""EVVE: events, neutral videos, the two means and its own average precision, on a hand-made file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from muvr_train.benchmarks.evve import read_evve
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from tests.matrix_scores import MatrixScores

EVENTS = {
    "flood": ({"f1", "f2"}, {"a", "b"}, {"n"}),
    "geyser+2011": ({"g"}, {"c"}, set()),
}
CONTENT = {"annotation": EVENTS, "queries": ["f1", "g", "f2"], "database": ["a", "b", "c", "d", "n"]}
SCORES = {
    "f1": {"n": 0.9, "a": 0.8, "d": 0.7, "b": 0.6, "c": 0.5},
    "f2": {"c": 0.95, "a": 0.4, "b": 0.3, "d": 0.2, "n": 0.1},
    "g": {"n": 0.85, "a": 0.75, "c": 0.65, "b": 0.55, "d": 0.45},
}
F1 = ((1 + 1) / 2 + (1 / 2 + 2 / 3) / 2) / 2  # n is neutral: a d b c
F2 = ((0 / 1 + 1 / 2) / 2 + (1 / 2 + 2 / 3) / 2) / 2
G = (0 / 2 + 1 / 3) / 2


def write(path: Path, content: Any = CONTENT) -> Path:
    (path / "evve.pickle").write_bytes(pickle.dumps(content))
    return path


def test_hand_worked_values_of_events_and_both_means(tmp_path: Path) -> None:
    benchmark = read_evve(write(tmp_path))
    results = evaluate_scores(MatrixScores.of(SCORES), benchmark)
    found = {str(row["partition"]): row["metrics"] for row in results.rows}
    means = {"flood": (F1 + F2) / 2, "geyser+2011": G, "all": (F1 + F2 + G) / 3, "mean": ((F1 + F2) / 2 + G) / 2}
    assert {name: metrics["mAP"] for name, metrics in found.items()} == pytest.approx(means, abs=1e-12)  # type: ignore[index]
    # pooled, * right: f2c, g n, f1a*, ga, f1d, gc*, f1b*, gb, f1c, gd, f2a*, f2b*, f2d
    expected = (1 / 3 + 2 / 6 + 3 / 7 + 4 / 11 + 5 / 12) / 5
    assert found["all"]["uAP"] == pytest.approx(expected, abs=1e-12)  # type: ignore[index]
    assert [row["AP"] for row in results.per_query if row["partition"] == "flood"] == pytest.approx([F1, F2])
    counts = {str(row["partition"]): row["counts"]["queries"] for row in results.rows}  # type: ignore[index]
    assert counts == {"flood": 2, "geyser+2011": 1, "all": 3, "mean": 3}


def test_matches_are_cut_to_what_was_found_and_an_event_without_any_is_not_counted(tmp_path: Path) -> None:
    benchmark = read_evve(write(tmp_path))
    scores = {query: {v: s for v, s in row.items() if v not in "bc"} for query, row in SCORES.items() if query != "f2"}
    official = Protocol(on_missing="official")
    results = evaluate_scores(MatrixScores.of(scores), benchmark, official)
    without_geyser = evaluate_scores(MatrixScores.of({"f1": SCORES["f1"]}), benchmark, official)
    assert [row["partition"] for row in without_geyser.rows] == ["flood", "all", "mean"]
    assert without_geyser.notes == ["geyser+2011: left out of mode v, because no query or no database video has scores"]
    assert results.notes == ["geyser+2011: left out of mode v, because no match of any query was scored"]
    assert results.rows[-1]["counts"]["partitions"] == 1  # type: ignore[index]
    assert [row["partition"] for row in results.rows] == ["flood", "all", "mean"]
    counts = results.rows[-2]["counts"]
    assert results.rows[-2]["metrics"]["mAP"] == pytest.approx(1.0)  # type: ignore[index]
    assert (counts["queries"], counts["counted_queries"]) == (2, 1)  # type: ignore[index]
    assert (counts["missing_queries"], counts["missing_database"]) == (1, 2)  # type: ignore[index]


def test_queries_topics_and_judgements(tmp_path: Path) -> None:
    benchmark = read_evve(write(tmp_path))
    assert [p.name for p in benchmark.partitions] == ["flood", "geyser+2011", "all"]
    assert benchmark["all"].query_ids == ("f1", "f2", "g")
    assert benchmark["flood"].topics == ("evve/flood",)
    flood, geyser = benchmark["all"].judgements[0], benchmark["all"].judgements[2]
    assert dict(flood.positives) == {"a": "match", "b": "match"}
    assert flood.ranked == {"a", "b", "c", "d"}
    assert geyser.ranked is None


def changed(**changes: Any) -> dict[str, Any]:
    return {**CONTENT, **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(annotation={"flood": ({"f1"}, {"a"})}), "annotation / flood must be a list of 3, found a tuple of 2"),
        (changed(annotation={**EVENTS, "x": ({"f1"}, {"a"}, set())}), "query f1 belongs to evve/flood and to x"),
        (
            changed(annotation={**EVENTS, "x": ({"z"}, {"a"}, set())}),
            "annotation / x: 1 ids are not in the list",
        ),
        (changed(queries=["f1", "f2", "g", "h"]), "queries: 1 ids are not of any event: h"),
        (changed(database=["a", "b", "d"]), r"annotation / geyser\+2011: 1 ids are not in the database: c"),
        (changed(database=["a", "a"]), "database holds 1 ids twice: a"),
        (changed(annotation={}, queries=[]), "no event has a query"),
    ],
)
def test_a_file_that_is_not_evve_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"evve\.pickle.*{message}"):
        read_evve(write(tmp_path, content))
