"""Memory and processor time of this process and of all those that it started, as Linux tells them in /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PROC = Path("/proc")
EVERY = 0.1  # seconds between two looks
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessWatch:
    """Watches while it is entered.

    Attributes:
        own: bytes by which this process's resident memory has gone beyond its peak so far.
        others: bytes of the processes below this one at most, together; pages that several share count once.
        largest: bytes of the largest of those, with all that it shares.
        seconds: processor seconds of those processes.
    """

    def __init__(self) -> None:
        self.own = self.others = self.largest = 0
        self._times: dict[int, float] = {}
        self._stop = threading.Event()

    @property
    def seconds(self) -> float:  # noqa: D102
        return sum(self._times.values())

    def __enter__(self) -> ProcessWatch:
        self._start = kilobytes(os.getpid(), "status", "VmHWM")
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            self._look()

    def _look(self) -> None:
        self.own = max(self.own, kilobytes(os.getpid(), "status", "VmHWM") - self._start)
        shares = []
        for process in below(os.getpid()):
            try:
                shares.append(kilobytes(process, "smaps_rollup", "Pss"))
                self.largest = max(self.largest, kilobytes(process, "status", "VmHWM"))
                self._times[process] = _processor_seconds(process)
            except (OSError, KeyError):  # it has ended
                continue
        self.others = max(self.others, sum(shares))


def below(process: int) -> list[int]:
    """All processes that this one started, and theirs."""
    parents = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int(_fields(int(folder.name))[1])
            except OSError:  # it has ended
                continue
    found, new = list[int](), [process]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def _fields(process: int) -> list[str]:
    """Of /proc/PID/stat, those after the command's name."""
    return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()


def _processor_seconds(process: int) -> float:
    return sum(map(int, _fields(process)[11:13])) / TICKS


def kilobytes(process: int, file: str, key: str) -> int:
    """A line "key: N kB", in bytes."""
    lines = (PROC / str(process) / file).read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    return 1024 * int(found[key])
