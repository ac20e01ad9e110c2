"""The HTML page: complete, self-contained, and every text escaped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.reports.content import Limits, ReportContent
from muvr_train.reports.latex import render_latex
from muvr_train.reports.markdown import render_markdown
from muvr_train.reports.page import Scale, render_page
from muvr_train.reports.report import write_reports
from muvr_train.reports.score_tables import Cell, Row, ScoreTable, upright
from muvr_train.reports.write import write_results
from muvr_train.results import Results
from tests.reports.contents import NASTY, RTL, make_content, make_partition, make_results

VOID = {"meta", "img", "br", "input", "link", "line", "path", "use"}


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def find(self, *names: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag in names]

    def table(self, *head: str) -> list[list[str]]:
        return next(table for table in self.tables if table[0][: len(head)] == list(head))


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


def frames(video: str) -> Any:
    if video.endswith("v0" + NASTY):
        raise DataError(f"{video}: cannot be decoded")
    return [np.full((40, 60, 3), 90, dtype=np.uint8)] * 3


def maps(query: Any, video: str) -> Any:
    return [("cosine" + NASTY, np.linspace(-0.5, 1, 6).reshape(2, 3))]


@pytest.fixture(scope="module")
def nasty() -> str:
    return render_page(make_content(NASTY, pictures=frames, maps=maps))


def test_every_text_is_escaped(nasty: str) -> None:
    page = parsed(nasty)
    assert not page.find("script", "iframe", "object", "link", "base")
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    shown = "".join(page.texts)
    for text in (
        f"trained{NASTY}",
        f"news{NASTY}/q0{NASTY}",
        f"find {NASTY} {RTL}",
        f"S_1 & co{NASTY}",
        "odd: " + NASTY,
        "how to read: " + NASTY,
    ):
        assert text in shown, text
    assert json.dumps({"out": NASTY}, indent=2) in shown


def test_the_page_needs_nothing_outside_itself(nasty: str) -> None:
    page = parsed(nasty)
    for _, attrs in page.tags:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/")), attrs
    assert "url(" not in nasty
    assert "@import" not in nasty
    policy = next(a["content"] for a in page.find("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    sections = {attrs["id"] for attrs in page.find("section")}
    assert {a["href"] for a in page.find("a")} == {f"#{name}" for name in sections}
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_broken_videos_leave_a_placeholder_and_are_counted(nasty: str) -> None:
    page = parsed(nasty)
    holes = [attrs for attrs in page.find("div") if attrs.get("class") == "hole"]
    assert holes
    assert all("cannot be decoded" in str(attrs["title"]) for attrs in holes)
    assert "2 cannot be decoded" in "".join(page.texts)  # v0 of both partitions
    assert all(attrs["alt"] for attrs in page.find("img"))


def test_the_tables_hold_the_figures_of_results_json(tmp_path: Path) -> None:
    content = make_content()
    others = {"frame_max": content.named["frame_max"]}
    rows = json.loads(write_results(tmp_path, content.results, content.meta, others).read_text())
    page = parsed(render_page(content))
    table = {tuple(line[:2]): line[2:] for line in page.table("model", "query", "news", "dance", "mean")}
    for name, own in (("trained", rows["rows"]), ("frame_max", rows["baselines"][0]["rows"])):
        for row in own:
            column = ["news", "dance", "mean"].index(row["partition"])
            cell = table[name, row["mode"]][column]
            assert cell.startswith(f"{100 * row['metrics']['mAP']:.1f}"), (name, row)
    assert table["trained", "v"][0].endswith("12.5 to 75.0")
    assert table["S_1 & co (published)", "v"] == ["-", "-", "58.0"]


def test_a_k_beyond_the_gallery_has_no_column_and_is_a_dash_where_another_gallery_is_larger() -> None:
    content = make_content()
    lines = parsed(render_page(content)).table("model", "query", "mAP", "uAP", "recall@1", "recall@2")
    assert {len(line) for line in lines} == {6}
    assert len(lines) == 1 + 5
    for row in content.named["frame_max"].rows:
        row["counts"]["database"] = 10  # type: ignore[index]
    head, *lines = parsed(render_page(content)).table("model", "query", "mAP", "uAP", "recall@1", "recall@2")
    assert head[-1] == "recall@10"
    assert {line[0]: line[-1] == "-" for line in lines[:4]} == {"frame_max": False, "trained": True}


def test_many_partitions_are_lines_and_those_that_are_not_drawn_are_named() -> None:
    parts = tuple(make_partition(f"event{number}", 2, 4) for number in range(14))
    results = make_results(parts, ("v",))
    content = ReportContent("own", {"own": results, "b<i>": make_results(parts, ("v",), 1)}, {}, (1,))
    text = render_page(content)
    head, *lines = parsed(text).table("partition", "own, v")
    assert head == ["partition", "own, v", "b<i>, v"]
    assert [line[0] for line in lines] == [*(part.name for part in parts), "mean"]
    assert lines[3][1] == f"{100 * results.metrics('v', 'event3')['mAP']:.1f}"
    assert text.count('<tr class="mean">') == 2  # mAP and uAP
    assert "event12, event13" in text
    assert "| partition | own, v | b&lt;i&gt;, v |" in render_markdown(content)


def test_few_partitions_of_fewer_lines_stay_columns() -> None:
    table = ScoreTable(
        "t", ("model",), tuple("abcdefghijk"), tuple(Row((str(i),), (Cell("1"),) * 11) for i in range(11))
    )
    assert upright(table) is table
    assert upright(replace(table, rows=table.rows[:10])).columns == tuple("0123456789")


def test_noise_stands_with_its_spread() -> None:
    content = make_content()
    noise = {"mode": "v", "partition": "mean", "group": "noise", "name": "noise_add", "share": 0.05}
    content.results.breakdowns.append({**noise, "metrics": {"mAP": 0.629, "mAP_std": 0.006}, "counts": {}})
    assert ["trained", "v", "noise_add", "62.9 ± 0.6"] in parsed(render_page(content)).table("model", "query", "noise")
    assert "62.9 ± 0.6" in render_markdown(content)


def test_the_axis_of_the_histogram_says_expressions_where_they_are_counted() -> None:
    content = make_content()
    assert ">expressions</text>" not in render_page(content)
    for line in content.results.per_query:
        line["expression"] = "+a"
    text = render_page(content)
    assert ">expressions</text>" in text
    assert ">queries</text>" not in text


def test_the_best_of_a_column_is_bold_and_published_rows_do_not_take_part() -> None:
    content = make_content()
    page = render_page(content)
    best = max(results.metrics(mode)["mAP"] for results in content.named.values() for mode in results.modes)
    assert f'<td class="mean"><b>{100 * best:.1f}</b></td>' in page
    assert "<b>58.0</b>" not in page


def test_modes_over_other_queries_are_named_beside_what_bold_means() -> None:
    content = make_content()
    apart = "among\nlines over the same queries: those of <bdi>"
    assert apart not in render_page(content)
    parts = (make_partition("news"), make_partition("dance", 4, 7))
    more = {content.model: make_results(parts, ("v", "tv", "tv+tag", "tv+region"))}
    page = render_page(replace(content, named={**content.named, **more}))
    assert apart + "tv+tag, tv+region</bdi> are over others" in page
    alone = {content.model: make_results(parts, ("tv+region",))}
    assert apart not in render_page(replace(content, named=alone))


@pytest.mark.parametrize("render", [render_page, render_markdown, render_latex])
def test_notes_stand_by_the_tables_each_once(render: Callable[[ReportContent], str]) -> None:
    text = render(make_content()).replace(r"\_", "_")
    notes = "how to read:", "dance: left out of mode t", "frame_max: news: left out of mode t"
    places = [text.index(note) for note in notes]
    assert places == sorted(places)
    assert text.count("dance: left out of mode t") == 1


def test_breakdowns_warnings_and_definitions_are_there() -> None:
    page = parsed(render_page(make_content()))
    assert ["copy", "mean", "12", "37.5"] in page.table("level", "partition", "positives", "mAP %")
    assert ["trained", "v", "copy", "37.5"] in page.table("model", "query", "level", "mean")
    shown = "".join(page.texts)
    assert "odd: " in shown
    assert "divisor = positives in the gallery" in shown
    assert len([tag for tag, _ in page.tags if tag == "svg"]) == 3 + 2 + 2 + 2  # legend, PR, recall, AP


def test_a_benchmark_of_one_mode_without_uap_or_kept_scores() -> None:
    partition = make_partition("ISVR", 2, 3)
    results = make_results((partition,), ("v",), name="fivr_200k")
    bare = Results("fivr_200k", [{**row, "metrics": {"mAP": 0.5}} for row in results.rows], results.per_query)  # type: ignore[dict-item]
    content = make_content()
    page = parsed(render_page(type(content)("x", {"x": bare}, {}, (1, 5))))
    assert page.table("model", "query", "ISVR")[:2] == [["model", "query", "ISVR"], ["x", "v", "50.0"]]
    assert not [table for table in page.tables if "mean" in (*table[0], *(cell for row in table for cell in row[:2]))]
    assert not [a for a in page.find("section") if a["id"] == "queries"]


def test_the_ends_of_a_scale_have_the_digits_that_they_need() -> None:
    assert [Scale("", -high, high, "").ends for high in (0.8, 0.0031, 0.00012)] == [
        ("-0.80", "0.80"),
        ("-0.0031", "0.0031"),
        ("-0.00012", "0.00012"),
    ]


def test_no_query_is_shown_where_none_is_asked_for() -> None:
    page = parsed(render_page(make_content(limits=Limits(queries=0), pictures=frames, maps=maps)))
    assert not page.find("img")


def test_a_gallery_of_many_videos_stays_small() -> None:
    partition = make_partition("big", 3, 30_000)
    results = make_results((partition,), ("v",))
    page = render_page(type(make_content())("x", {"x": results}, {}, (1, 5)))
    assert len(page) < 150_000


def test_all_three_files_are_written_at_once(tmp_path: Path) -> None:
    path = write_reports(tmp_path / "new", make_content(NASTY))
    assert path == tmp_path / "new" / "report.html"
    assert sorted(file.name for file in path.parent.iterdir()) == ["report.html", "report.md", "report.tex"]
    parsed(path.read_text(encoding="utf-8"))
