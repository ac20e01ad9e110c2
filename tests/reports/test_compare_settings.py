"""What differs between compared runs beside their scores: settings, and whether they are trained at all."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.types import Benchmark
from muvr_train.reports.compare import main
from tests.compared_runs import compared, make_benchmark, write_run

CONFIG: dict[str, Any] = {
    "run": "base",
    "seed": 0,
    "model": {"_target_": "a.b.S2VS", "whiten": True, "pooling": True},
    "loss": {"_target_": "a.Composite", "losses": {"infonce": {"_target_": "a.InfoNCE", "on": "video"}}},
    "optimizer": {"lr": 0.001, "betas": [0.9, 0.999]},
    "data": {"workers": 0, "fractions": [0.5, 0.2, 0.3]},
}


def with_config(folder: Path, changed: dict[str, Any] | None = None, meta: dict[str, Any] | None = None) -> Path:
    """Give a run a config with some settings changed; None removes one."""
    config = copy.deepcopy(CONFIG)
    for key, value in (changed or {}).items():
        place, *names = config, *key.split(".")
        for name in names[:-1]:
            place = place[name]
        place[names[-1]] = value
        if value is None:
            del place[names[-1]]
    path = folder / "results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["meta"] |= {"config": config, **(meta or {})}
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    names = "s2vs-2026-11-30_21-50-13_0", "s2vs-2026-11-30_21-50-13_1"
    return [write_run(tmp_path / name, seed, bonus=0.2 + seed) for seed, name in enumerate(names)]


def test_the_settings_that_differ_are_told(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_config(runs[0])
    with_config(runs[1], {"optimizer.lr": 0.0003, "run": "other", "data.workers": 3})
    assert compared(capsys, *runs)["settings"] == {"optimizer.lr": ["0.001", "0.0003"]}
    assert main([*map(str, runs), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "settings that differ" in shown
    assert re.search(r"s2vs 21-50-13_1 +│ +0\.0003 │", shown)
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert (
        f"| run | optimizer.lr |\n|---|---:|\n| {runs[0].name} (baseline) | 0.001 |\n| {runs[1].name} | 0.0003 |"
        in text
    )
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert f'<bdi title="{runs[1].name}">s2vs 21-50-13_1</bdi></th><td><bdi>0.0003</bdi></td>' in page


def test_classes_stand_for_their_settings_and_groups_of_training_are_not_missed(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = write_run(tmp_path / "third", 5)
    with_config(runs[0], {"loss.losses.text": {"_target_": "a.Other", "on": "text"}, "optimizer.betas": [0.8, 0.9]})
    with_config(runs[1], {"model": {"_target_": "a.b.Chamfer", "whiten": False}, "loss.losses.infonce.on": "text"})
    with_config(third, {"optimizer": None})
    assert compared(capsys, *runs, third)["settings"] == {
        "model": ["S2VS", "Chamfer", "S2VS"],
        "loss.losses.infonce.on": ["video", "text", "video"],
        "loss.losses.text": ["Other", "-", "-"],
        "optimizer.betas": ["[0.8, 0.9]", "[0.9, 0.999]", "-"],
    }


def test_runs_of_equal_settings_and_untrained_rows_have_no_such_table(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for run in runs:
        with_config(run)
    assert compared(capsys, *runs)["settings"] == {}
    with_config(runs[1], {"seed": 1})
    assert compared(capsys, f"{runs[0]}:frame_max", runs[1])["settings"] == {}
    assert main([*map(str, runs[:1])]) == 0
    assert "settings that" not in capsys.readouterr().out


def test_many_settings_have_a_line_each(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_config(runs[0], {f"optimizer.x{number}": number for number in range(30)})
    with_config(runs[1], {f"optimizer.x{number}": -1 for number in range(30)})
    assert main([*map(str, runs), "--out", str(tmp_path / "out")]) == 0
    assert "settings that differ (24 of 30)" in capsys.readouterr().out
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert f"| setting | {runs[0].name} (baseline) | {runs[1].name} |" in text
    assert "| optimizer.x23 | 23 | -1 |" in text
    assert len(json.loads((tmp_path / "out" / "compare.json").read_text())["settings"]) == 30


def test_a_run_that_kept_the_untrained_model_is_named(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, step in zip(runs, (0, 50), strict=True):
        (run / "training.json").write_text(json.dumps({"best_step": step}))
        (run / "best.ckpt").touch()
    evaluated = with_config(write_run(tmp_path / "again", 5), meta={"checkpoint": str(runs[0] / "best.ckpt")})
    found = compared(capsys, *runs, evaluated)
    assert {row["run"]: row["untrained"] for row in found["overview"]["rows"]} == {
        runs[0].name: True,
        runs[1].name: False,
        "again": True,
    }
    said = [note for note in found["notes"] if "best.ckpt is of step 0" in note]
    assert [note.partition(":")[0] for note in said] == [runs[0].name, "again"]
    assert main([*map(str, runs), "--out", str(tmp_path / "out")]) == 0
    assert "s2vs 21-50-13_0 (step 0, untrained) (baseline)" in capsys.readouterr().out
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert f'<bdi title="{runs[0].name}">s2vs 21-50-13_0 (step 0, untrained) (baseline)</bdi>' in page


@pytest.mark.parametrize("content", ["", "[]", '{"best_step": null}', '{"best": 1}'])
def test_a_training_file_of_another_kind_says_nothing(
    runs: list[Path], content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs[0] / "training.json").write_text(content)
    assert not any("step 0" in note for note in compared(capsys, *runs)["notes"])


def test_all_tables_have_one_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        write_run(tmp_path / name, seed, bonus=bonus)
        for seed, (name, bonus) in enumerate({"a": 0.1, "b": 0.3, "c": 0.9, "d": 0.6}.items())
    ]
    assert main([*map(str, made), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    first, last = text.split("## ")[1], text.split("## ")[-1]
    assert re.findall(r"\| ([a-d])(?: \(baseline\))? \|", first) == ["c", "d", "b", "a"]
    assert re.findall(r"\| ([a-d])(?: \(baseline\))? \|", last) == ["a", "c", "d", "b"] * 3


def test_one_partition_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    news = Benchmark("toy", make_benchmark().partitions[:1])
    made = [write_run(tmp_path / f"r{seed}", seed, news) for seed in range(6)]
    for some in (made[:2], made):
        assert main([*map(str, some), "--out", str(tmp_path / "out")]) == 0
        shown = capsys.readouterr().out
        assert shown.count("topics, ") == 1
        assert "news (6 topics, 12 queries)" in shown
        assert (tmp_path / "out" / "compare.md").read_text(encoding="utf-8").count("(6 topics, ") == 1


def test_pictures_are_no_wider_than_the_page_and_tell_what_has_no_interval(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [*runs, *(write_run(tmp_path / f"more{seed}", seed) for seed in range(3))]
    sizes: dict[int, tuple[int, int]] = {}
    for modes in (1, 5):
        for folder in made:
            path = folder / "per_query.csv"
            header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            more = [line.replace(",v,", f",m{number},") for number in range(modes - 1) for line in lines]
            path.write_text("".join([header, *lines, *more]), encoding="utf-8")
            content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
            content["rows"] += [{**row, "mode": f"m{number}"} for number in range(modes - 1) for row in content["rows"]]
            (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")
        for several in (made[:2], made):
            assert main([*map(str, several), "--out", str(tmp_path / "out")]) == 0
            for name in ("runs.png", "compare.png"):
                with Image.open(tmp_path / "out" / name) as picture:
                    assert 700 <= picture.width <= 1300
                    sizes[modes] = picture.size
                    assert np.asarray(picture.convert("L")).std() > 5
    assert sizes[5][1] > 1.5 * sizes[1][1]
    capsys.readouterr()
