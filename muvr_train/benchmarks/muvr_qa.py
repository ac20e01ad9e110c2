"""The question file of MUVR-QA (arXiv 2510.21406): pairs of a query video and a target video, the same or not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from muvr_train.errors import DataError

TAGGED = ("Query", "Target", "Tag", "Label", "prompt_en")
UNTAGGED = ("Query", "Target", "Label", "prompt_en", "Tag")
"""The order of the fields in the released lines, with a tag and without."""


@dataclass(frozen=True)
class QaRow:
    """One question: does the target match the query, as the text and the tag ask?

    Attributes:
        query: Video id without partition.
        target: Video id without partition.
        label: 1 it does, 0 it does not.
        text: The query's description, "" where there is none.
        tag: Tag expression, "" where there is none.
    """

    query: str
    target: str
    label: int
    text: str
    tag: str = ""


def read_qa(path: Path) -> list[QaRow]:
    """Read `<partition>.jsonl`, a question a line.

    Raises:
        DataError: no such file, or a line is not a question with these fields (file and line are named).
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def write_qa(path: Path, rows: Iterable[QaRow]) -> None:
    """Write questions as the released files have them, at once (temp file + rename)."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(f"{_line(row)}\n" for row in rows), encoding="utf-8")
    os.replace(temporary, path)


def _line(row: QaRow) -> str:
    values = dict(zip(TAGGED, (row.query, row.target, row.tag, row.label, row.text), strict=True))
    return json.dumps({name: values[name] for name in (TAGGED if row.tag else UNTAGGED)}, ensure_ascii=False)


def _row(line: str, where: str) -> QaRow:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error.msg}") from error
    texts = [entry.get(name) for name in ("Query", "Target", "prompt_en")] if isinstance(entry, dict) else [None]
    if not all(isinstance(text, str) for text in texts) or entry.get("Label") not in (0, 1):
        raise DataError(f"{where}: a question has Query, Target and prompt_en (texts) and Label (0 or 1)")
    tag = entry.get("Tag")
    if tag is not None and not isinstance(tag, str):
        raise DataError(f"{where}: Tag must be a text, got {tag!r}")
    return QaRow(entry["Query"], entry["Target"], int(entry["Label"]), entry["prompt_en"], tag or "")
