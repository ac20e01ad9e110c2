"""The question files of MUVR-QA (arXiv 2510.21406): does a target video match a query video, as text and tag ask?

Questions come in pairs, one true and one false, of the same query and tag.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from muvr_train.benchmarks.json_texts import load_json
from muvr_train.benchmarks.muvr_files import ALIASES, PARTITIONS
from muvr_train.errors import DataError, shorten

TAGGED = ("Query", "Target", "Tag", "Label", "prompt_en")
UNTAGGED = ("Query", "Target", "Label", "prompt_en", "Tag")
"""The order of the fields in the released lines, with a tag and without."""
WHOLE, TAGGED_ROWS, UNTAGGED_ROWS = "all", "tagged", "untagged"
"""Rows of the results that are no partitions: no file may have such a name."""
FOLDERS = (".", "annotations", "QA/annotations", "annotations/QA/annotations")
"""Where the files are: in the folder that is given, or below it as MUVR is released."""


@dataclass(frozen=True)
class QaRow:
    """One question: does the target match the query, as the text and the tag ask?

    Attributes:
        query: Video id without partition.
        target: Video id without partition.
        label: 1 it does, 0 it does not.
        text: The query's description, "" where there is none.
        tag: Tag expression, "" where there is none.
        where: File and line that it was read from, for messages.
    """

    query: str
    target: str
    label: int
    text: str
    tag: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class QaPair:
    """Two questions of one query and tag: a target that matches, and one that does not."""

    partition: str
    true: QaRow
    false: QaRow

    @property
    def id(self) -> str:
        """A name made of the content alone, unique among all pairs."""
        return f"{question_id(self.partition, self.true)} | {self.false.target}"


def question_id(partition: str, row: QaRow) -> str:
    """Name a question by its content: `news/QUERY [+tag] > TARGET`, wherever it stands in its file."""
    return f"{partition}/{row.query}{f' [{row.tag}]' if row.tag else ''} > {row.target}"


def read_questions(path: Path) -> dict[str, list[QaRow]]:
    """Read the questions of all partitions.

    Args:
        path: a folder of `<partition>.jsonl` files, a folder above it (`annotations/QA/annotations` as released), or
            one such file. The partition is the file's name; `geng` means others and `animal` instance; any other name
            is a partition of one's own.

    Returns:
        Rows by partition, the five known ones first; a file without questions is no partition.

    Raises:
        DataError: nothing there, a line is broken, a question has no partner (`pair_rows`), or two files are of one
            partition.
    """
    path = Path(path)
    found: dict[str, Path] = {}
    for file in _files(path):
        name = ALIASES.get(file.stem, file.stem)
        if name in (WHOLE, TAGGED_ROWS, UNTAGGED_ROWS):
            raise DataError(f"{file}: {name} is the name of a row of the results; give the file another one")
        if name in found:
            raise DataError(f"{found[name]} and {file} are both partition {name}: keep one")
        found[name] = file
    ordered = [name for name in PARTITIONS if name in found] + sorted(found.keys() - set(PARTITIONS))
    rows = {name: kept for name in ordered if (kept := read_qa(found[name]))}
    if not rows:
        raise DataError(
            f"{path} holds no question: its files {shorten([file.name for file in found.values()])} are empty"
        )
    for name, kept in rows.items():
        pair_rows(kept, name)
    return rows


def pair_rows(rows: Iterable[QaRow], partition: str) -> list[QaPair]:
    """Find the pairs by content: same query and tag, labels 1 and 0; the order of the rows means nothing.

    Where a query and tag have several pairs, the first true target by name goes with the first false one, and so on.
    The tag is compared as it is written.

    Returns:
        The pairs in the order of their true rows.

    Raises:
        DataError: a row has no partner, a query and tag have more true rows than false ones or the other way round, or
            a target stands twice; the rows are named.
    """
    kept = list(rows)
    groups: dict[tuple[str, str], list[QaRow]] = {}
    for row in kept:
        groups.setdefault((row.query, row.tag), []).append(row)
    partners: dict[tuple[str, str, str], QaRow] = {}
    for (query, tag), group in groups.items():
        name = f"query {query}" + (f" with tag '{tag}'" if tag else " without tag")
        _refuse_twice(group, partition, name)
        by_target = sorted(group, key=lambda row: row.target)
        true, false = ([row for row in by_target if row.label == label] for label in (1, 0))
        if len(true) != len(false):
            raise DataError(
                f"partition {partition}: {name} has {len(true)} true (Label 1) and {len(false)} false (Label 0) rows, "
                f"but a pair is one of each: {_places(group)}. Add or remove rows until they are equal"
            )
        partners |= {(query, tag, one.target): other for one, other in zip(true, false, strict=True)}
    return [QaPair(partition, row, partners[row.query, row.tag, row.target]) for row in kept if row.label == 1]


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
    places = ((line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip())
    return [replace(_row(line, where), where=where) for line, where in places]


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
        entry = load_json(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error.msg}") from error
    texts = [entry.get(name) for name in ("Query", "Target", "prompt_en")] if isinstance(entry, dict) else [None]
    if not all(isinstance(text, str) for text in texts) or entry.get("Label") not in (0, 1):
        raise DataError(f"{where}: a question has Query, Target and prompt_en (texts) and Label (0 or 1)")
    tag = entry.get("Tag")
    if tag is not None and not isinstance(tag, str):
        raise DataError(f"{where}: Tag must be a text, got {tag!r}")
    return QaRow(entry["Query"], entry["Target"], int(entry["Label"]), entry["prompt_en"], tag or "")


def _files(path: Path) -> Sequence[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(f"{path} does not exist; give a folder of <partition>.jsonl files of MUVR-QA, or one such file")
    for folder in (path / below for below in FOLDERS):
        files = sorted(file for file in folder.glob("*.jsonl") if not file.name.startswith("."))
        if files:
            return files
    raise DataError(f"{path} holds no .jsonl file; MUVR-QA has one for each partition: news.jsonl, others.jsonl, ...")


def _refuse_twice(group: Sequence[QaRow], partition: str, name: str) -> None:
    by_target: dict[str, list[QaRow]] = {}
    for row in group:
        by_target.setdefault(row.target, []).append(row)
    for target, same in by_target.items():
        if len(same) > 1:
            what = "is both true and false" if len({row.label for row in same}) > 1 else "stands twice"
            raise DataError(f"partition {partition}: {name}: target {target} {what}: {_places(same)}. Keep one row")


def _places(rows: Sequence[QaRow]) -> str:
    return shorten([row.where or f"target {row.target} (Label {row.label})" for row in rows])
