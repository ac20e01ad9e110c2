"""The benchmark of evaluation runs, and both of its sides agree; its times are not looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "evaluate.py"


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, PROGRAM, "--scale", "0.005", "--threads", "1", *arguments],
        env={**os.environ, "MUVR_TRAIN_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stdout


@pytest.mark.slow
def test_both_sides_agree(tmp_path: Path):
    text = run(tmp_path, "--quick")
    differences = re.search(r"largest difference between the two sides: scores (\S+), metrics (\S+)", text)
    assert differences is not None
    assert 0 < float(differences[1]) < 2e-6
    assert float(differences[2]) < 1e-5
    assert "synthetic data: 1 x (3 queries x 54 videos)" in text
    assert len(re.findall(r"^MUVR-\w+, end to end: +[\d.]+x", text, re.MULTILINE)) == 2
    assert re.search(r"scoring: \d+ GFLOP/s, \d+ % of torch\.matmul's \d+", text)


@pytest.mark.slow
def test_the_whole_of_muvr_base_reports_its_memory(tmp_path: Path):
    text = run(tmp_path, "--full")
    assert "5 x (3 queries x 54 videos)" in text
    peak = re.search(r"peak memory (\d+\.\d+) GB", text)
    assert peak is not None
    assert 0.1 < float(peak[1]) < 6
