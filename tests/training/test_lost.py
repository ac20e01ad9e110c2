"""How the first process tells which of the others has ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muvr_train.training.lost import Children


@contextmanager
def children(*programs: str) -> Iterator[Children]:
    watch = Children([subprocess.Popen([sys.executable, "-c", program]) for program in programs])
    try:
        yield watch
    finally:
        watch.failed = True  # do not wait for those that sleep
        watch.end()


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "process 2 was ended by SIGKILL"),
        ("import sys; sys.exit(3)", "process 2 has ended with code 3"),
    ],
)
def test_a_process_that_ends_a_little_later_than_its_connections_is_still_named(end: str, how: str) -> None:
    with children("import time; time.sleep(60)", f"import time; time.sleep(0.5); {end}") as watch:
        assert watch.dead() is None
        assert watch.dead(within=30.0) == how


def test_processes_that_live_or_ended_well_have_not_failed() -> None:
    with children("import time; time.sleep(60)", "pass") as watch:
        watch.processes[1].wait(30)
        assert watch.dead(within=0.2) is None
