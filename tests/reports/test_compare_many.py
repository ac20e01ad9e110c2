"""Many runs at once: what `checkpoints/*` names, tables and pictures of all, another baseline than the first."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from muvr_train.reports.compare import main
from tests.compared_runs import compared, make_benchmark, refused, write_run

BONUS = {"c": 0.1, "a": 0.3, "e": 0.5, "b": 0.9, "d": 0.2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    for seed, (name, bonus) in enumerate(BONUS.items()):
        write_run(root / name, seed, bonus=bonus)
    write_run(root / "other", 9, make_benchmark(name="copies"))
    (root / "README.md").write_text("checkpoints")
    (root / "latest").symlink_to("b")
    (root / "started").mkdir()
    (root / "started" / "config.yaml").touch()
    return root


def everything(made: Path) -> list[Path]:
    return sorted(made.iterdir())


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found


def test_what_is_no_run_is_left_out_and_counted(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, *everything(made))
    assert [run["name"] for run in found["runs"]] == ["a", "b", "c", "d", "e"]
    assert found["notes"][:4] == [
        "left out, 1 file: README.md",
        "left out, 1 link to a run: latest",
        "left out, 1 folder without results: started",
        "left out, 1 on another benchmark, split or gallery: other",
    ]


def test_a_link_alone_is_the_run_that_it_leads_to(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, made / "a", made / "latest")
    assert [run["name"] for run in found["runs"]] == ["a", "b"]


def test_nothing_is_left_out_of_two(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "results.json is missing" in refused(capsys, 1, made / "a", made / "started")
    assert "different benchmarks" in refused(capsys, 1, made / "a", made / "other")
    assert "results.json is missing" in refused(capsys, 1, made / "started")


def test_a_broken_run_is_not_passed_over(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(made / "a", tmp_path / "x")
    (tmp_path / "x" / "per_query.csv").unlink()
    assert "per_query.csv is missing" in refused(capsys, 1, made / "a", made / "b", tmp_path / "x")


def test_a_single_run_is_compared_with_its_best_untrained_row(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "only"
    shutil.copytree(made / "a", run)
    found = content(run)
    weak = json.loads(json.dumps(found["baselines"][0]))
    weak["name"] = "weak"
    for row in weak["rows"]:
        row["metrics"] = dict.fromkeys(row["metrics"], 0.0)
    found["baselines"].append(weak)
    (run / "results.json").write_text(json.dumps(found), encoding="utf-8")
    lines = (run / "per_query.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    more = [line.replace("frame_max,", "weak,", 1) for line in lines if line.startswith("frame_max,")]
    (run / "per_query.csv").write_text("".join([*lines, *more]), encoding="utf-8")
    shown = compared(capsys, run)
    assert [entry["name"] for entry in shown["runs"]] == ["only:frame_max", "only"]
    assert "only is the only run: it is compared with its best untrained row" in shown["notes"]


def test_the_overview_is_what_the_evaluations_wrote(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, *(made / name for name in BONUS))["overview"]
    assert found["modes"] == ["v"]
    rows = {row["run"]: row for row in found["rows"]}
    for name in BONUS:
        (mean,) = [row for row in content(made / name)["rows"] if row["partition"] == "mean"]
        for metric in ("mAP", "uAP"):
            cell = rows[name]["cells"]["v"][metric]
            assert cell == {"value": mean["metrics"][metric], "interval": mean["intervals"][metric], "std": None}
    values = [row["cells"]["v"]["mAP"]["value"] for row in found["rows"]]
    assert values == sorted(values, reverse=True)
    assert [row["run"] for row in found["rows"] if row["baseline"]] == ["c"]


def test_modes_that_only_some_runs_have_and_deviations_over_seeds(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "seeds"
    shutil.copytree(made / "b", run)
    found = content(run)
    for row in list(found["rows"]):
        row["std"] = dict.fromkeys(row["metrics"], 0.0123)
        found["rows"].append({**row, "mode": "tv"})
    (run / "results.json").write_text(json.dumps(found), encoding="utf-8")
    assert main([str(made / "a"), f"{run}:b", "--out", str(tmp_path / "out")]) == 0
    assert re.search(r"seeds\S* +│ \d\d\.\d ± 1\.2 \[\d\d\.\d, \d\d\.\d\]", capsys.readouterr().out)
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert "| run | query v | query tv |" in text
    assert re.search(r"\| a \(baseline\) \| [^|]+ \| - \|", text)


@pytest.mark.parametrize("how", ["name", "path", "best"])
def test_another_baseline_than_the_first(made: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    wanted = {"name": "b", "path": f"{made / 'b'}/", "best": "best"}[how]
    found = compared(capsys, *(made / name for name in BONUS), "--baseline", wanted)
    assert [run["name"] for run in found["runs"]] == ["b", "c", "a", "e", "d"]
    assert all(other["difference"] < 0 for other in found["rows"][-1]["differences"])
    note = "b is the best by the scores shown here, which flatters its lead over the others"
    assert (note in found["notes"]) == (how == "best")
    plain = compared(capsys, made / "b", made / "a")["rows"][-1]["differences"][0]
    same = next(other for other in found["rows"][-1]["differences"] if other["run"] == "a")
    assert same["interval"] == plain["interval"]
    assert same["p"] == plain["p"] <= same["p_holm"]


def test_automatic_names_lose_their_dates_in_one_line_and_are_known_as_baselines(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"fusion_cross_attention-2026-11-30_13-58-45_2": "a", "fusion_mean-2026-11-30_13-58-45_6": "b"}
    for name, source in names.items():
        shutil.copytree(made / source, tmp_path / name)
    monkeypatch.setenv("COLUMNS", "60")
    runs = [str(tmp_path / name) for name in names]
    assert main([*runs, "--baseline", "fusion_mean"]) == 0
    shown = capsys.readouterr().out
    assert "│ fusion_mean (baseline) " in shown
    assert "│ fusion_cross_attention " in shown
    assert "2026-11-30" not in shown.split("difference: run minus")[0]
    assert "Names of runs are shortened" in shown
    assert [run["name"] for run in compared(capsys, *runs)["runs"]] == list(names)


def test_files_of_many_runs(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main([*map(str, everything(made)), "--baseline", "best", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "mAP (%), mean over partitions [95 %]" in shown
    assert "uAP (%), mean over partitions [95 %]" in shown
    assert "b (baseline)" in shown
    assert "news (" not in shown
    assert "left out, 1 file: README.md" in shown
    markdown = (out / "compare.md").read_text(encoding="utf-8")
    assert "news (6 topics" in markdown
    page = (out / "compare.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page
    assert "news (6 topics" in page
    for text in ("partition", "run"):
        assert f'<th scope="col" class="name">{text}</th>' in page
    assert '<td class="name"><bdi>b (baseline)</bdi></td>' in page
    links, places = re.findall(r'href="#([^"]+)"', page), re.findall(r'id="([^"]+)"', page)
    assert links == ["pictures", "table-1", "table-2", "table-3", "notes"] == places
    difference = json.loads((out / "compare.json").read_text())["rows"][-1]["differences"][0]["difference"]
    for text in (shown, markdown, page):
        assert f"{100 * difference:+.1f}" in text
    for name in ("runs.png", "compare.png"):
        with Image.open(out / name) as picture:
            assert picture.width > 300
            assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 10
