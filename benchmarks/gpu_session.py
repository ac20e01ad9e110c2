"""What the parts of gpu.py share: the device, how much time is left, and where results go."""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from measure import Clock, machine, table

Value = str | float | int | None
Row = Mapping[str, Value]


@dataclass
class Session:
    """One run of gpu.py; a table that is shown is kept for the files too."""

    device: torch.device
    quick: bool
    limit: float
    began: float = field(default_factory=time.perf_counter)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    """FLOP/s of the GPU's own product in fp32, tf32 and bf16."""

    def left(self) -> float:
        """Seconds that are left."""
        return self.limit - (time.perf_counter() - self.began)

    def clock(self) -> Clock:
        """A clock that waits for the device."""
        return Clock(device=self.device)

    def say(self, line: str) -> None:
        """Print a line and keep it."""
        self.text.append(line)
        print(line, flush=True)

    def show(self, title: str, rows: list[Row]) -> None:
        """Print a table and keep it."""
        if not rows:
            self.say(f"\n{title}: left out, {max(self.left(), 0):.0f} s are left")
            return
        self.tables[title] = rows
        self.say(f"\n{title}\n{table([[*rows[0]], *([_shown(value) for value in row.values()] for row in rows)])}")

    def write(self, folder: Path) -> None:
        """Write `gpu.json` and `gpu.txt`."""
        folder.mkdir(parents=True, exist_ok=True)
        facts = {"machine": machine(torch.get_num_threads(), self.device), "quick": self.quick, "rates": self.rates}
        (folder / "gpu.json").write_text(json.dumps({**facts, "tables": self.tables}, indent=1) + "\n")
        (folder / "gpu.txt").write_text("\n".join(self.text) + "\n")
        print(f"\nwritten to {folder}")


def read_session(description: str | None) -> tuple[Session, Path]:
    """Read the command line; gives the session and the folder for its files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--limit", type=float, default=280, help="seconds after which no further part begins")
    parser.add_argument("--out", type=Path, default=Path("outputs/gpu"), help="folder for gpu.json and gpu.txt")
    options = parser.parse_args()
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device; --device cpu --quick tries every line of this script without one")
    return Session(torch.device(options.device), options.quick, options.limit), options.out


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Let CUDA round the factors of float32 products and convolutions to TF32, or not."""
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = on
    try:
        yield
    finally:
        for backend, old in zip(backends, before, strict=True):
            backend.allow_tf32 = old


def free(device: torch.device) -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def largest(attempt: Callable[[int], float], start: int, most: int, seconds: float) -> tuple[int, float, str]:
    """Double a number while an attempt with it fits into memory.

    Args:
        attempt: gives the seconds that it took, or runs out of a GPU's memory.
        start: first number.
        most: last number.
        seconds: an attempt that is expected to take longer (four times the last) is not made.

    Returns:
        The last number that fitted (0: none), its seconds, and why the search stopped.
    """
    count, fitted, took = start, 0, 0.0
    while count <= most:
        if 4 * took > seconds:
            return fitted, took, f"{count} would take about {4 * took:.0f} s"
        try:
            took = attempt(count)
        except torch.cuda.OutOfMemoryError:
            return fitted, took, f"{count}: out of memory"
        fitted, count = count, 2 * count
    return fitted, took, f"{count} was not tried"


def _shown(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value
