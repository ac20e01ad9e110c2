"""The tables of the fusion study, on figures small enough to be right by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fusion_tables import BEGIN, END, Figures, differences, mean_of, shown, spread, tables, write_tables

DRAWS = 100
PARTS = ("news", "dance")


def rows(value: float) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics of one model: `value` in v and tv, half of it in t; uAP a tenth less."""
    modes = {
        "v": value,
        "t": value / 2,
        "tv": value,
        "tv+tag": value,
        "v, tags ignored": value,
        "tv, tags ignored": 0.1,
    }
    found = {}
    for mode, mean in modes.items():
        plain = "tag" not in mode
        values = {"mAP": mean, **({"uAP": mean - 0.1} if plain else {})}
        found[mode] = dict.fromkeys((*PARTS, "mean"), values)
    return found


def samples(model: str, value: float) -> dict[tuple[str, str, str, str], np.ndarray]:
    """Resamples around the rows' values, spread alike for all models: twice as much in news as in dance."""
    noise = {"news": np.linspace(-0.05, 0.05, DRAWS), "dance": np.linspace(-0.025, 0.025, DRAWS)}
    return {
        (model, mode, part, metric): metrics[metric] + noise[part]
        for mode, values in rows(value).items()
        for part, metrics in values.items()
        if part != "mean"
        for metric in metrics
    }


TRAINED = {"s2vs-mean-seed0": 0.5, "s2vs-mean-seed1": 0.6, "s2vs-gated-seed0": 0.6, "s2vs-gated-seed1": 0.8}
UNTRAINED = {"frame_max": 0.4, "frame_max whitened": 0.3, "chamfer": 0.45}


@pytest.fixture
def study():
    facts = {"best_step": 40, "seconds": 60.4, "parameters": 12345}
    runs = {"untrained": {"rows": {name: rows(value) for name, value in UNTRAINED.items()}}}
    runs |= {name: {**facts, "rows": {name: rows(value)}} for name, value in TRAINED.items()}
    drawn = {name: samples(name, value) for name, value in TRAINED.items()}
    drawn["untrained"] = {k: v for name, value in UNTRAINED.items() for k, v in samples(name, value).items()}
    return {"meta": {"corpus": "toy-v1", "split": "test", "resamples": DRAWS}, "runs": runs}, drawn


def shown_lead(figures, one, other, metric):
    return shown(figures.lead(one, other, metric))


def test_values_are_of_the_seeds(study):
    figures = Figures(*study)
    assert list(figures.trained) == ["s2vs-mean", "s2vs-gated"]
    assert figures.values("s2vs-gated", "tv", "mAP") == pytest.approx([60, 80])
    assert figures.values("frame_max", "t", "uAP", "news") == pytest.approx([10])
    assert figures.values("frame_max", "tv+tag", "uAP") == []
    assert spread([60, 80]) == "70.0 ± 14.1"
    assert spread([12.34]) == "12.3"
    assert spread([]) == "-"


def test_the_best_row_is_the_hardest_to_beat(study):
    figures = Figures(*study)
    assert figures.best(["frame_max", "frame_max whitened"], ("v", "t", "tv"), "mAP") == ("frame_max", "v")
    assert figures.best(figures.untrained, ("t", "tv, tags ignored"), "mAP") == ("chamfer", "t")


def test_paired_differences(study):
    """Shared draws cancel: all rows move together, so differences of equal spread have none."""
    figures = Figures(*study)
    assert shown_lead(figures, ("s2vs-gated", "tv"), ("s2vs-mean", "tv"), "mAP") == "**+15.0 [+15.0, +15.0]**"
    assert shown_lead(figures, ("s2vs-mean", "t"), ("s2vs-mean", "tv"), "uAP") == "**-27.5 [-27.5, -27.5]**"
    assert shown_lead(figures, ("s2vs-mean", "tv"), ("s2vs-mean", "tv"), "mAP") == "+0.0 [+0.0, +0.0]"
    assert shown_lead(figures, ("s2vs-mean", "tv+tag"), ("frame_max", "tv+tag"), "uAP") == "-"


def test_an_interval_that_holds_zero_is_not_bold(study):
    content, drawn = study
    for (_, mode, part, metric), array in drawn["s2vs-mean-seed0"].items():
        drawn["s2vs-mean-seed1"]["s2vs-mean-seed1", mode, part, metric] = array[::-1]
    figures = Figures(content, drawn)  # the mean of the two seeds stands still at 50, gated moves around 70
    assert shown_lead(figures, ("frame_max", "v"), ("s2vs-mean", "v"), "mAP") == "**-15.0 [-13.6, -6.4]**"
    drawn["untrained"] |= {("frame_max", "v", part, "mAP"): np.linspace(0.4, 0.6, DRAWS) for part in PARTS}
    assert shown_lead(Figures(content, drawn), ("frame_max", "v"), ("s2vs-mean", "v"), "mAP") == "-15.0 [-9.5, +9.5]"


def test_tables_come_into_the_page_and_leave_the_rest(study, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    write_tables(Figures(*study), tmp_path / "study.md", page)
    text = (tmp_path / "study.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == text.strip()
    assert page.read_text(encoding="utf-8") == f"before\n\n{BEGIN}\n\n{text}\n{END}\n\nafter\n"
    write_tables(Figures(*study), tmp_path / "study.md", page)  # again: the same
    assert page.read_text(encoding="utf-8") == f"before\n\n{BEGIN}\n\n{text}\n{END}\n\nafter\n"


def test_every_table_is_there(study):
    text = "\n\n".join(tables(Figures(*study)))
    assert "| s2vs-gated | 70.0 ± 14.1 / 60.0 ± 14.1 | 35.0 ± 7.1 / 25.0 ± 7.1 |" in text
    assert "minus the best zero-shot row (frame_max, v; with tags frame_max, v, tags ignored)" in text
    assert "minus the best untrained row (chamfer, v; with tags chamfer, v, tags ignored)" in text
    assert "| s2vs-mean | **+15.0 [+15.0, +15.0]** |" in text
    assert "| s2vs-gated | 12,345 | 40, 40 | 60, 60 |" in text
    assert "nan" not in text


def test_differences_as_values(study):
    found = differences(Figures(*study))
    entry = next(e for e in found if e["row"] == "s2vs-gated" and "zero-shot" in e["what"] and e["mode"] == "tv+tag")
    assert entry["minus"] == "frame_max, v, tags ignored"
    assert (entry["metric"], entry["difference"], *entry["interval"]) == ("mAP", *[pytest.approx(30)] * 3)
    assert len(found) == 2 * 2 * 4 + 4 + 2 * 2 * 3 + 3  # against two kinds of rows and the mean; uAP has no tv+tag


def test_rows_of_the_mean_head():
    assert mean_of("late_interaction-cross_attention") == "late_interaction-mean"
