"""Programs as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a program ended. `imported` are all modules it loaded."""

    code: int
    out: str
    err: str
    imported: frozenset[str]


Start = Callable[..., Ended]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Run train.py, evaluate.py or another script in a folder of its own."""

    def run(program: str | Path, *args: str, env: dict[str, str] | None = None, timeout: int = 120) -> Ended:
        script = program if isinstance(program, Path) else ROOT / program
        done = subprocess.run(
            [sys.executable, "-X", "importtime", str(script), *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        lines = done.stderr.splitlines()
        imported = frozenset(line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:"))
        err = "\n".join(line for line in lines if not line.startswith("import time:"))
        return Ended(done.returncode, done.stdout, err, imported)

    return run


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory; what a program adds to the import path is taken back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
