"""What an examination finds: lines with a level, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muvr_train.errors import shorten

Level = Literal["ok", "note", "warning", "error"]
MOST_ALIKE = 4
"""So many findings of one check and level are shown to people."""
CAPTION = "a / b / c: smallest, median, largest"
STYLES: Mapping[Level, str] = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One line of an examination.

    Attributes:
        check: What was looked at.
        level: ok, note (good to know), warning (works, but look at it) or error (will not work).
        text: What was found.
        ids: All ids concerned; people see the first few.
        values: Figures for programs.
    """

    check: str
    level: Level
    text: str
    ids: Sequence[str] = ()
    values: Mapping[str, object] = field(default_factory=dict)

    def shown(self) -> str:
        """The text with the first ids."""
        return self.text + (f": {shorten(list(self.ids), 5)}" if self.ids else "")


@dataclass(frozen=True)
class Examination:
    """All findings about a subject."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """1 where something will not work, else 0."""
        return int(self.count("error") > 0)

    def count(self, level: Level) -> int:
        """How many findings have a level."""
        return sum(finding.level == level for finding in self.findings)

    def to_json(self) -> str:
        """The examination as a JSON object."""
        content = {
            "subject": self.subject,
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "findings": [
                {
                    "check": finding.check,
                    "level": finding.level,
                    "text": finding.text,
                    "ids": list(finding.ids),
                    "values": dict(finding.values),
                }
                for finding in self.findings
            ],
        }
        return json.dumps(content, indent=1)

    def print(self, console: Console) -> None:
        """Print one table and a last line that says how it ends."""
        table = Table(title=escape(self.subject), title_justify="left", caption=CAPTION, caption_justify="left")
        for column in ("", "check", "found"):
            table.add_column(column)
        shown: Counter[tuple[str, Level]] = Counter((finding.check, finding.level) for finding in self.findings)
        rows: Counter[tuple[str, Level]] = Counter()
        for finding in self.findings:
            style, kind = STYLES[finding.level], (finding.check, finding.level)
            rows[kind] += 1
            if rows[kind] <= MOST_ALIKE:
                table.add_row(f"[{style}]{finding.level}[/]", escape(finding.check), escape(finding.shown()))
            elif rows[kind] == shown[kind]:
                text = f"{shown[kind] - MOST_ALIKE} more (--json shows them)"
                table.add_row(f"[{style}]{finding.level}[/]", escape(finding.check), text)
        console.print(table)
        errors, warnings = self.count("error"), self.count("warning")
        verdict = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        console.print(f"[{'bold red' if errors else 'yellow' if warnings else 'green'}]{verdict}[/]", highlight=False)


def spread(values: Sequence[float] | Sequence[int], digits: int = 0) -> str:
    """Smallest, median and largest value.

    >>> spread([3, 1, 2])
    '1 / 2 / 3'
    """
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return " / ".join(f"{value:.{digits}f}" if digits else f"{value:g}" for value in (ordered[0], middle, ordered[-1]))


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> plural(1, "video"), plural(2, "query", "queries")
    ('1 video', '2 queries')
    """
    return f"{count} {noun if count == 1 else many or noun + 's'}"
