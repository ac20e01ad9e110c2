"""What became of each video of an extraction: the store's status.csv."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from muvr_train.errors import DataError
from muvr_train.features.shards import write_bytes

FILE = "status.csv"
OK, SHORT, TRUNCATED, UNDECODABLE, TIMEOUT = "ok", "short", "truncated", "undecodable", "timeout"
STATUSES = (OK, SHORT, TRUNCATED, UNDECODABLE, TIMEOUT)


@dataclass(frozen=True)
class VideoStatus:
    """What became of one video.

    Attributes:
        id: its key in the store.
        path: the file.
        status: ok; short (it has fewer frames than were asked for; all are used); truncated (cut off or damaged; the
            frames that decode are used); undecodable or timeout (no features).
        reason: why it is not ok; which reader gave up, where another one took over.
        declared: frames that the header promises; 0 where it does not say.
        found: frames that decode.
        used: frames of which features are stored.
        backend: the reader, "decord" or "pyav"; "" where none could read it.
    """

    id: str
    path: str
    status: str
    reason: str = ""
    declared: int = 0
    found: int = 0
    used: int = 0
    backend: str = ""

    @property
    def failed(self) -> bool:
        """Whether there are no features."""
        return self.status in (UNDECODABLE, TIMEOUT)


def write_statuses(store: Path, statuses: Iterable[VideoStatus]) -> None:
    """Replace `<store>/status.csv`, atomically; rows are sorted by id."""
    text = io.StringIO(newline="")
    rows = csv.DictWriter(text, [field.name for field in fields(VideoStatus)], lineterminator="\n")
    rows.writeheader()
    rows.writerows(asdict(status) for status in sorted(statuses, key=lambda status: status.id))
    write_bytes(store / FILE, text.getvalue().encode("utf-8", "backslashreplace"))


def read_statuses(store: Path) -> dict[str, VideoStatus]:
    """Read `<store>/status.csv` by id; nothing where there is none.

    Raises:
        DataError: the file is damaged.
    """
    file = store / FILE
    if not file.is_file():
        return {}
    try:
        with file.open(newline="", encoding="utf-8") as text:
            return {row["id"]: _parse(row) for row in csv.DictReader(text)}
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise DataError(f"{file} is damaged ({error!r}); delete it, the features are not touched by that") from error


def _parse(row: dict[str, str]) -> VideoStatus:
    if row["status"] not in STATUSES:
        raise ValueError(f"status {row['status']!r}")
    counts = {name: int(row[name]) for name in ("declared", "found", "used")}
    return VideoStatus(row["id"], row["path"], row["status"], row["reason"], backend=row["backend"], **counts)


def count_statuses(statuses: Iterable[VideoStatus]) -> dict[str, int]:
    """How many videos have each status, those that occur, in the order of `STATUSES`."""
    found = Counter(status.status for status in statuses)
    return {name: found[name] for name in STATUSES if found[name]}
