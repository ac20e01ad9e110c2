"""Scoring with S2VS as evaluation does it, against one (query, video) pair at a time, in one run.

Run: python benchmarks/score.py             50 queries x 2,000 videos x 15 frames x 1,024; synthetic features
     python benchmarks/score.py --quick     a small size

Ours reads a feature store, encodes, and scores in blocks. The other side has all videos encoded in memory before its
time starts, and is timed on some of the pairs. Each side works in a process of its own; memory is what the work takes
beyond its process, weights and (on the other side) features, pages of the mapped store included.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from measure import Clock, Fresh, gemm, gemm_rate, mib, parse_options, report, run_fresh
from numpy.typing import NDArray
from s2vs_work import S2VSWork
from synthetic_muvr import DIM, FRAMES, Sizes, write_features, write_partition

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Partition
from muvr_train.features.store import FeatureStore
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.search.sources import ModelScores
from tests.reference.s2vs_plain import plain_scores

Scores = NDArray[np.float32]
NAME = "news"
CLOSE = 1e-5
"""Most that scores may differ, between the two sides and between block sizes."""


def main() -> None:
    """Write features, compare, and score with several block sizes."""
    options = parse_options(__doc__, _arguments)
    if options.quick:
        options.queries, options.database, options.pairs = 10, 200, 500
    sizes, clock = Sizes(options.queries, options.database), Clock(options.cpu_time)
    gemm(clock)
    with tempfile.TemporaryDirectory(dir=os.environ.get("MUVR_TRAIN_CACHE")) as folder:
        write_partition(Path(folder), NAME, sizes, seed=0)
        write_features(Path(folder), [NAME], sizes, files=False)
        scores = compare(Path(folder), sizes, options, clock)
        blocks(Path(folder), scores, options)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--database", type=int, default=2000, help="videos")
    parser.add_argument("--pairs", type=int, default=5000, help="on which one pair at a time is timed")


def compare(root: Path, sizes: Sizes, options: argparse.Namespace, clock: Clock) -> Scores:
    """Both sides in turns, and frame_max for scale; gives our scores."""
    pairs = min(options.pairs, sizes.queries * sizes.database)
    runs: dict[str, Fresh[Scores]] = {}
    times = Clock()
    singles = {f"pairs {threads}": threads for threads in sorted({1, options.threads})}
    for _ in range(options.rounds):
        for name, threads in singles.items():
            runs[name] = run_fresh(prepare_pairs, root, pairs, threads=threads)
        for name in ("s2vs", "frame_max"):
            runs[name] = run_fresh(prepare_scoring, root, name, threads=options.threads)
        for name, run in runs.items():
            times.add(name, run.cpu_seconds if options.cpu_time else run.seconds)
    gemm(clock)
    single = min(singles, key=times.median)
    ours, different = runs["s2vs"].result, float(np.abs(runs["s2vs"].result.flat[:pairs] - runs[single].result).max())
    scale = sizes.queries * sizes.database / pairs
    seconds = {name: times.median(name) * (scale if name == single else 1) for name in (single, "s2vs", "frame_max")}
    rate, work = (
        gemm_rate(clock),
        S2VSWork(sizes.queries, sizes.database, FRAMES, 1, DIM),
    )
    rows = [["", "seconds", "speed", "GFLOP/s", "of torch.matmul", "memory"]]
    for name, label, flops in (
        (single, "S2VS, one pair at a time", work.forward),
        ("s2vs", "S2VS, muvr_train", work.forward),
        ("frame_max", "frame_max, muvr_train", work.products),
    ):
        speed = flops / seconds[name]
        against = "" if name == "frame_max" else f"{seconds[single] / seconds[name]:.1f}x"
        rates = [f"{speed / 1e9:.0f}", f"{100 * speed / rate:.0f} %"]
        rows.append([label, f"{seconds[name]:.2f}", against, *rates, mib(runs[name].peak)])
    size = f"{sizes.queries} queries x {sizes.database:,} videos x {FRAMES} frames x {DIM:,}"
    report(f"Scoring, {size}; torch.matmul: {rate / 1e9:.0f} GFLOP/s", rows, options)
    print(
        f"one pair at a time: timed on {pairs:,} of the pairs, times {scale:g}; {singles[single]} thread(s): the faster"
    )
    print(f"largest difference of scores on these pairs: {different:.1e}")
    if not different <= CLOSE:
        raise SystemExit("the two sides do not agree: the times mean nothing")
    return ours


def blocks(root: Path, scores: Scores, options: argparse.Namespace) -> None:
    """Scores of a part of the database: with blocks of several sizes, and with products of rounded frames."""
    part = min(200, scores.shape[1])
    rows = [["pairs that the CNN reads at once", "seconds", "memory", "difference of scores"]]
    for chunk, half in ((1, False), (7, False), (64, False), (1000, False), (None, False), (None, True)):
        run = run_fresh(prepare_scoring, root, "s2vs", part, chunk, half, threads=options.threads)
        different = float(np.abs(run.result - scores[:, :part]).max())
        label, seconds = str(chunk or "default"), run.cpu_seconds if options.cpu_time else run.seconds
        rows.append([label + half * ", bf16 products", f"{seconds:.2f}", mib(run.peak), f"{different:.1e}"])
        if not half and not different <= CLOSE:
            raise SystemExit(f"pair_chunk={chunk} changes scores by {different:.1e}")
    report(f"S2VS on the first {part} videos, one round", rows, options)


def prepare_scoring(
    root: Path, model: str, part: int | None = None, pair_chunk: int | None = None, half: bool = False
) -> Callable[[], Scores]:
    """Our way: scores [Q, N] of the first `part` videos, from the store."""
    store, network = FeatureStore(root / "store"), make_network(model, pair_chunk)
    network.product_dtype = torch.bfloat16 if half else None
    retriever = Retriever(network, MeanFusion(store.dims), store.dims)
    partition = read(root)
    few = replace(partition, database=partition.database[:2])
    ModelScores(retriever, store).score(few, ["v"])  # warms the libraries up
    database = partition.database[:part]
    return lambda: ModelScores(retriever, store).score(replace(partition, database=database), ["v"])["v"].scores


def prepare_pairs(root: Path, pairs: int) -> Callable[[], Scores]:
    """The other way: the first pairs in the order of the queries, one after the other."""
    store, network, partition = FeatureStore(root / "store"), make_network("s2vs"), read(root)
    count = len(partition.database)
    network.eval()
    with torch.inference_mode():
        queries = network.index(store.tokens([query.video_id for query in partition.queries][: -(-pairs // count)])).x
        database = network.index(store.tokens(partition.database[:pairs])).x

    def work() -> Scores:
        scores = np.empty(pairs, dtype=np.float32)
        with torch.inference_mode():
            for pair in range(pairs):
                query, video = divmod(pair, count)
                scores[pair] = one_pair(network, queries[query : query + 1], database[video : video + 1])
        return scores

    one_pair(network, queries[:1], database[:1])
    return work


def one_pair(network: SimilarityNetwork, q: torch.Tensor, n: torch.Tensor) -> float:
    """The score of indexed videos [1, T, R, D], in the plain formulation."""
    if not isinstance(network, S2VS):
        raise TypeError("the plain formulation is that of S2VS")
    return plain_scores(network, q, n)[0].item()


def make_network(model: str, pair_chunk: int | None = None) -> SimilarityNetwork:
    """S2VS as in experiment=s2vs_clip_rn50x4, at random weights, or frame_max."""
    torch.manual_seed(0)
    return S2VS(DIM, pair_chunk=pair_chunk) if model == "s2vs" else FrameMax(DIM)


def read(root: Path) -> Partition:
    """The synthetic partition."""
    return read_muvr(root / "annotations").partitions[0]


if __name__ == "__main__":
    main()
