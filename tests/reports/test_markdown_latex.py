"""Tables for Markdown and LaTeX."""

from __future__ import annotations

import pytest

from muvr_train.reports import latex, markdown
from tests.reports.contents import NASTY, make_content


def test_a_latex_row_per_model_and_mode() -> None:
    content = make_content()
    lines = latex.render_latex(content).splitlines()
    rows = [line for line in lines if line.endswith(r" \\")]
    assert rows[0] == r"model & query & news & dance & mean \\"
    assert len(rows) == 1 + 4 + 1
    metrics = [content.results.metrics("tv", partition) for partition in ("news", "dance", "mean")]
    cells = " & ".join(f"{100 * row['mAP']:.1f}/{100 * row['uAP']:.1f}" for row in metrics)
    assert rf"trained & tv & {cells} \\" in rows
    assert rows[-1] == r"S\_1 \& co (published) & v & - & - & 58.0/- \\"
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\midrule", r"\bottomrule"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50 %_#", r"50 \%\_\#"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("a\n & $b^2$~", r"a \& \$b\textasciicircum{}2\$\textasciitilde{}"),
        ("猫 ünï", "猫 ünï"),
    ],
)
def test_latex_prints_texts_as_they_are(text: str, escaped: str) -> None:
    assert latex.escape(text) == escaped


def test_markdown_tables() -> None:
    content = make_content()
    lines = markdown.render_markdown(content).splitlines()
    start = lines.index("| model | query | news | dance | mean |")
    assert lines[start + 1] == "| --- | --- | ---: | ---: | ---: |"
    tables = [line for line in lines if line.startswith("|")]
    assert all(line.endswith(" |") for line in tables)
    assert any("(12.5 to 75.0)" in line for line in tables)
    assert any(line == "| trained | v | copy | 37.5 |" for line in tables)
    best = max(results.metrics(mode)["mAP"] for results in content.named.values() for mode in results.modes)
    assert any(f"**{100 * best:.1f}** |" in line for line in tables)


def test_names_do_not_break_markdown() -> None:
    text = markdown.render_markdown(make_content(NASTY + "|`x` *y*\n"))
    assert "<script" not in text
    heads = [line for line in text.splitlines() if line.startswith("| model | query | news")]
    assert heads
    assert all(line.replace("\\|", "").count("|") == 6 for line in heads)
