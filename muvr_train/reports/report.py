"""The report of an evaluation: report.html for reading, report.md and report.tex for passing on."""

from __future__ import annotations

import os
from pathlib import Path

from muvr_train.reports.content import ReportContent
from muvr_train.reports.latex import render_latex
from muvr_train.reports.markdown import render_markdown
from muvr_train.reports.page import render_page


def write_reports(folder: Path, content: ReportContent) -> Path:
    """Write report.html, report.md and report.tex into `folder`, each at once (temp file + rename).

    Returns:
        The path of report.html.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in (("report.md", render_markdown), ("report.tex", render_latex), ("report.html", render_page)):
        temporary = folder / f".{name}.tmp"
        temporary.write_bytes(render(content).encode("utf-8", errors="replace"))
        os.replace(temporary, folder / name)
    return folder / "report.html"
