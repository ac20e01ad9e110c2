"""Result files and tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from rich.console import Console

from muvr_train.benchmarks.published import published_rows
from muvr_train.reports.robustness_tables import interval_table
from muvr_train.reports.tables import count_lines, partition_table, print_tables, recall_table, winner_table
from muvr_train.reports.write import remove_results, write_results
from muvr_train.results import Results


def make_results(value: float, gallery: int = 300) -> Results:
    metrics = {"mAP": value, "uAP": value / 2, "recall@1": 0.125, "recall@500": 1.0, "MRR": 0.5}
    rows = [
        {
            "benchmark": "muvr_base",
            "mode": mode,
            "partition": partition,
            "metrics": metrics,
            "counts": {"queries": 2, "database": gallery, "missing_queries": 0, "missing_database": 3},
        }
        for mode in ("v", "tv")
        for partition in ("news", "dance", "mean")
    ]
    lines = [{"query": 'news/猫, "q"', "partition": "news", "mode": "v", "AP": value}]
    return Results("muvr_base", rows, lines)


def shown(renderable: object) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(renderable)
    return console.export_text()


def test_results_json_and_csv_read_back(tmp_path: Path) -> None:
    path = write_results(tmp_path / "new", make_results(0.25), {"seed": 3}, {"frame_max": make_results(0.5)})
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["meta"]["seed"] == 3
    assert "divisor" in content["meta"]["definitions"]["mAP"]
    assert content["rows"][0]["metrics"]["mAP"] == 0.25
    assert content["baselines"][0]["name"] == "frame_max"
    assert content["baselines"][0]["rows"][5]["metrics"]["uAP"] == 0.25
    with (tmp_path / "new" / "per_query.csv").open(encoding="utf-8", newline="") as file:
        assert next(iter(csv.DictReader(file)))["query"] == 'news/猫, "q"'
    assert not list((tmp_path / "new").glob(".*"))


def test_what_an_earlier_evaluation_left_is_removed_without_answers_and_files_of_others(tmp_path: Path) -> None:
    old = "report.html", "scores_v.npz", "questions.jsonl", "reranking/report.html", "reranking/report_files/a.jpg"
    for name in (*old, "answers.jsonl", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    remove_results(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl", "notes.txt"]
    (tmp_path / "reranking").mkdir()
    (tmp_path / "reranking" / "mine.txt").touch()
    remove_results(tmp_path)
    assert (tmp_path / "reranking" / "mine.txt").is_file()


def test_trackers_get_the_named_metrics_only() -> None:
    flat = make_results(0.25).flat("val")
    assert flat["val/muvr_base/tv/mean/mAP"] == 0.25
    assert flat["val/muvr_base/v/news/recall@500"] == 1.0
    assert not any("MRR" in name for name in flat)
    assert len(flat) == 6 * 4


def test_the_partition_table_is_in_percent_with_references_below() -> None:
    table = partition_table(
        {"frame_max": make_results(0.5), "trained": make_results(0.75)}, published_rows("muvr_base", "tv")
    )
    text = shown(table)
    lines = text.splitlines()
    trained = next(line for line in lines if "trained" in line)
    assert "75.0 / 37.5" in trained
    published = next(line for line in lines if "EVA-CLIP (published, all of MUVR" in line)
    assert "63.1 / -" in published
    assert "58.0 / 44.6" in published
    assert lines.index(trained) < lines.index(published)


def test_the_mean_of_one_partition_is_not_shown_twice() -> None:
    both = make_results(0.5)
    one = Results("muvr_base", [row for row in both.rows if row["partition"] != "dance"], both.per_query)
    for table, heads in ((partition_table({"a": one}), "news"), (partition_table({"a": both}), "news dance mean")):
        line = next(line for line in shown(table).splitlines() if "model" in line)
        assert line.replace("┃", " ").split() == ["model", "query", *heads.split()]
    with_mean = partition_table({"a": one}, published_rows("muvr_base", "tv"))
    assert "mean" in shown(with_mean)
    winners = shown(winner_table({"a": one, "b": one})).splitlines()
    assert [line.split()[1] for line in winners if line.startswith("│")] == ["news"]


def test_many_partitions_are_lines_and_intervals_of_those_that_have_one() -> None:
    names = [f"event+[{number}]" for number in range(12)] + ["mean"]
    metrics = {"mAP": 0.5, "uAP": 0.25}
    base = {"benchmark": "evve", "mode": "v", "metrics": metrics}
    rows: list[dict[str, object]] = [{**base, "partition": name} for name in names]
    rows[3]["intervals"] = {"mAP": [0.125, 0.75], "uAP": None}
    results = Results("evve", rows)
    lines = shown(partition_table({"a": results, "b": results}, published_rows("cc_web_video"))).splitlines()
    row = next(line for line in lines if "event+[11]" in line)
    assert row.count("50.0 / 25.0") == 2
    assert "DnS fine" in lines[2] + lines[3]
    assert not any("of MUVR" in line for line in lines)
    intervals = shown(interval_table(results))
    assert "[12.5, 75.0]" in intervals
    assert "event+[3]" in intervals
    assert "event+[4]" not in intervals


def test_notes_stand_below_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables({"frame_max": make_results(0.5)}, [1], notes=["uAP is of [DSVD]"])
    assert capsys.readouterr().out.splitlines()[-1] == "uAP is of [DSVD]"


def test_partitions_left_out_are_told_below_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    other, own = make_results(0.5), make_results(0.5)
    own.notes.append("dance: left out of mode t")
    other.notes += ["dance: left out of mode t", "news: left out of mode t"]
    print_tables({"frame_max": other, "own": own}, [1], notes=["uAP is of [DSVD]"])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "uAP is of [DSVD]",
        "dance: left out of mode t",
        "frame_max: news: left out of mode t",
    ]


def test_the_first_title_names_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables({"own": make_results(0.5)}, [1], about="x[1]-2026: S2VS, GatedFusion")
    assert capsys.readouterr().out.splitlines()[0].strip() == "mAP / uAP (%) of x[1]-2026: S2VS, GatedFusion"


def test_names_are_shown_as_they_are() -> None:
    named = {"run [bold] [x]=1": make_results(0.5)}
    assert "run [bold] [x]=1" in shown(partition_table(named))
    assert "run [bold] [x]=1" in shown(recall_table(named, [1]))


def test_a_k_larger_than_a_gallery_shows_as_a_dash_and_one_larger_than_all_is_named_below() -> None:
    named = {"x": make_results(0.5), "wide": make_results(0.5, gallery=500)}
    lines = shown(recall_table(named, [1, 500, 501, 2000])).splitlines()
    cells = {line.split()[1]: line.split("│")[3:-1] for line in lines if " tv " in line}
    assert {name: [cell.strip() for cell in row] for name, row in cells.items()} == {
        "x": ["12.5", "-"],
        "wide": ["12.5", "100.0"],
    }
    assert " ".join(lines[-3:]).split("every gallery:")[1].split() == ["501,", "2000"]
    assert "every gallery" not in shown(recall_table(named, [1, 500]))


def test_counts_that_are_not_zero_modes_with_equal_ones_in_one_line() -> None:
    results = make_results(0.5)
    assert count_lines(results) == [
        "counts (sums over the partitions of the mean), v, tv: queries 2, database 300, missing_database 3",
    ]
    results.rows[-1]["counts"] = {"queries": 1}
    assert [line.rpartition("), ")[2] for line in count_lines(results)] == [
        "v: queries 2, database 300, missing_database 3",
        "tv: queries 1",
    ]


def test_counts_say_where_partitions_ask_the_same_queries() -> None:
    results = make_results(0.5)
    results.per_query.append({**results.per_query[0], "mode": "tv"})
    assert "of several" not in count_lines(results)[0]
    results.per_query.append({**results.per_query[0], "partition": "dance"})
    assert "a query or video of several counts in each" in count_lines(results)[0]


def test_tables_go_to_the_given_console(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables({"frame_max": make_results(0.5)}, [1])
    captured = capsys.readouterr()
    assert "50.0 / 25.0" in captured.out
    assert captured.err == ""
