"""Evaluation at MUVR's full size against the official procedure, in one run; all data are synthetic.

Run: python benchmarks/evaluate.py            one partition (210 x 10,700 x 15 x 1,024), modes v, t, tv, and MUVR-Filter
     python benchmarks/evaluate.py --quick    the same at a twentieth of the size
     python benchmarks/evaluate.py --full     all of MUVR-Base (1,050 x 53,500): time and peak memory of our side only

The data are written to a temporary folder (in MUVR_TRAIN_CACHE where that is set): 1.1 GB, or 1.7 GB with --full.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import official_procedure as official
import torch
from measure import Clock
from synthetic_muvr import DIM, FRAMES, Sizes, write_features, write_partition

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.evaluation import Protocol, evaluate
from muvr_train.features.store import FeatureStore
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.results import Results
from muvr_train.search.filter_scores import TagSettings
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import ModelScores

MODES = ("v", "t", "tv")
NAMES = ("news", "others", "instance", "region", "dance")
BASE = Protocol(modes=MODES)
FILTER = Protocol(modes=("tv",), tags=TagSettings((0.3,), logic=False, upper_bound=False))
STEPS = ("annotations", "loading", "scores", "metrics")
"""What the official procedure does for MUVR-Base."""


@dataclass(frozen=True)
class Ours:
    """What our side gave."""

    base: Results
    filter: Results
    scores: dict[str, ScoreMatrix]


@dataclass(frozen=True)
class Theirs:
    """What the official procedure gave; of MUVR-Filter only the first queries."""

    base: dict[str, dict[str, float]]
    filter: dict[str, float]
    scores: dict[str, official.Scores]


def main() -> None:
    """Write the data, time both sides in turns, check that they agree, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size, one round")
    parser.add_argument("--full", action="store_true", help="all of MUVR-Base, our side only")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the queries and of the database")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter-queries", type=int, default=5, help="queries that the official Filter is timed on")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cpu-time", action="store_true", help="processor seconds: with --threads 1 on a busy machine")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.child:
        evaluate_all(args.child)
        return
    if args.quick:
        args.scale, args.rounds = min(args.scale, 0.05), 1
    sizes = Sizes(max(3, round(210 * args.scale)), max(30, round(10_700 * args.scale)))
    names = NAMES if args.full else NAMES[:1]
    with tempfile.TemporaryDirectory(dir=os.environ.get("MUVR_TRAIN_CACHE")) as folder:
        root = Path(folder)
        for seed, name in enumerate(names):
            write_partition(root, name, sizes, seed)
        write_features(root, names, sizes, files=not args.full)
        print(
            f"synthetic data: {len(names)} x ({sizes.queries} queries x {sizes.database} videos) x {FRAMES} frames x "
            f"{DIM}; {args.threads} threads; {'processor' if args.cpu_time else 'wall-clock'} seconds"
        )
        if args.full:
            command = [sys.executable, __file__, "--child", str(root), "--threads", str(args.threads)]
            subprocess.run(command, check=True)
        else:
            compare(root, sizes, args)


def compare(root: Path, sizes: Sizes, args: argparse.Namespace) -> None:
    """Time one partition on both sides and print what came out."""
    clock = Clock(args.cpu_time)
    threads, asked = faster_threads(root, args.threads), min(args.filter_queries, sizes.queries)
    for _ in range(args.rounds):
        torch.set_num_threads(args.threads)
        plain_products(sizes, clock)
        ours = run_ours(root, clock)
        torch.set_num_threads(threads)
        theirs = run_official(root, clock, asked)
    check(ours, theirs)
    print(f"medians of {args.rounds} rounds; the official procedure has {threads} thread(s), its faster setting here\n")
    clock.line("official procedure, MUVR-Base, end to end", *STEPS)
    for step in STEPS:
        clock.line(f"    {step}", step)
    clock.line("evaluate(), MUVR-Base, end to end", "base")
    clock.line("    scoring alone: reading, normalising, products, maxima", "scoring")
    plain = min(clock.seconds.keys() & {"plain 64", "plain 256"}, key=clock.median)
    clock.line("torch.matmul of the frames of queries and database alone", plain)
    clock.line("evaluate(), MUVR-Filter, end to end", "filter")
    scale = sizes.queries / asked
    filter_seconds = clock.median(*STEPS[:3]) + scale * clock.median("tags")
    print(
        f"official procedure, MUVR-Filter: {filter_seconds:.1f} s, of which the tags {scale:.0f} x "
        f"{clock.median('tags'):.2f} s: timed on {asked} of {sizes.queries} queries"
    )
    products = 2 * sizes.queries * FRAMES * sizes.database * FRAMES * DIM
    rate = products / clock.median(plain)
    ours_rate = products * (1 + 1 / FRAMES) / clock.median("scoring")  # the texts are one more vector a query
    print(f"\nMUVR-Base, end to end: {clock.median(*STEPS) / clock.median('base'):.1f}x the official procedure's speed")
    print(f"MUVR-Filter, end to end: {filter_seconds / clock.median('filter'):.1f}x")
    print(f"scoring: {ours_rate / 1e9:.0f} GFLOP/s, {100 * ours_rate / rate:.0f} % of torch.matmul's {rate / 1e9:.0f}")


def plain_products(sizes: Sizes, clock: Clock) -> None:
    """The product of all frames in blocks of 64 and of 256 videos: nothing else, the output's memory is reused."""
    queries = torch.randn(sizes.queries * FRAMES, DIM)
    for videos in (64, 256):
        block = torch.randn(min(videos, sizes.database) * FRAMES, DIM)
        out = torch.empty(len(queries), len(block))

        def work(block: torch.Tensor = block, out: torch.Tensor = out) -> None:
            for _ in range(round(sizes.database * FRAMES / len(block))):
                torch.matmul(queries, block.T, out=out)

        clock.time(f"plain {videos}", work)


def run_ours(root: Path, clock: Clock) -> Ours:
    """Evaluate from the files on disk: MUVR-Base, MUVR-Filter, and once more the scores alone."""
    base = clock.time("base", lambda: evaluate(*opened(root), read_muvr(root / "annotations"), BASE))
    tags = clock.time("filter", lambda: evaluate(*opened(root), read_muvr(root / "annotations", filters=True), FILTER))
    partition = read_muvr(root / "annotations").partitions[0]
    return Ours(base, tags, clock.time("scoring", lambda: ModelScores(*opened(root)).score(partition, MODES)))


def opened(root: Path) -> tuple[Retriever, FeatureStore]:
    """The untrained model and a fresh feature store."""
    store = FeatureStore(root / "store")
    return Retriever(FrameMax(store.dims.dim), MeanFusion(store.dims), store.dims), store


def run_official(root: Path, clock: Clock, asked: int) -> Theirs:
    """Do what the official program does, in its order."""
    annotation = clock.time("annotations", lambda: official.read_annotation(root / "annotations" / NAMES[0]))
    features = clock.time("loading", lambda: official.load_features(root / "features" / NAMES[0], annotation))
    scores = clock.time("scores", lambda: official.score(annotation, features))
    base = clock.time("metrics", lambda: {mode: official.metrics(annotation, scores[mode]) for mode in MODES})
    some = annotation.queries[:asked]
    tags = clock.time("tags", lambda: official.filter_precisions(annotation, features, scores["tv"], some))
    return Theirs(base, tags, scores)


def faster_threads(root: Path, most: int) -> int:
    """The number of threads with which the official procedure scores some of the videos faster."""
    annotation = official.read_annotation(root / "annotations" / NAMES[0]).first(200)
    features = official.load_features(root / "features" / NAMES[0], annotation)
    clock = Clock()
    for threads in (1, most) * 3:
        torch.set_num_threads(threads)
        clock.time(str(threads), lambda: official.score(annotation, features))
    return min((1, most), key=lambda threads: clock.median(str(threads)))


def check(ours: Ours, theirs: Theirs) -> None:
    """Stop unless both sides give the same scores and metrics, as far as float32 goes."""
    scores, metrics = [0.0], [0.0]
    for mode, matrix in ours.scores.items():
        for query, row in zip(matrix.queries, matrix.scores, strict=True):
            found = theirs.scores[mode][query.split("/")[1]]
            other = np.array([found[video.split("/")[1]] for video in matrix.database])
            scores.append(float(np.abs(row - other).max()))
        own = ours.base.metrics(mode)
        metrics.extend(abs(own[name] - value) for name, value in theirs.base[mode].items())
    rows = [row for row in ours.filter.per_query if row["mode"] == "tag_0.3"]
    for query, value in theirs.filter.items():
        own_values = [row["AP"] for row in rows if row["query"] == f"{NAMES[0]}/{query}"]
        metrics.append(abs(float(np.mean(own_values)) - value))  # type: ignore[arg-type]
    print(f"largest difference between the two sides: scores {max(scores):.1e}, metrics {max(metrics):.1e}")
    if not (max(scores) <= 2e-6 and max(metrics) <= 1e-5):
        raise SystemExit("the two sides do not agree: the times mean nothing")


def evaluate_all(root: Path) -> None:
    """Evaluate everything under a folder, and print time and the peak memory of this process."""
    begin = time.perf_counter()
    results = evaluate(*opened(root), read_muvr(root / "annotations"), BASE)
    seconds, peak = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    mapped = sum(path.stat().st_size for path in (root / "store").glob("*.safetensors")) / 1e9
    means = json.dumps({mode: round(results.metrics(mode)["mAP"], 4) for mode in MODES})
    print(f"evaluate(), v, t and tv: {seconds:.1f} s; mAP {means}")
    print(f"peak memory {peak:.2f} GB, of which up to {mapped:.2f} GB are pages of the mapped store")


if __name__ == "__main__":
    main()
