"""Rows of tag expressions in tables: no uAP, no bound among the results, and what can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO

import pytest
from rich.console import Console

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.benchmarks.published import published_rows
from muvr_train.reports.content import ReportContent
from muvr_train.reports.latex import render_latex
from muvr_train.reports.score_tables import table_by_partition
from muvr_train.reports.tables import expression_table, print_tables
from muvr_train.results import Results

VALUES = {"tag_0.0": 0.2, "tag_0.3": 0.4, "logic_0.0": 0.3, "logic_0.3": 0.5, UPPER_BOUND: 0.9}


@pytest.fixture
def results() -> Results:
    made = Results("muvr_filter")
    for mode, value in VALUES.items():
        for partition in ("news", "dance", "mean"):
            if (mode, partition) != ("tag_0.3", "dance"):
                row: Mapping[str, object] = {
                    "benchmark": "muvr_filter",
                    "mode": mode,
                    "partition": partition,
                    "metrics": {"mAP": value, "recall@1": value / 2},
                    "counts": {"queries": 3, "database": 50, "expressions": 7},
                }
                made.rows.append(dict(row))
        for group, name, count in (("operator", "single", 4), ("sign", "-", 2), ("operator", "OR", 3)):
            if name != "OR" or not mode.startswith("tag"):
                part = {"group": group, "name": name, "metrics": {"mAP": value}, "counts": {"expressions": count}}
                made.breakdowns.append({"benchmark": "muvr_filter", "mode": mode, "partition": "mean", **part})
    return made


def printed(results: Results) -> str:
    stream = StringIO()
    references = [row for mode in results.modes for row in published_rows("muvr_filter", mode)]
    print_tables({"ours": results}, (1,), references, Console(file=stream, width=160))
    return stream.getvalue()


def test_the_table_has_no_uap_and_published_rows(results: Results) -> None:
    lines = printed(results).splitlines()
    assert lines[0].strip() == "mAP (%)"
    assert "uAP" not in "".join(lines)
    cells = {tuple(cell.strip() for cell in line.split("│")[1:-1]) for line in lines}
    assert ("ours", "tag_0.3", "40.0", "", "40.0") in cells, "a partition without a row stays empty"
    assert ("EVA-CLIP (published, all of MUVR)", "tag_0.3", "", "", "34.0") in cells
    assert ("EVA-CLIP (published, all of MUVR)", "tag_0.0", "", "", "32.9") in cells
    assert ("tag_0.3", "40.0", "", "40.0") in cells, "by operator and sign: single, OR, -"
    assert ("logic_0.3", "50.0", "50.0", "50.0") in cells


def test_no_breakdown_no_table() -> None:
    assert expression_table(Results("muvr_base")) is None


def test_an_upper_bound_is_no_result(results: Results) -> None:
    assert not any(UPPER_BOUND in name for name in results.flat("all"))
    assert "all/muvr_filter/logic_0.3/mean/mAP" in results.flat("all")
    content = ReportContent("ours", {"ours": results}, {}, (1,))
    table = table_by_partition(content, "mAP")
    assert table is not None
    best = {row.names[1] for row in table.rows if row.cells[-1].best}
    assert best == {"tag_0.3", "logic_0.3"}
    latex = render_latex(content)
    assert r"logic\_0.3" in latex
    assert "upper" not in latex
