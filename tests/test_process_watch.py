"""The benchmark's watch sees the memory of this process and of those below it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WATCHED = """
import os, subprocess, sys
from benchmarks.process_watch import ProcessWatch, below

child = "data = b'1' * 150_000_000; print('made', flush=True); input()"
with ProcessWatch() as watch:
    ours = b"1" * 80_000_000
    process = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    watch._look()
    found = below(os.getpid())
    process.communicate(b"\\n")
print(found == [process.pid], watch.own, watch.others, watch.largest)
"""


def test_the_watch_sees_what_is_allocated() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    only_child, own, others, largest = done.stdout.split()
    assert only_child == "True"
    assert 75e6 < int(own) < 150e6
    assert 145e6 < int(others) <= int(largest) < 250e6
