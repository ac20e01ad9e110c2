"""What the importers share: the report, the list of failures, the progress bar."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from muvr_train.features.shards import Array, write_bytes, write_json
from muvr_train.features.writer import StoreWriter

FAILURES = "failures.csv"
DONE = "imported.json"
Item = TypeVar("Item")
logger = logging.getLogger(__name__)


@dataclass
class ImportReport:
    """What an import did: entries in the store afterwards, per stream, and (key, reason) of each failure."""

    stored: dict[str, int] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def recorded(writer: StoreWriter, source: Path) -> Iterator[ImportReport]:
    """Fill a report, then close the store, and write failures.csv and the mark of a complete import into it."""
    report = ImportReport()
    with writer:
        yield report
        report.stored = {stream: len(writer.done(stream)) for stream in ("video", "text", "tags")}
    rows = io.StringIO(newline="")
    csv.writer(rows, lineterminator="\n").writerows([("key", "reason"), *report.failures])
    text = rows.getvalue().encode("utf-8", "backslashreplace")
    write_bytes(writer.path / FAILURES, text)
    write_json(writer.path / DONE, {"source": str(source), "stored": report.stored, "failures": len(report.failures)})
    if report.failures:
        logger.warning(
            "%d entries of %s could not be imported: see %s", len(report.failures), source, writer.path / FAILURES
        )


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


def with_progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Pass items on under a transient bar with count, rate and remaining time, on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        for item in items:
            yield item
            progress.advance(task)


def as_float(array: Array) -> Array:
    """A floating-point array as it is; float64 (and anything longer) as float32.

    Raises:
        ValueError: another type, with what it is.
    """
    if array.dtype.kind != "f":
        raise ValueError(f"holds {array.dtype}, not floating-point features")
    return array if array.dtype.itemsize <= 4 else array.astype(np.float32)
