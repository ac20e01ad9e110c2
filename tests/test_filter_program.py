"""evaluate.py with benchmark=muvr_filter as a user runs it, in a process of its own."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from muvr_train import mine
from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.reports import compare
from tests.tagged import make_tagged
from tests.test_end_to_end import Workplace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    made = Workplace(tmp_path_factory.mktemp("filter"))
    annotations, features = make_tagged(made.folder / "tagged")
    made.data = ("data=muvr", f"data.annotations={annotations}", f"data.features={features}")
    return made


def read(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return content


def test_an_untrained_model_on_all_expressions(place: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("model=frame_max", "benchmark=muvr_filter", "benchmark.tag_mode=[0.3,2]", "benchmark.bootstrap=100")
    done = place.call("evaluate.py", *more, *place.data, "out=all", "save_scores=true")
    assert done.returncode == 0, done.stderr
    assert "published" not in done.stdout, "the published rows are of other data"
    assert "mAP by operator and sign" in done.stdout
    content = read(place.folder / "all")
    assert any("official cuts break a known tag" in line for line in content["meta"]["annotation_warnings"])
    modes = ["tag_0.0", "tag_0.3", "tag_2", "logic_0.0", "logic_0.3", "logic_2", UPPER_BOUND]
    assert list(dict.fromkeys(row["mode"] for row in content["rows"])) == modes
    assert {row["benchmark"] for row in content["rows"]} == {"muvr_filter"}
    assert all("uAP" not in row["metrics"] for row in content["rows"])
    assert all(0 <= row["intervals"]["mAP"][0] <= row["intervals"]["mAP"][1] <= 1 for row in content["rows"])
    assert {part["group"] for part in content["breakdowns"]} == {"operator", "sign"}
    flat = json.loads((place.folder / "all/metrics.json").read_text())
    assert "all/muvr_filter/tag_0.3/mean/mAP" in flat
    assert not any(UPPER_BOUND in name for name in flat)
    with (place.folder / "all/per_query.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["expression"] for line in lines if line["mode"] == "tag_0.3"} >= {"+night", "-high -rise buildings"}
    assert [path.name for path in (place.folder / "all").glob("*.npz")] == ["scores_tag_0.3.npz"]
    rows = {row["partition"]: row["counts"]["expressions"] for row in content["rows"] if row["mode"] == "tag_0.3"}
    mine.main([str(place.folder / "all"), "--out", str(place.folder / "hard")])
    shown = capsys.readouterr().out
    assert "expressions with average precision below 0.05 (tag_0.3)" in shown
    assert next(line for line in shown.splitlines() if line.startswith("│ all")).split()[3] == str(rows["mean"])
    compare.main([f"{place.folder / 'all'}", f"{shutil.copytree(place.folder / 'all', place.folder / 'twin')}"])
    assert f"topics, {rows['news']} expressions)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_checkpoint_on_its_test_split(place: Workplace) -> None:
    more = ("data.batch.topics=3", "trainer.max_epochs=1", "trainer.steps_per_epoch=2", "trainer=cpu", "logger=csv")
    trained = place.call("train.py", "experiment=s2vs_evaclip", *place.data, "run=tags", *more)
    assert trained.returncode == 0, trained.stderr
    done = place.call("evaluate.py", "ckpt_path=checkpoints/tags/best.ckpt", "benchmark=muvr_filter", "out=checkpoint")
    assert done.returncode == 0, done.stderr
    assert "published" not in done.stdout
    content = read(place.folder / "checkpoint")
    assert content["meta"]["protocol"]["split"] == "test"
    assert content["baselines"][0]["name"] == "frame_max"
    beside = {row["mode"] for row in content["baselines"][0]["rows"]}
    assert beside == {"tag_0.0", "tag_0.3", "logic_0.0", "logic_0.3"}
    counts = next(row["counts"] for row in content["rows"] if (row["mode"], row["partition"]) == ("tag_0.3", "mean"))
    assert 0 < counts["expressions"] < 2 * 9 * 4
