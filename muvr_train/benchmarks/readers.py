"""The readers of the benchmarks that one annotation file (or folder) defines, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from muvr_train.benchmarks.cc_web_video import read_cc_web_video
from muvr_train.benchmarks.evve import read_evve
from muvr_train.benchmarks.fivr import read_fivr
from muvr_train.benchmarks.types import Benchmark

READERS: Mapping[str, Callable[[Path], Benchmark]] = {
    "fivr_5k": lambda path: read_fivr(path, "5k"),
    "fivr_200k": lambda path: read_fivr(path, "200k"),
    "evve": read_evve,
    "cc_web_video": read_cc_web_video,
}
