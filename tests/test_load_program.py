"""benchmarks/load.py runs and prints what it claims; its times are not looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from watched_training import Watched  # noqa: E402


def test_shares_of_the_loop() -> None:
    seen = Watched(loop=10.0, waits=[0.25, 0.25], loading=[0.5, 1.0])
    assert seen.compute == pytest.approx(0.95)
    assert seen.compute_at_least == pytest.approx(0.8)


@pytest.mark.slow
def test_load(tmp_path: Path) -> None:
    environment = {**os.environ, "MUVR_TRAIN_CACHE": str(tmp_path)}
    command = [sys.executable, str(BENCHMARKS / "load.py"), "--quick", "--threads", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ways = re.findall(r"^(.+?) {2,}[\d,]+ +[\d.]+x +[\d.]+x +\d+ MiB$", done.stdout, re.MULTILINE)
    assert len(ways) == 7
    assert ways[1] == "np.load per file, float32 batch"
    runs = re.findall(r"^data.prefetch=(\d) +10 +[\d.]+ +([\d.]+) % +([\d.]+) % +(\d+) MiB$", done.stdout, re.MULTILINE)
    assert [prefetch for prefetch, *_ in runs] == ["2", "0"]
    for _, compute, least, peak in runs:
        assert 0 < float(least) <= float(compute) < 100
        assert int(peak) > 300
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "features"}
