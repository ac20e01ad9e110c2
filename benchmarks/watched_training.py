"""Trains as train.py does, and writes down how long the loop waited for batches and how much memory the process took.

Run: python benchmarks/watched_training.py FILE.json [what train.py takes]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from process_watch import kilobytes


@dataclass
class Watched:
    """Of one run of the training loop, in seconds by the clock where nothing else is said.

    Attributes:
        loop: from the first batch that is asked for to the end of the last step, evaluations and checkpoints left out.
        waits: for each batch.
        loading: processor seconds of the thread that loads, for each batch; they may take a core from the computation.
        left_out: evaluations and checkpoints between the steps.
        started: from the start of the program to the first batch that is asked for.
        peak: bytes of resident memory at most, pages of mapped features included.
    """

    loop: float = 0.0
    waits: list[float] = field(default_factory=list)
    loading: list[float] = field(default_factory=list)
    left_out: float = 0.0
    started: float = 0.0
    peak: int = 0

    @property
    def compute(self) -> float:
        """The share of the loop that is not spent waiting for batches."""
        return 1 - sum(self.waits) / self.loop

    @property
    def compute_at_least(self) -> float:
        """The same if all of the thread's work were taken from the computation."""
        return 1 - (sum(self.waits) + sum(self.loading)) / self.loop


def train(overrides: list[str], folder: Path, threads: int) -> Watched:
    """Train in a process of its own, in a folder.

    Raises:
        subprocess.CalledProcessError: the run failed; its messages are on stderr.
    """
    file = folder / "watched.json"
    command = [sys.executable, str(Path(__file__).resolve()), str(file), *overrides]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return Watched(**json.loads(file.read_text()))


def main() -> None:
    """Put the watch in, and train."""
    began = time.perf_counter()
    file = Path(sys.argv.pop(1)).absolute()
    from muvr_train.data.loader import AheadLoader
    from muvr_train.train import main as program
    from muvr_train.training.callbacks import EvaluateAndSave

    watched, evaluate = Watched(), EvaluateAndSave.on_train_batch_end
    iterate, load = AheadLoader.__iter__, AheadLoader._load

    def watched_iterate(self: AheadLoader) -> Iterator[Any]:
        watched.started, batches = time.perf_counter() - began, iterate(self)
        while True:
            asked = time.perf_counter()
            batch = next(batches)
            watched.waits.append(time.perf_counter() - asked)
            yield batch

    def watched_load(self: AheadLoader, n: int) -> Any:
        used = time.thread_time()
        batch = load(self, n)
        watched.loading.append(time.thread_time() - used)
        return batch

    def watched_end(*args: Any) -> None:
        begin = time.perf_counter()
        evaluate(*args)
        end = time.perf_counter()
        watched.left_out += end - begin
        watched.loop = end - began - watched.started - watched.left_out

    for owner, name, function in (
        (AheadLoader, "__iter__", watched_iterate),
        (AheadLoader, "_load", watched_load),
        (EvaluateAndSave, "on_train_batch_end", watched_end),
    ):
        setattr(owner, name, function)
    program()
    watched.peak = kilobytes(os.getpid(), "status", "VmHWM")
    file.write_text(json.dumps(asdict(watched)))


if __name__ == "__main__":
    main()
