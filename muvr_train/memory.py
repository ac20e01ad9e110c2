"""Amounts of memory: what a user writes, and what is free."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from muvr_train.errors import ConfigError

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?", re.IGNORECASE)


def parse_bytes(value: float | str) -> int:
    """A number of bytes from a number or a text with a unit (kB, MB, GB, TB, or KiB, MiB, GiB, TiB).

    Raises:
        ConfigError: no such number, or less than 1.

    >>> parse_bytes("1.5GB"), parse_bytes("2 MiB"), parse_bytes(300.0)
    (1500000000, 2097152, 300)
    """
    if isinstance(value, (int, float)):
        size = int(value) if not isinstance(value, bool) and math.isfinite(value) else 0
    else:
        found = _SIZE.fullmatch(value.strip())
        size = int(float(found[1]) * UNITS[found[2].lower()]) if found else 0
    if size < 1:
        raise ConfigError(
            f"memory_budget={value} is not possible: it is a number of bytes such as 2GB, 500MB or 1.5GiB"
        )
    return size


def is_bytes(value: object) -> bool:
    """Whether `parse_bytes` takes it."""
    try:
        return isinstance(value, (int, float, str)) and parse_bytes(value) > 0
    except ConfigError:
        return False


def show_bytes(count: int) -> str:
    """A number of bytes for people.

    >>> show_bytes(1_530_000_000), show_bytes(2_000_000), show_bytes(12)
    ('1.5 GB', '2.0 MB', '12 B')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def free_bytes() -> int:
    """Memory that this process can still get: what the machine has left, and no more than its control group allows."""
    free = [_available(), *_left_in_group(Path("/sys/fs/cgroup"))]
    return min(free)


def _available() -> int:
    """What the system gives without swapping; where it does not say, half of what the machine has."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _left_in_group(folder: Path) -> list[int]:
    """The limit of the control group (version 2) less what it uses; nothing where there is no limit."""
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return []
    return [] if limit == "max" else [max(int(limit) - int(used), 0)]
