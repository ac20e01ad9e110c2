"""Reading batches of 64 from a feature store against np.load of a file per video; prints the ratios of one run.

Run: OMP_NUM_THREADS=1 python benchmarks/store_loading.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter

VIDEOS, FRAMES, DIM, BATCH = 5000, 15, 1024, 64


def main() -> None:
    """Write 5,000 videos of 15 x 1,024 in float16 both ways, read them in random order (warm), best of six.

    Times are the processor's, which other work on the machine disturbs less than the clock's.
    """
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with StoreWriter(folder / "store", make_manifest("timing")) as writer:
            for video in range(VIDEOS):
                array = rng.standard_normal((FRAMES, DIM)).astype(np.float16)
                np.save(folder / f"{video}.npy", array)
                writer.add(str(video), array[:, None])
        order = [str(video) for video in rng.permutation(VIDEOS)]
        batches = [order[start : start + BATCH] for start in range(0, VIDEOS, BATCH)]
        stores = {residency: FeatureStore(folder / "store", residency) for residency in ("mmap", "ram", "gpu")}

        def load(video: str) -> np.ndarray:
            return np.load(folder / f"{video}.npy")

        ways: dict[str, Callable[[list[str]], object]] = {
            "np.load per file (as stored)": lambda batch: [load(video) for video in batch],
            "np.load, float32 batch": lambda batch: torch.from_numpy(np.stack([load(v) for v in batch])).float(),
            "store, mmap": stores["mmap"].tokens,
            "store, ram": stores["ram"].tokens,
            "store, gpu on the CPU": stores["gpu"].tokens,
        }
        rates = {way: [0.0] for way in ways}
        for _ in range(6):  # interleaved, so that other work on the machine hits all alike
            for way, read in ways.items():
                begin = time.process_time()
                for batch in batches:
                    read(batch)
                rates[way].append(VIDEOS / (time.process_time() - begin))
        base, fair = (max(rates[way]) for way in list(ways)[:2])
        for way, rate in rates.items():
            print(
                f"{way:30} {max(rate):9.0f} videos/s  {max(rate) / base:5.1f}x  {max(rate) / fair:5.1f}x like for like"
            )


if __name__ == "__main__":
    main()
