"""Reading the three files of a table of labels: faults are noted with file, line and id, and none stops the rest."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muvr_train.benchmarks.muvr_files import Faults
from muvr_train.names import hint, nearest_names

VIDEOS, QUERIES, RELEVANCE = "videos.csv", "queries.jsonl", "relevance.csv"
COLUMNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    VIDEOS: (("video",), ("topic", "split", "partition", "path", "gallery")),
    QUERIES: (("id", "video"), ("text", "tags", "mask", "topic", "split", "partition")),
    RELEVANCE: (("query", "video", "label"), ("level",)),
}
"""The columns (keys) of each file: those that it must have, and those that it may have."""
YES, NO, NOT_JUDGED = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no"), ("-1", "-1.0")
MOST_COMPARED = 20_000
"""Comparisons of names, in all, that the search for similar ids may cost."""


@dataclass(frozen=True)
class Row:
    """One entry of a file, and the line on which it ends; of a line that cannot be read the texts in it, no values."""

    line: int
    values: Mapping[str, object]
    broken: Sequence[str] | None = None

    def text(self, name: str) -> str | None:
        """The value as a string, None where it is absent or blank."""
        value = self.values.get(name)
        return None if value is None or not str(value).strip() else str(value)

    def at(self, what: object) -> str:
        """A reference to this line for messages."""
        return f"line {self.line}: {what}"


def load_table(folder: Path, faults: Faults) -> dict[str, list[Row] | None]:
    """The entries of the three files, in order; None (and an error) for a file that cannot be read at all."""
    readers = {VIDEOS: _csv_rows, QUERIES: _json_rows, RELEVANCE: _csv_rows}
    rows: dict[str, list[Row] | None] = {}
    for file, reader in readers.items():
        text = _read(folder, file, faults)
        rows[file] = None if text is None else reader(file, text, faults)
        if rows[file] == [] and not any(name == file for name, _ in faults.errors):
            faults.error(file, "is empty")
    return rows


def _read(folder: Path, file: str, faults: Faults) -> str | None:
    path = folder / file
    if not path.is_file():
        there = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
        faults.error(file, f"is missing{hint(nearest_names(file, there))}")
        return None
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.error(file, f"is not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8")
        return None


def _csv_rows(file: str, text: str, faults: Faults) -> list[Row] | None:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    header: list[str] = []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                if not _check_header(file, header, faults):
                    return None
            elif len(cells) != len(header):
                faults.error(
                    file, f"lines without exactly {len(header)} cells", f"line {lines.line_num} has {len(cells)}"
                )
                rows.append(Row(lines.line_num, {}, broken=cells))
            else:
                rows.append(Row(lines.line_num, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        faults.error(file, f"cannot be read as CSV at line {lines.line_num}: {error}")
        return rows if file == RELEVANCE else None  # nothing refers to labels: those before are checked
    return rows


def _check_header(file: str, header: Sequence[str], faults: Faults) -> bool:
    needed, optional = COLUMNS[file]
    missing = [name for name in needed if name not in header]
    if len(header) == 1 and missing and (mark := next((mark for mark in ";\t|" if mark in header[0]), None)):
        faults.error(file, f"columns are separated by {mark!r}; separate them by commas")
        return False
    unknown = [name for name in header if name not in (*needed, *optional)]
    for name in missing:
        faults.error(file, f"has no column '{name}' (it has {', '.join(header)}){hint(nearest_names(name, unknown))}")
    for name in {name for name in header if header.count(name) > 1}:
        faults.error(file, f"has two columns '{name}'")
    _warn_unknown(file, "columns", dict.fromkeys(unknown, ()), header, faults)
    return not missing


def _warn_unknown(
    file: str, what: str, unknown: Mapping[str, Sequence[int]], seen: Collection[str], faults: Faults
) -> None:
    """Warn of names that are not read; `unknown` has their lines (none where there is but one line of names)."""
    free = [name for name in sum(COLUMNS[file], ()) if name not in seen]
    for name, lines in unknown.items():
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        where = f" (line {lines[0]}{more})" if lines else ""
        faults.warn(file, f"{what} that are not read", f"{name}{where}{hint(nearest_names(name, free))}")


def _json_rows(file: str, text: str, faults: Faults) -> list[Row] | None:
    needed, optional = COLUMNS[file]
    rows: list[Row] = []
    unknown: dict[str, list[int]] = {}
    seen: set[str] = set()
    if text.lstrip().startswith("["):
        faults.error(file, "is a JSON array; put one object on each line, without brackets and commas around them")
        return None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=lambda pairs: _unique(pairs, number, file, faults))  # noqa: B023
        except (json.JSONDecodeError, RecursionError) as error:
            what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
            faults.error(file, "lines that are no JSON object", f"line {number} ({what})")
            rows.append(Row(number, {}, broken=re.findall(r"[\"']([^\"']+)", line)))
            continue
        if not isinstance(value, dict):
            faults.error(file, "lines that are no JSON object", f"line {number}")
            continue
        rows.append(Row(number, value))
        seen |= value.keys()
        for key in value.keys() - {*needed, *optional}:
            unknown.setdefault(key, []).append(number)
    _warn_unknown(file, "keys", {key: unknown[key] for key in sorted(unknown)}, seen, faults)
    return rows


def _unique(pairs: list[tuple[str, object]], line: int, file: str, faults: Faults) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            faults.error(file, "keys that stand twice in one object", f"line {line}: {key!r}")
    return value


def id_of(row: Row, name: str, file: str, faults: Faults) -> str | None:
    """The id under a name; an absent, blank or otherwise unusable one is an error."""
    value = row.values.get(name)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        got = "missing" if value is None else json.dumps(value, ensure_ascii=True, default=str)[:40]
        faults.error(file, f"'{name}' must be a text or a whole number", f"line {row.line} ({got})")
        return None
    text = str(value)
    if not text.strip() or _has_half_letters(text):
        faults.error(file, f"'{name}' is blank or no valid text", f"line {row.line} ({text!a})")
        return None
    if text != text.strip():
        faults.warn(file, f"blanks at an end of '{name}' (they are part of the id)", row.at(repr(text)))
    return text


def text_field(row: Row, name: str, file: str, faults: Faults) -> str | None:
    """An optional text, None where it is absent, null or blank; a value of another type is an error.

    Whole numbers are names of topics and partitions too, but no texts and no paths.
    """
    value = row.values.get(name)
    allowed = str if name in ("text", "mask") else (str, int)
    if value is not None and (isinstance(value, bool) or not isinstance(value, allowed)):
        faults.error(file, f"'{name}' must be a text", f"line {row.line} ({json.dumps(value, default=str)[:40]})")
        return None
    if _has_half_letters(str(value)):
        faults.error(file, f"'{name}' is no valid text", f"line {row.line}")
        return None
    return row.text(name)


def _has_half_letters(text: str) -> bool:
    """Whether there are lone surrogates, which JSON can write and no file can hold."""
    return not text.isascii() and any(0xD800 <= ord(letter) < 0xE000 for letter in text)


def flag_of(row: Row, name: str, file: str, faults: Faults) -> bool:
    """An optional yes or no, yes where it is absent or blank; other words are errors."""
    word = (row.text(name) or "yes").strip().lower()
    if word not in (*YES, *NO):
        faults.error(file, f"'{name}' must be yes or no (1 or 0)", row.at(repr(word)))
    return word not in NO


def label_of(row: Row, faults: Faults) -> int | None:
    """1 (true, yes), 0 (false, no) or -1 (not judged); anything else is an error."""
    word = str(row.values.get("label") or "").strip().lower()
    for label, words in ((1, YES), (0, NO), (-1, NOT_JUDGED)):
        if word in words:
            return label
    what = "'label' must be 1 (match), 0 (no match) or -1 (not judged); kinds of matches go into 'level'"
    faults.error(RELEVANCE, what, row.at(repr(word)))
    return None


class Known:
    """Ids that references may name; helps with those that are almost right.

    Args:
        ids: of the entries that can be used.
        where: the file.
        rows: of that file: a reference to an entry with a fault of its own is no second fault.
        key: of the ids in it.
    """

    def __init__(self, ids: Iterable[str], where: str, rows: Iterable[Row], key: str) -> None:
        self.ids, self.where = set(ids), where
        self.faulty = {name for row in rows for name in row.broken or (str(row.values.get(key)),)} - self.ids
        self._compared = 0
        self._plain = {_plain(name): name for name in self.ids}

    def __contains__(self, name: str) -> bool:
        return name in self.ids

    def missing(self, name: str) -> str:
        """The name, and what was probably meant."""
        twin = self._plain.get(_plain(name))
        if twin is not None:
            same = unicodedata.normalize("NFC", twin) == unicodedata.normalize("NFC", name)
            how = "the same letters in another Unicode form" if same else f"{twin!r}"
            how += "; mind the blanks" if twin.strip() == name.strip() else ""
            return f"{name!r} ({self.where} has {how})"
        self._compared += len(self.ids)
        near = nearest_names(name, self.ids, least=0.8) if self._compared <= MOST_COMPARED else []
        near = [other for other in near if _without_numbers(other) != _without_numbers(name)]  # q12 is no slip of q13
        return f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip().casefold()
