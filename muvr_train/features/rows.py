"""Tables of a store that people read: rows of one dataclass of texts and whole numbers, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from muvr_train.errors import DataError
from muvr_train.features.shards import write_bytes

Row = TypeVar("Row")


def write_rows(file: Path, kind: type[Any], rows: Iterable[Any]) -> None:
    """Replace a file of rows of the dataclass `kind`, atomically, sorted by their `id`."""
    values = [asdict(row) for row in sorted(rows, key=lambda row: row.id)]
    odd = any("\r" in str(value) for row in values for value in row.values())  # the csv module would not quote it
    text = io.StringIO(newline="")
    names = [field.name for field in fields(kind)]
    table = csv.DictWriter(text, names, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    table.writeheader()
    table.writerows(values)
    write_bytes(file, text.getvalue().encode("utf-8", "backslashreplace"))


def read_rows(file: Path, kind: type[Row]) -> dict[str, Row]:
    """Read what `write_rows` wrote, by id; nothing where there is no such file.

    Raises:
        DataError: the file is damaged.
    """
    if not file.is_file():
        return {}
    numbers = {field.name for field in fields(kind) if field.type in (int, "int")}  # type: ignore[arg-type]
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    try:
        with file.open(newline="", encoding="utf-8") as text:
            return {
                row["id"]: kind(**{name: int(row[name]) if name in numbers else row[name] for name in names})
                for row in csv.DictReader(text)
            }
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise DataError(f"{file} is damaged ({error!r}); delete it, the features are not touched by that") from error
