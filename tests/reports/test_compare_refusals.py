"""Runs that cannot be compared: one clear message each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compared_runs import compared, make_benchmark, refused, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", 0)
    write_run(root / "b", 1, bonus=0.6)
    write_run(root / "läufe [c]", 2)
    return root


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"benchmark": make_benchmark(name="other")}, ("different benchmarks", "toy in a, other in x")),
        ({"split": "all"}, ("different split", "test in a, all in x", "benchmark.split")),
        ({"benchmark": make_benchmark(topics=5)}, ("database videos in partition news", "a and x")),
    ],
)
def test_runs_about_something_else_are_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, words: tuple[str, ...]
) -> None:
    message = refused(capsys, 1, runs / "a", write_run(tmp_path / "x", 3, **change))
    assert all(word in message for word in words), message


def without_lines(folder: Path, target: Path, drop: str) -> Path:
    """Copy a run, its per-query lines without those of a query."""
    shutil.copytree(folder, target)
    text = (target / "per_query.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in text if drop not in line.split(",")[:2]]
    assert len(kept) < len(text)
    (target / "per_query.csv").write_text("".join(kept), encoding="utf-8")
    return target


def test_different_queries_are_refused_unless_the_common_ones_will_do(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = without_lines(runs / "a", tmp_path / "fewer", "news/猫00")
    arguments = runs / "b", f"{fewer}:a"
    message = refused(capsys, 1, *arguments)
    assert "Only in b: 1: news/猫00." in message
    assert "--common" in message
    rows = compared(capsys, *arguments, "--common")["rows"]
    assert [row["queries"] for row in rows] == [11, 12, 23]
    assert "uAP" in refused(capsys, 1, *arguments, "--common", "--metric", "uAP")


def test_another_judgement_of_a_query_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    path = tmp_path / "x" / "per_query.csv"
    text = path.read_text(encoding="utf-8").replace("news/t0,v,4,True", "news/t0,v,3,True", 1)
    path.write_text(text, encoding="utf-8")
    message = refused(capsys, 1, runs / "b", f"{tmp_path / 'x'}:a")
    assert "query news/猫00" in message
    assert "positives is 4 in b, 3 in x" in message


def test_wrong_arguments(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs / "a", runs / "b"
    assert "no such folder" in refused(capsys, 2, a, runs / "nowhere")
    assert "it has a, frame_max" in refused(capsys, 2, a, f"{a}:frame_mix")
    assert "two or more runs" in refused(capsys, 2, f"{a}:frame_max")
    assert "--baseline c: name best or one of a, b" in refused(capsys, 2, a, b, "--baseline", "c")
    assert "named twice" in refused(capsys, 2, a, a)
    assert "recall@5" in refused(capsys, 2, a, b, "--metric", "recall@7")
    assert "b has v" in refused(capsys, 2, b, a, "--mode", "tv")
    (tmp_path / "file").touch()
    assert "--out" in refused(capsys, 2, a, b, "--out", tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("results.json", "{", "no results file"),
        ("results.json", '{"rows": 3, "meta": {}}', "no results file"),
        ("results.json", None, "is missing"),
        ("per_query.csv", None, "is missing"),
        ("per_query.csv", "query,AP\nx,1\n", "no column model"),
        ("per_query.csv", "model,query,partition,topic,mode,positives,counted,AP\n", "no line of model 'a'"),
        ("resampled.npz", "PK broken", "damaged"),
    ],
)
def test_broken_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, words: str
) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    (tmp_path / "x" / name).unlink()
    if content is not None:
        (tmp_path / "x" / name).write_text(content)
    model = "" if name == "results.json" else ":a"
    message = refused(capsys, 1, runs / "b", f"{tmp_path / 'x'}{model}")
    assert words in message
    assert name in message


def test_a_folder_with_two_models_of_one_name(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    path = tmp_path / "x" / "results.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"name": "frame_max"', '"name": "a"'), encoding="utf-8")
    message = refused(capsys, 1, runs / "b", tmp_path / "x")
    assert "results.json: two models are called 'a'" in message
    assert "evaluate again" in message


def test_a_cut_file_of_resampled_values(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    path = tmp_path / "x" / "resampled.npz"
    path.write_bytes(path.read_bytes()[:-50])
    assert "resampled.npz is damaged" in refused(capsys, 1, runs / "b", f"{tmp_path / 'x'}:a")


def test_a_metric_that_is_no_number(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    path = tmp_path / "x" / "per_query.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[1].split(",")
    cells[7] = "much"
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n", encoding="utf-8")
    assert "column AP" in refused(capsys, 1, runs / "b", f"{tmp_path / 'x'}:a")
