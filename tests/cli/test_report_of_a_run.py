"""The report that an evaluation ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.toy import make_toy


@pytest.fixture
def data(tmp_path: Path) -> tuple[str, ...]:
    annotations, features = make_toy(tmp_path / "toy")
    return "data=muvr", f"data.annotations={annotations}", f"data.features={features}", "model=frame_max", "out=out"


def test_an_evaluation_ends_with_a_report(start: Start, data: tuple[str, ...], tmp_path: Path) -> None:
    ended = start("evaluate.py", *data, env={"MUVR_TRAIN_CACHE": str(tmp_path / "cache")})
    assert ended.code == 0, ended.err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    rows = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        assert f"{100 * row['metrics']['mAP']:.1f}" in page
    assert "similarity map" in page
    assert "frame\\_max & tv &" in (tmp_path / "out" / "report.tex").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "report.md").is_file()


@pytest.mark.slow
def test_a_report_that_fails_is_an_error_after_all_results_are_written(
    start: Start, data: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "out" / "report.html" / "in the way").mkdir(parents=True)
    environment = {"MUVR_TRAIN_CACHE": str(tmp_path / "cache")}
    ended = start("evaluate.py", *data, env=environment)
    assert ended.code == 1
    assert "error: the report could not be made" in ended.err
    assert "benchmark.report=false" in ended.err
    assert "mAP / uAP" in ended.out
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["rows"]
    ended = start("evaluate.py", *data, "benchmark.report=false", env=environment)
    assert ended.code == 0, ended.err
    assert not (tmp_path / "out" / "report.html").is_file()
