"""evaluate.py benchmark=muvr_qa and benchmark=iv_bench for tests: run in this process or another, and read again."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from muvr_train import runner
from muvr_train.config_checks import check_paths
from tests.in_process import composed
from tests.interrupts import hear_interrupts

ROOT = Path(__file__).parents[2]
OWN = """
import os
import threading
from pathlib import Path

from muvr_train.rerank.types import Answerer, AnswerError, Reply

LOCK = threading.Lock()


class Mine(Answerer):
    name = "mine"
    needs_visuals = False

    def __init__(self, concurrency=1, kill_at=None, signal=9, failing=0, log="asked.txt", fault=False):
        self.concurrency, self.kill_at, self.signal = concurrency, kill_at, signal
        self.failing, self.log, self.fault = failing, log, fault
        self.asked = 0

    def identity(self):
        return {"name": "mine"}

    def answer(self, request):
        with LOCK:
            self.asked += 1
            number = self.asked
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(request.question.id + "\\n")
        if number == self.kill_at:
            os.kill(os.getpid(), self.signal)
        if self.kill_at and number >= self.kill_at and self.concurrency > 1 and self.signal != 9:
            threading.Event().wait()  # a server that does not answer any more
        if self.fault:
            raise ZeroDivisionError("half")
        if self.failing and number % self.failing == 0:
            raise AnswerError("no answer after 3 tries")
        return Reply("Yes." if sum(map(ord, request.question.id)) % 3 else "**No**")
"""


def evaluate(*arguments: str, extra: Path | None = None) -> dict[str, float]:
    """Run evaluate.py in this process, without Hydra's folders and logs."""
    cfg = composed(*arguments, extra=extra)
    check_paths(cfg)
    return runner.evaluate(cfg)


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run evaluate.py as a process."""
    return subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=hear_interrupts,
    )


def results(out: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(out) / "results.json").read_text(encoding="utf-8"))
    return content


def metrics(out: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["mode"], row["partition"]): row["metrics"] for row in results(out)["rows"]}


def lines(out: str | Path) -> list[dict[str, str]]:
    with (Path(out) / "per_question.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
