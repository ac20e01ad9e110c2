"""Tables of answers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from muvr_train.benchmarks.published import published_rows
from muvr_train.reports.answer_tables import figure, print_answer_tables


def row(setting: str, partition: str, accuracy: float | None, **more: Any) -> dict[str, Any]:
    metrics = {
        "accuracy": accuracy,
        "accuracy_se": 0.034,
        "reranking_score": -0.25,
        "answered_rate": 1.0,
        "parse_rate": 0.9,
    }
    counts = {"questions": 1686, "answered": 1686, "invalid": 0, "failed": 0}
    return {
        "benchmark": "muvr_qa",
        "mode": setting,
        "partition": partition,
        "metrics": {**metrics, **more.pop("metrics", {})},
        "counts": {**counts, **more.pop("counts", {})},
        "timing": {"seconds_per_item": more.pop("seconds", 1.234)},
    }


def shown(rows: list[dict[str, Any]], *more: Any) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_answer_tables(rows, "my [model]", *more, console=console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_an_error_of_zero_is_none() -> None:
    assert figure({"accuracy": 1.0, "accuracy_se": 0.0}, "accuracy") == "100.0"
    assert figure({"reranking_score": 1.0, "reranking_score_se": 0.0}, "reranking_score") == "+1.00"
    assert figure({"accuracy": 0.5, "accuracy_se": 0.0004}, "accuracy") == "50.0 ± 0.0"


def test_one_setting_shows_every_row_and_a_last_line() -> None:
    text = shown([row("images_6f", "all", 0.655), row("images_6f", "news", 0.5, seconds=None)], (), ["a [note]"])
    assert "my [model], images_6f" in text
    for cell in ("65.5 ± 3.4", "-0.25", "90.0", "1.23", "1,686", "news", "a [note]"):
        assert cell in text
    assert text.rstrip().endswith("my [model]: accuracy 65.5 ± 3.4 %, reranking score -0.25 over 1,686 questions")
    assert "answered" not in text


def test_failures_are_seen_in_table_and_last_line() -> None:
    lost = {"counts": {"failed": 3, "invalid": 2}, "metrics": {"answered_rate": 0.5, "parse_rate": None}}
    text = shown([row("images_6f", "all", 0.5, **lost)])
    assert "answered" in text
    assert "1,686 questions, of them 3 failed and 2 invalid" in text


def test_several_settings_stand_side_by_side() -> None:
    rows = [row(setting, part, 0.1 * n) for n, setting in enumerate(("a_1f", "b_2f"), 1) for part in ("all", "news")]
    lines = shown(rows).splitlines()
    news = [line for line in lines if "news" in line]
    assert "10.0 ± 3.4" in news[0]
    assert "20.0 ± 3.4" in news[0]
    assert len(news) == 2  # accuracy and reranking score
    (whole,) = [line for line in lines if "a_1f, all" in line]
    assert "10.0 ± 3.4" not in whole  # it stands in the first table and in the last line
    assert "90.0" in whole
    assert sum("10.0 ± 3.4" in line for line in lines) == 3  # all, news, last line
    text = shown(rows, published_rows("muvr_qa"))
    assert text.count("GPT-4o, 6 frames (published), all") == 1
    assert "65.0" in text


@pytest.mark.parametrize("benchmark", ["muvr_qa", "iv_bench"])
def test_published_rows_stand_below(benchmark: str) -> None:
    references = published_rows(benchmark)
    text = shown([row("images_6f", "all", 0.5)], references)
    assert references
    for reference in references:
        assert f"{reference.system} (published), {reference.partition}" in text
        assert f"{100 * reference.metrics['accuracy']:.1f}" in text
