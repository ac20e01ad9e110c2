"""Seeds put together: means, deviations and intervals of their mean, in files that read as one run's."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.metrics.bootstrap import draw_topics, interval, resampled_means
from muvr_train.reports.comparison import compare_runs
from muvr_train.reports.runs import read_run
from muvr_train.reports.seeds import Summary, summarize
from muvr_train.reports.tables import partition_table
from muvr_train.reports.write import write_results
from tests.compared_runs import make_benchmark, write_run

B = 200


def with_config(folder: Path) -> Path:
    path = folder / "results.json"
    content = json.loads(path.read_text())
    content["meta"]["config"] = {"benchmark": {"bootstrap": B}}
    path.write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("seeds")
    return [with_config(write_run(root / f"seed{seed}", 10 * seed)) for seed in range(3)]


@pytest.fixture(scope="module")
def summary(folders: list[Path]) -> Summary:
    return summarize(folders)


def rows_of(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    content = json.loads((folder / "results.json").read_text())
    return {(row["mode"], row["partition"]): row for row in content["rows"]}


def test_rows_hold_means_and_deviations(folders: list[Path], summary: Summary) -> None:
    tables = [rows_of(folder) for folder in folders]
    assert [(row["mode"], row["partition"]) for row in summary.results.rows] == list(tables[0])
    for row in summary.results.rows:
        values = [table[str(row["mode"]), str(row["partition"])]["metrics"] for table in tables]
        for name, mean in row["metrics"].items():  # type: ignore[attr-defined]
            own = [value[name] for value in values]
            assert mean == pytest.approx(sum(own) / 3)
            assert row["std"][name] == pytest.approx(np.std(own, ddof=1))  # type: ignore[index]
    news, dance, mean = (summary.results.metrics("v", name)["mAP"] for name in ("news", "dance", "mean"))
    assert mean == pytest.approx((news + dance) / 2)


def test_untrained_rows_have_no_deviation(summary: Summary) -> None:
    assert list(summary.baselines) == ["frame_max"]
    assert all("std" not in row for row in summary.baselines["frame_max"].rows)


def test_queries_hold_means_and_no_videos(folders: list[Path], summary: Summary) -> None:
    tables = []
    for folder in folders:
        with (folder / "per_query.csv").open(newline="", encoding="utf-8") as file:
            tables.append([line for line in csv.DictReader(file) if line["model"] == folder.name])
    assert len(summary.results.per_query) == len(tables[0]) > 0
    for place, line in enumerate(summary.results.per_query):
        assert line["query"] == tables[0][place]["query"]
        assert line["AP"] == pytest.approx(np.mean([float(table[place]["AP"]) for table in tables]))
        assert not {"model", "top_false", "first_missed", "first_missed_rank"} & line.keys()


def test_intervals_are_of_the_mean_over_seeds(folders: list[Path], summary: Summary) -> None:
    lines = [line for line in summary.results.per_query if line["partition"] == "news"]
    draws = draw_topics([str(line["topic"]) for line in lines], B)
    counted = np.array([line["counted"] == "True" for line in lines])
    samples = resampled_means(np.array([[line["AP"] for line in lines]]), counted, draws)[0]
    rows: dict[str, Any] = {str(row["partition"]): row for row in summary.results.rows}
    assert rows["news"]["intervals"]["mAP"] == pytest.approx(interval(samples))
    uap = np.mean([read_run(str(folder)).resampled["v", "news"] for folder in folders], axis=0)
    assert rows["news"]["intervals"]["uAP"] == pytest.approx(interval(uap))
    low, high = rows["mean"]["intervals"]["mAP"]
    assert low < rows["mean"]["metrics"]["mAP"] < high


def test_the_written_summary_compares_as_any_run(folders: list[Path], summary: Summary, tmp_path: Path) -> None:
    write_results(tmp_path / "run", summary.results, {**summary.meta, "model": "run"}, summary.baselines)
    found = compare_runs([read_run(str(tmp_path / "run") + ":frame_max"), read_run(str(tmp_path / "run"))])
    row = next(row for row in found["rows"] if row["partition"] == "mean")
    assert row["values"][1] == pytest.approx(summary.results.metrics("v")["mAP"])
    assert row["differences"][0]["p"] is not None
    again = compare_runs([read_run(str(folders[0])), read_run(str(tmp_path / "run"))], metric="uAP")
    assert next(row for row in again["rows"] if row["partition"] == "mean")["differences"][0]["interval"] is not None


def test_one_seed_is_itself(folders: list[Path]) -> None:
    alone = summarize(folders[:1])
    assert all("std" not in row for row in alone.results.rows)
    own = rows_of(folders[0])
    for row in alone.results.rows:
        assert row["metrics"] == pytest.approx(own[str(row["mode"]), str(row["partition"])]["metrics"])
        mine, other = row["intervals"], own[str(row["mode"]), str(row["partition"])]["intervals"]
        assert {name: pytest.approx(value) for name, value in other.items()} == mine


def test_tables_show_the_deviation(summary: Summary) -> None:
    table = partition_table({"frame_max": summary.baselines["frame_max"], "trained, 3 seeds": summary.results})
    *_, mean = table.columns
    plain, own = mean.cells
    assert "±" not in str(plain)
    assert str(own).count("±") == 2


def test_seeds_that_were_not_evaluated_alike_are_refused(folders: list[Path], tmp_path: Path) -> None:
    other = with_config(write_run(tmp_path / "other", 3, split="val"))
    with pytest.raises(DataError, match="was not evaluated as"):
        summarize([folders[0], other])
    fewer = with_config(write_run(tmp_path / "fewer", 3, make_benchmark(4)))
    with pytest.raises(DataError, match="has other queries than"):
        summarize([folders[0], fewer])
    (tmp_path / "fewer" / "results.json").unlink()
    with pytest.raises(DataError, match=r"results\.json is missing"):
        summarize([folders[0], tmp_path / "fewer"])
