"""What the timing scripts share: options, clocks, peak memory, the machine's own rate of matrix products, a table."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Generic, TypeVar

import torch
from process_watch import kilobytes

sys.path.insert(1, str(Path(__file__).parents[1]))  # scripts take the slow twins from tests/reference
T = TypeVar("T")
MACHINE = Path("/proc/cpuinfo")
PRELOADED = ("muvr_train.training.module", "muvr_train.search.sources")
GEMM_SIZE = {"cpu": 2048, "cuda": 8192}


def parse_options(
    description: str | None, arguments: Callable[[argparse.ArgumentParser], None] = lambda _: None, rounds: int = 3
) -> argparse.Namespace:
    """Read the command line and set torch's threads; all scripts have the same options, and some a few of their own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--rounds", type=int, default=rounds, help="of which medians are given")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cpu-time", action="store_true", help="processor seconds: with --threads 1 on a busy machine")
    arguments(parser)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    torch.set_num_threads(options.threads)
    return options


class Clock:
    """Seconds of named parts, one number a round.

    Args:
        cpu_time: count the processor seconds of this process, not those of the clock on the wall.
        device: a GPU is waited for before and after each part.
    """

    def __init__(self, cpu_time: bool = False, device: torch.device | str = "cpu") -> None:
        self.now = time.process_time if cpu_time else time.perf_counter
        self.device, self.seconds = torch.device(device), dict[str, list[float]]()

    def time(self, part: str, work: Callable[[], T]) -> T:
        """Do some work and note its seconds."""
        self._settle()
        begin = self.now()
        result = work()
        self._settle()
        self.add(part, self.now() - begin)
        return result

    def add(self, part: str, seconds: float) -> None:
        """Note seconds that were measured elsewhere, in another process for instance."""
        self.seconds.setdefault(part, []).append(seconds)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def median(self, *parts: str) -> float:
        """The sum of the parts' medians."""
        return sum(median(self.seconds[part]) for part in parts)

    def range(self, *parts: str) -> tuple[float, float]:
        """Shortest and longest round, parts added."""
        rounds = [sum(values) for values in zip(*(self.seconds[part] for part in parts), strict=True)]
        return min(rounds), max(rounds)

    def line(self, label: str, *parts: str) -> None:
        """Print the median over the rounds and the range."""
        low, high = self.range(*parts)
        print(f"{label:62}{self.median(*parts):8.2f} s   ({low:.2f} - {high:.2f})")


@dataclass(frozen=True)
class Fresh(Generic[T]):
    """What some work gave in a process of its own.

    Attributes:
        result: whatever it returned (pickled on the way).
        seconds: of the work alone, by the clock.
        cpu_seconds: of the processor.
        peak: bytes of resident memory at most, beyond what the process held when the work began.
        total: bytes of resident memory at most, everything included.
    """

    result: T
    seconds: float
    cpu_seconds: float
    peak: int
    total: int


def run_fresh(prepare: Callable[..., Callable[[], T]], *args: object, threads: int = 1) -> Fresh[T]:
    """Call `prepare(*args)` in a new process, then time the function that it gives and watch its memory.

    Args:
        prepare: a function at the top level of a module; makes what does not count (imports, data, a warm-up).
        args: pickled.
        threads: of torch.

    Raises:
        Whatever the work raises; BrokenProcessPool where the process was killed, for instance for its memory.
    """
    context = multiprocessing.get_context("forkserver")  # its server imports what takes long once, and nothing else
    context.set_forkserver_preload(list(PRELOADED))
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_watched, prepare, args, threads).result()


def _watched(prepare: Callable[..., Callable[[], T]], args: tuple[object, ...], threads: int) -> Fresh[T]:
    torch.set_num_threads(threads)
    work = prepare(*args)
    begin, used = time.perf_counter(), time.process_time()
    result, peak, total = watch_peak(work)
    return Fresh(result, time.perf_counter() - begin, time.process_time() - used, peak, total)


def watch_peak(work: Callable[[], T], device: torch.device | str = "cpu") -> tuple[T, int, int]:
    """Do some work; gives its result, the most memory it took beyond what was held before, and the most altogether.

    On the CPU that is this process's resident memory, on a GPU what torch's allocator gave out.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        result = work()
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device)
    else:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
        held = kilobytes(os.getpid(), "status", "VmRSS")
        result = work()
        peak = kilobytes(os.getpid(), "status", "VmHWM")
    return result, peak - held, peak


def gemm(
    clock: Clock, dtype: torch.dtype = torch.float32, part: str = "gemm", size: int | None = None, repeats: int = 4
) -> None:
    """Time square matrix products on the clock's device; `gemm_rate` then gives the rate.

    On a GPU float32 is what `torch.backends.cuda.matmul.allow_tf32` makes of it.
    """
    size = size or GEMM_SIZE[clock.device.type]
    a, b = (torch.randn(size, size, device=clock.device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    torch.matmul(a, b, out=out)
    for _ in range(repeats):
        clock.time(f"{part} {size}", lambda: torch.matmul(a, b, out=out))


def gemm_rate(clock: Clock, part: str = "gemm") -> float:
    """FLOP/s of the fastest product that `gemm` timed under this name, in the clock's seconds."""
    found = {name: min(seconds) for name, seconds in clock.seconds.items() if name.rpartition(" ")[0] == part}
    return max(2 * int(name.rpartition(" ")[2]) ** 3 / seconds for name, seconds in found.items())


def machine(threads: int, device: torch.device | str = "cpu") -> str:
    """A line that says what the figures were measured on."""
    device = torch.device(device)
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB; torch {torch.__version__}"
    names = [line.split(":")[1].strip() for line in MACHINE.read_text().splitlines() if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {threads} thread(s); torch {torch.__version__}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned text; the first row is the head, the first column is flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def report(title: str, rows: Sequence[Sequence[str]], options: argparse.Namespace, device: str = "cpu") -> None:
    """Print a table under its title and the machine."""
    kind = "processor" if options.cpu_time else "wall-clock"
    print(f"\n{title}\n{machine(options.threads, device)}; {kind} seconds, medians of {options.rounds} round(s)")
    print(table(rows), flush=True)


def mib(size: float) -> str:
    """Bytes as MiB.

    >>> mib(3 * 2**20)
    '3 MiB'
    """
    return f"{size / 2**20:.0f} MiB"
