"""Reading training batches from a feature store against np.load of one .npy per video, in one run.

Run: python benchmarks/load.py             5,000 videos of 15 x 1,024 in float16; then how much of the training loop of
                                           `train.py experiment=s2vs_evaclip` on the built-in corpus is computation
     python benchmarks/load.py --quick     fewer videos, the tiny corpus
     python benchmarks/load.py --full      also trains on features of MUVR's size, 53,465 videos (1.7 GB of disk)

All read the same random batches of 64, warm. Like for like means float32 batch tensors on both sides; as stored means
that np.load's arrays are left in float16 and in a list. Peak memory is that of a fresh process beyond its libraries,
pages of mapped features included.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from measure import Clock, mib, parse_options, report, run_fresh
from numpy.typing import NDArray
from synthetic_muvr import DIM, FRAMES, Sizes, write_features, write_partition
from watched_training import train

from muvr_train.data.augment import FeatureAugment
from muvr_train.data.views import load_views, plan_views
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter

BATCH = 64
EDITS = FeatureAugment(
    temporal_crop=0.3, fast_forward=0.1, slow_motion=0.1, pause=0.1, frame_mixing=0.1, foreign_intro=0.5
)
"""Those of configs/data."""
MUVR = ("news", "others", "instance", "region", "dance")
MUVR_SIZES = Sizes(queries=210, database=10_483)
"""Of each partition: 53,465 videos together; MUVR has 53,462."""
Batches = Sequence[Sequence[str]]


def main() -> None:
    """Print the tables."""
    options = parse_options(__doc__, _arguments, rounds=6)
    videos = 640 if options.quick else 5000
    with tempfile.TemporaryDirectory(dir=os.environ.get("MUVR_TRAIN_CACHE")) as name:
        folder = Path(name)
        write(folder, videos)
        loading(folder, videos, options)
        if not options.no_loop:
            loop(folder, options)
        if options.full:
            muvr_size(folder, options)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-loop", action="store_true", help="leave out the training loop")
    parser.add_argument("--full", action="store_true", help="also train on features of MUVR's size")


def write(folder: Path, videos: int) -> None:
    """Write videos of noise both ways."""
    rng = np.random.default_rng(0)
    with StoreWriter(folder / "store", make_manifest("timing")) as writer:
        for video in range(videos):
            array = rng.standard_normal((FRAMES, DIM), dtype=np.float32).astype(np.float16)
            np.save(folder / f"{video}.npy", array)
            writer.add(str(video), array[:, None])


def make_reader(folder: Path, way: str) -> Callable[[Sequence[str]], object]:
    """What reads a batch of videos."""

    def load(video: str) -> NDArray[np.float16]:
        array: NDArray[np.float16] = np.load(folder / f"{video}.npy")
        return array

    if way == "files, as stored":
        return lambda batch: [load(video) for video in batch]
    if way == "files":
        return lambda batch: torch.from_numpy(np.stack([load(video) for video in batch])).float()
    residency, _, views = way.partition(" ")
    store = FeatureStore(folder / "store", residency, "cuda" if torch.cuda.is_available() else "cpu")
    if not views:
        return lambda batch: store.tokens(batch)
    pool = store.ids()

    def read(batch: Sequence[str]) -> object:
        chances = [np.random.default_rng(int(video)) for video in batch]
        return load_views(store, plan_views(store, batch, EDITS, pool, chances))

    return read


def read_all(folder: Path, way: str, batches: Batches) -> Callable[[], None]:
    """For a fresh process: read all batches."""
    read = make_reader(folder, way)

    def work() -> None:
        for batch in batches:
            read(batch)

    return work


def loading(folder: Path, videos: int, options: argparse.Namespace) -> None:
    """Videos per second of each way; rounds are interleaved, so that other work on the machine hits all alike."""
    order = [str(video) for video in np.random.default_rng(1).permutation(videos)]
    batches = [order[start : start + BATCH] for start in range(0, videos, BATCH)]
    device = "a GPU" if torch.cuda.is_available() else "the CPU"
    names = {
        "files, as stored": "np.load per file, as stored",
        "files": "np.load per file, float32 batch",
        "mmap": "store, residency=mmap",
        "ram": "store, residency=ram",
        "gpu": f"store, residency=gpu on {device}",
        "mmap views": "training views with all edits, mmap",
        "ram views": "training views with all edits, ram",
    }
    clock = Clock(options.cpu_time, "cuda" if torch.cuda.is_available() else "cpu")
    work = {way: read_all(folder, way, batches) for way in names}
    for way in names:
        work[way]()  # warm
    for _ in range(options.rounds):
        for way in names:
            clock.time(way, work[way])
    peaks = {way: run_fresh(partial(read_all, folder, way, batches), threads=options.threads).peak for way in names}
    rows: list[tuple[str, ...]] = [("", "videos/s", "like for like", "as stored", "peak memory")]
    for way, label in names.items():
        ratios = [f"{clock.median(base) / clock.median(way):.1f}x" for base in ("files", "files, as stored")]
        rows.append((label, f"{videos / clock.median(way):,.0f}", *ratios, mib(peaks[way])))
    report(f"Reading {videos} videos of {FRAMES} x {DIM}, float16, in batches of {BATCH}", rows, options)


def loop(folder: Path, options: argparse.Namespace) -> None:
    """How much of the training loop is computation."""
    size, steps = ("tiny", 10) if options.quick else ("default", 60)
    rows: list[tuple[str, ...]] = [("", "steps", "steps/s", "computation", "at least", "peak memory")]
    for prefetch in (2, 0):
        overrides = [f"data.size={size}", f"data.prefetch={prefetch}", f"trainer.steps_per_epoch={steps}"]
        rows.append(_trained(folder, f"data.prefetch={prefetch}", overrides, options))
    report(
        f"Training loop on the built-in corpus, data.size={size} (at least: were the thread's work not beside it)",
        rows,
        options,
    )


def muvr_size(folder: Path, options: argparse.Namespace) -> None:
    """Train a few steps on features of MUVR's size: its whole program, from the annotation to the report."""
    root = folder / "muvr"
    for number, name in enumerate(MUVR):
        write_partition(root, name, MUVR_SIZES, seed=number)
    write_features(root, MUVR, MUVR_SIZES, files=False)
    data = ["data=muvr", f"data.annotations={root / 'annotations'}", f"data.features={root / 'store'}"]
    rows: list[tuple[str, ...]] = [("", "steps", "steps/s", "computation", "at least", "peak memory")]
    rows.append(_trained(folder, "residency=mmap", [*data, "residency=mmap", "trainer.steps_per_epoch=10"], options))
    report("Training on 53,465 videos of 15 x 1,024, float16, with all evaluations and the report", rows, options)


def _trained(folder: Path, label: str, overrides: list[str], options: argparse.Namespace) -> tuple[str, ...]:
    settings = ["experiment=s2vs_evaclip", "logger=csv", "trainer.max_epochs=1", "callbacks.progress_bar=false"]
    settings += ["data.fractions=[0.8,0.1,0.1]"]  # of the topics: fewer queries to evaluate
    seen = train([*settings, *overrides, f"run={label.replace('=', '-')}"], folder, options.threads)
    shares = [f"{100 * share:.1f} %" for share in (seen.compute, seen.compute_at_least)]
    steps = len(seen.waits)
    return label, str(steps), f"{steps / seen.loop:.2f}", *shares, mib(seen.peak)


if __name__ == "__main__":
    main()
