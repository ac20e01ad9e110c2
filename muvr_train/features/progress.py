"""A progress bar with rate and ETA on stderr; a line in the log now and then where that is no terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

LINE_EVERY = 30.0  # seconds between lines where there is no terminal
T = TypeVar("T")
log = logging.getLogger(__name__)


class Progress:
    """How many of `total` are through, how many per second, and the time left; call `close` at the end.

    Args:
        what: what is counted.
        total: how many there are; nothing is shown for 0.
        show: whether to show anything.
    """

    def __init__(self, what: str, total: int, show: bool = True) -> None:
        self._bar: Any = None
        self._what, self._total, self._done = what, total, 0
        self._started = self._spoke = time.monotonic()
        if not show or not total:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                speed = task.finished_speed or task.speed
                return Text("" if speed is None else f"{speed:.1f}/s")

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def advance(self) -> None:
        """One more is through."""
        if self._bar is None:
            return
        self._bar.advance(self._task)
        self._done += 1
        now = time.monotonic()
        if self._bar.console.is_terminal or now - self._spoke < LINE_EVERY or self._done >= self._total:
            return
        self._spoke = now
        rate = self._done / max(1e-9, now - self._started)
        left = (self._total - self._done) / rate / 60
        log.info("%s: %d of %d, %.1f/s, %.1f min left", self._what, self._done, self._total, rate, left)

    def describe(self, text: str) -> None:
        """Show another text before the bar."""
        self._what = text
        if self._bar is not None:
            self._bar.update(self._task, description=text)

    def close(self) -> None:
        """Leave the bar as it is. May be called twice."""
        if self._bar is not None:
            self._bar.stop()


def track(items: Iterable[T], total: int, what: str, show: bool = True) -> Iterator[T]:
    """Pass items on under a progress bar."""
    bar = Progress(what, total, show)
    try:
        for item in items:
            yield item
            bar.advance()
    finally:
        bar.close()
