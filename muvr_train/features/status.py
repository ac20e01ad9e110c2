"""What became of each video of an extraction: the store's status.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from muvr_train.features.rows import read_rows, write_rows

FILE = "status.csv"
OK, SHORT, TRUNCATED, UNDECODABLE, TIMEOUT = "ok", "short", "truncated", "undecodable", "timeout"
DUPLICATE = "duplicate"
STATUSES = (OK, SHORT, TRUNCATED, UNDECODABLE, TIMEOUT, DUPLICATE)


@dataclass(frozen=True)
class VideoStatus:
    """What became of one video.

    Attributes:
        id: its key in the store.
        path: the file.
        status: ok; short (it has fewer frames than were asked for; all are used); truncated (cut off or damaged; the
            frames that decode are used); undecodable or timeout (no features); duplicate (a file like another one,
            left out on purpose).
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

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r}")

    @property
    def failed(self) -> bool:
        """Whether there are no features."""
        return self.status in (UNDECODABLE, TIMEOUT)


def write_statuses(store: Path, statuses: Iterable[VideoStatus]) -> None:
    """Replace `<store>/status.csv`, atomically; rows are sorted by id."""
    write_rows(store / FILE, VideoStatus, statuses)


def read_statuses(store: Path) -> dict[str, VideoStatus]:
    """Read `<store>/status.csv` by id; nothing where there is none.

    Raises:
        DataError: the file is damaged.
    """
    return read_rows(store / FILE, VideoStatus)


def count_statuses(statuses: Iterable[VideoStatus]) -> dict[str, int]:
    """How many videos have each status, those that occur, in the order of `STATUSES`."""
    found = Counter(status.status for status in statuses)
    return {name: found[name] for name in STATUSES if found[name]}
