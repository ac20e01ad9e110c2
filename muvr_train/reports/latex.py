"""The rows of a report for a LaTeX table."""

from __future__ import annotations

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.reports.content import ReportContent
from muvr_train.reports.score_tables import Cell, Row, ScoreTable, partitions_of, table_by_partition

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def render_latex(content: ReportContent) -> str:
    """A booktabs table: a row per model and mode, mAP / uAP in percent per partition and their mean; no upper bound."""
    tables = [table for metric in ("mAP", "uAP") if (table := table_by_partition(content, metric)) is not None]
    partitions = partitions_of(content)
    lines_of = (row for table in tables for row in table.rows if row.names[1] != UPPER_BOUND)
    names = dict.fromkeys((row.names, row.kind == "published") for row in lines_of)
    lines = [
        r"% needs \usepackage{booktabs}; non-ASCII names need a UTF-8 engine or font",
        rf"% {' / '.join(escape(table.title) for table in tables)}",
        *(f"% {' '.join(note.split())}" for note in content.notes),
        rf"\begin{{tabular}}{{ll{'r' * len(partitions)}}}",
        r"\toprule",
        " & ".join(["model", "query", *(escape(name) for name in partitions)]) + r" \\",
        r"\midrule",
    ]
    seen = False
    for key, published in names:
        if published and not seen:
            lines.append(r"\midrule")
            seen = True
        lines.append(_row(key, tables))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def escape(text: str) -> str:
    r"""A text that LaTeX prints as it is.

    >>> print(escape("50 % of a_b & {c}"))
    50 \% of a\_b \& \{c\}
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in " ".join(text.split()))


def _row(names: tuple[str, ...], tables: list[ScoreTable]) -> str:
    found: list[Row | None] = [next((row for row in table.rows if row.names == names), None) for table in tables]
    cells = []
    for column in range(len(tables[0].columns)):
        texts = ["-" if row is None else _figure(row.cells[column]) for row in found]
        cells.append("-" if set(texts) == {"-"} else "/".join(texts))
    return " & ".join([*(escape(name) for name in names), *cells]) + r" \\"


def _figure(cell: Cell) -> str:
    return rf"{cell.text} $\pm$ {cell.spread}" if cell.spread else cell.text
