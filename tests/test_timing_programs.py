"""The timing scripts run, count right and print what they claim; their times are not looked at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from muvr_train.models.s2vs import S2VS
from muvr_train.types import Tokens

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from gpu_session import largest  # noqa: E402
from measure import Clock, gemm, gemm_rate, run_fresh, table  # noqa: E402
from s2vs_work import S2VSWork  # noqa: E402
from step import differences  # noqa: E402


def run(program: str, *arguments: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **({"MUVR_TRAIN_CACHE": str(folder)} if folder else {})}
    command = [sys.executable, str(BENCHMARKS / program), "--quick", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("frames", [16, 15])
@pytest.mark.parametrize("regions", [1, 3])
def test_the_flops_are_those_that_torch_counts(frames: int, regions: int):
    network = S2VS(24, regions).eval()
    q, n = (torch.randn(count, frames, regions, 24) for count in (3, 5))
    with FlopCounterMode(display=False) as counter:
        indexed = [network.index(Tokens(x, torch.ones(x.shape[:2], dtype=torch.bool))) for x in (q, n)]
        network.similarity(*indexed)
    work = S2VSWork(3, 5, frames, regions, 24)
    assert counter.get_total_flops() == work.forward == work.attention + work.products + work.convolutions


def test_the_flops_of_a_step_are_those_of_the_design():
    assert S2VSWork(128, 128, 32, 9, 512).step == pytest.approx(5.2e12, rel=0.01)


def test_a_batch_against_itself_needs_half_of_the_products():
    alone, other = S2VSWork(3, 3, 8, 2, 24, itself=True), S2VSWork(3, 3, 8, 2, 24)
    assert alone.attention * 2 == other.attention
    assert alone.products * 9 == other.products * 6
    assert alone.convolutions == other.convolutions


def test_a_clock_gives_medians_and_ranges():
    clock = Clock()
    for a, b in ((1.0, 10.0), (5.0, 20.0), (2.0, 90.0)):
        clock.add("a", a)
        clock.add("b", b)
    assert clock.median("a", "b") == 22.0
    assert clock.range("a", "b") == (11.0, 92.0)
    assert clock.time("c", lambda: "done") == "done"
    assert clock.seconds["c"][0] >= 0


def test_the_rate_is_that_of_the_fastest_product():
    clock = Clock()
    for name, seconds in (("gemm 100", 2.0), ("gemm 100", 0.5), ("gemm 200", 8.0), ("other 100", 1e-9)):
        clock.add(name, seconds)
    assert gemm_rate(clock) == 2 * 100**3 / 0.5
    gemm(clock, torch.float32, "small", size=8, repeats=2)
    assert len(clock.seconds["small 8"]) == 2


def test_a_table_is_aligned():
    assert table([["", "seconds"], ["ours", "1.5"], ["a b", "12.25"]]) == (
        "      seconds\n-------------\nours      1.5\na b     12.25"
    )


def grow(size: int) -> Callable[[], int]:
    held = bytearray(b"1") * 30_000_000  # is there before the work

    def work() -> int:
        return len(bytearray(b"1") * size) + len(held)

    return work


@pytest.mark.slow
def test_memory_is_what_the_work_takes_beyond_what_was_held():
    found = run_fresh(grow, 120_000_000)
    assert found.result == 150_000_000
    assert 119e6 < found.peak < 140e6
    assert found.total > found.peak + 30e6
    with pytest.raises(TypeError, match="str"):
        run_fresh(grow, "many")


def test_the_largest_number_that_fits():
    tried: list[int] = []

    def attempt(count: int) -> float:
        tried.append(count)
        if count > 20:
            raise torch.cuda.OutOfMemoryError("too much")
        return count / 10

    assert largest(attempt, 4, 1000, seconds=100) == (16, 1.6, "32: out of memory")
    assert tried == [4, 8, 16, 32]
    assert largest(attempt, 32, 1000, seconds=100) == (0, 0.0, "32: out of memory")
    assert largest(attempt, 4, 8, seconds=100) == (8, 0.8, "16 was not tried")
    assert largest(attempt, 4, 1000, seconds=2) == (8, 0.8, "16 would take about 3 s")


def test_differences_of_gradients():
    ours = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([0.1])}
    others = {"a": torch.tensor([3.0, 4.5]), "b": torch.tensor([0.2])}
    overall, own, worst = differences(ours, others)
    assert (own, worst) == (pytest.approx(0.5), "b")
    assert overall == pytest.approx((0.25 + 0.01) ** 0.5 / (9 + 20.25 + 0.04) ** 0.5)
    with pytest.raises(SystemExit, match="different weights"):
        differences(ours, {"a": others["a"]})


@pytest.mark.slow
def test_step():
    text = run("step.py", "--threads", "1", "--cpu-time")
    assert text.count("Training step of S2VS, 8 videos x 16 frames x ") == 3
    assert len(re.findall(r"^muvr_train +[\d.]+ +\d+ MiB +\d+ MiB +\d+ +\d+ %$", text, re.MULTILINE)) == 3
    assert len(re.findall(r"^ratio +[\d.]+x +[\d.]+x +\(\d+ GFLOP/s\)$", text, re.MULTILINE)) == 3
    found = re.findall(r"^relative difference of the gradients: (\S+),", text, re.MULTILINE)
    assert len(found) == 3
    assert max(map(float, found)) < 1e-3  # at this size one maximum that changes places counts
    assert "1 thread(s)" in text
    assert "processor seconds" in text
    assert len(re.findall(r"^(?:none|\d+ MiB) +[\d.]+ +\d+ MiB +\S+$", text, re.MULTILINE)) >= 4


@pytest.mark.slow
def test_score(tmp_path: Path):
    text = run("score.py", folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert "Scoring, 10 queries x 200 videos x 15 frames x 1,024" in text
    assert re.search(r"^S2VS, muvr_train +[\d.]+ +[\d.]+x +\d+ +\d+ % +\d+ MiB$", text, re.MULTILINE)
    assert "timed on 500 of the pairs, times 4" in text
    different = re.search(r"largest difference of scores on these pairs: (\S+)", text)
    assert different
    assert float(different[1]) < 1e-5
    chunks = re.findall(r"^(?:\d+|default) +[\d.]+ +\d+ MiB +(\S+)$", text, re.MULTILINE)
    assert len(chunks) == 5
    assert max(map(float, chunks)) < 1e-5
    half = re.search(r"^default, bf16 products +[\d.]+ +\d+ MiB +(\S+)$", text, re.MULTILINE)
    assert half
    assert 1e-7 < float(half[1]) < 1e-2


@pytest.mark.slow
def test_every_part_of_the_gpu_script_runs_on_the_processor(tmp_path: Path):
    text = run("gpu.py", "--device", "cpu", "--out", str(tmp_path))
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert set(found["rates"]) == {"fp32", "tf32", "bf16"}
    assert len(found["tables"]) == 7
    assert all(title in text and rows for title, rows in found["tables"].items())
    assert text.startswith((tmp_path / "gpu.txt").read_text().rstrip())
    done = subprocess.run([sys.executable, str(BENCHMARKS / "gpu.py")], capture_output=True, text=True, check=False)
    if not torch.cuda.is_available():
        assert done.returncode == 1
        assert "no CUDA device; --device cpu" in done.stderr
