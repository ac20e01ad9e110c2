"""Tables of intervals and of the noise check."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from muvr_train.reports.robustness_tables import robustness_tables
from muvr_train.results import Results


def row(partition: str, intervals: dict[str, Any] | None) -> dict[str, Any]:
    more = {} if intervals is None else {"intervals": intervals}
    return {"mode": "v", "partition": partition, "metrics": {"mAP": 0.5}, "counts": {}, **more}


def noise(partition: str, name: str, value: float) -> dict[str, Any]:
    metrics = {"mAP": value, "mAP_std": 0.004}
    return {"mode": "v", "partition": partition, "group": "noise", "name": name, "share": 0.05, "metrics": metrics}


def shown(results: Results) -> list[str]:
    console = Console(width=120, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in robustness_tables(results):
        console.print(table)
    return console.export_text().splitlines()


def test_nothing_was_asked_for() -> None:
    assert shown(Results("toy", [row("news", None), row("mean", None)])) == []


def test_intervals_that_no_partition_can_have_are_no_table() -> None:
    assert shown(Results("toy", [row("news", {"mAP": None, "uAP": None}), row("mean", {"mAP": None})])) == []


def test_intervals_in_percent_and_a_dash_where_there_is_none() -> None:
    rows = [row("news", {"mAP": [0.25, 0.5], "uAP": [0.125, 0.75], "recall@1": [0, 1]}), row("dance", {"mAP": None})]
    lines = shown(Results("toy", rows))
    assert "95 % intervals" in lines[0]
    assert [cell.strip() for cell in next(line for line in lines if "mAP" in line).split("│")[1:-1]] == [
        "v",
        "mAP",
        "[25.0, 50.0]",
        "-",
    ]
    assert "[12.5, 75.0]" in next(line for line in lines if "uAP" in line)
    assert not any("recall" in line for line in lines)


def test_noise_with_its_spread() -> None:
    rows = [row("news", None), row("mean", None)]
    parts = [noise("news", "noise_remove", 0.634), noise("mean", "noise_remove", 0.6), noise("news", "noise_add", 0.56)]
    lines = shown(Results("toy", rows, breakdowns=parts))
    assert "5 % of the positives" in lines[0]
    assert "63.4 ± 0.4" in next(line for line in lines if "noise_remove" in line)
    added = next(line for line in lines if "noise_add" in line)
    assert "56.0 ± 0.4" in added
    assert added.rstrip("│ ").endswith("-")
