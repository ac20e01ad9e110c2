"""A training step of S2VS (scores, the losses of S2VS, gradients) against the plain formulation, in one run.

Run: python benchmarks/step.py             64 videos x 32 frames x 9 regions x 512, all pairs; random features
     python benchmarks/step.py --quick     a small size

Plain is the same maths with the whole tensor of region similarities and all maps of the CNN in memory. Every step is
done in a process of its own, the two sides in turns; the memory is what the step takes beyond its process, features
and weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from measure import Clock, Fresh, gemm, gemm_rate, mib, parse_options, report, run_fresh
from s2vs_work import S2VSWork
from torch import Tensor, nn

from muvr_train.data.batch import Batch
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.training.module import RetrievalModule
from muvr_train.types import QueryBatch, StoreDims, Tokens
from tests.reference.s2vs_plain import plain_scores

Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class Sizes:
    """Of a batch: as many queries as database videos.

    Attributes:
        itself: its videos are both, as in self-supervised training; else the database holds other videos.
    """

    videos: int = 64
    frames: int = 32
    regions: int = 9
    dim: int = 512
    itself: bool = True

    def __str__(self) -> str:
        return f"{self.videos} videos x {self.of_a_video}, against {'each other' if self.itself else 'as many others'}"

    @property
    def of_a_video(self) -> str:
        """Frames, regions and feature size."""
        return f"{self.frames} frames x {self.regions} regions x {self.dim}"

    @property
    def work(self) -> S2VSWork:
        """FLOPs."""
        return S2VSWork(self.videos, self.videos, self.frames, self.regions, self.dim, self.itself)


FULL = (Sizes(), Sizes(itself=False), Sizes(regions=1, dim=1024))
QUICK = (Sizes(8, 16, 9, 128), Sizes(8, 16, 9, 128, itself=False), Sizes(8, 16, 1, 128))
BUDGETS = (2**25, 2**27, 2**30, 2**32)


def main() -> None:
    """Compare region features, compare global features, and show what `memory_budget` does."""
    options = parse_options(__doc__, _arguments, rounds=1)
    clock = Clock(options.cpu_time)
    kinds = QUICK if options.quick else FULL
    gemm(clock)
    if options.only in (None, "compare"):
        for sizes in kinds:
            compare(sizes, options, clock)
    if options.only in (None, "budgets"):
        budgets(kinds[0], options)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=("compare", "budgets"), help="one part")


def compare(sizes: Sizes, options: argparse.Namespace, clock: Clock) -> None:
    """Both sides in turns: seconds, memory, gradients."""
    runs: dict[str, Fresh[Gradients]] = {}
    times = Clock()
    for _ in range(options.rounds):
        for side in ("plain", "ours"):
            runs[side] = run_fresh(prepare_step, side, sizes, threads=options.threads)
            times.add(side, seconds_of(runs[side], options))
    gemm(clock)
    rate, memory = gemm_rate(clock), {side: run.peak for side, run in runs.items()}
    rows = [["", "seconds", "memory", "whole process", "GFLOP/s", "of torch.matmul"]]
    for side, label in (("plain", "plain formulation"), ("ours", "muvr_train")):
        speed = sizes.work.step / times.median(side)
        sides = [f"{times.median(side):.2f}", mib(memory[side]), mib(runs[side].total)]
        rows.append([label, *sides, f"{speed / 1e9:.0f}", f"{100 * speed / rate:.0f} %"])
    ratios = [times.median("ours") / times.median("plain"), *(memory["ours"] / memory["plain"],)]
    rows.append(["ratio", f"{ratios[0]:.2f}x", f"{ratios[1]:.2f}x", "", "", f"({rate / 1e9:.0f} GFLOP/s)"])
    report(f"Training step of S2VS, {sizes}: {sizes.work.step / 1e9:.0f} GFLOP", rows, options)
    overall, own, worst = differences(runs["ours"].result, runs["plain"].result)
    print(f"relative difference of the gradients: {overall:.1e}, at most {own:.1e} of one weight ({worst})")


def budgets(sizes: Sizes, options: argparse.Namespace) -> None:
    """Time and memory of our side under several budgets."""
    rows, times = [["memory_budget", "seconds", "memory", "difference of gradients"]], Clock()
    runs: dict[str, Fresh[Gradients]] = {}
    for _ in range(options.rounds):
        for budget in (None, *BUDGETS):
            name = "none" if budget is None else mib(budget)
            runs[name] = run_fresh(prepare_step, "ours", sizes, budget, threads=options.threads)
            times.add(name, seconds_of(runs[name], options))
    for name, run in runs.items():
        overall, _, _ = differences(run.result, runs["none"].result)
        rows.append([name, f"{times.median(name):.2f}", mib(run.peak), f"{overall:.1e}"])
    report(f"The same under a memory budget, {sizes}", rows, options)


def seconds_of(run: Fresh[Gradients], options: argparse.Namespace) -> float:
    """In the kind that was asked for."""
    return run.cpu_seconds if options.cpu_time else run.seconds


def prepare_step(side: str, sizes: Sizes, budget: int | None = None) -> Callable[[], Gradients]:
    """A step on the processor, after a tiny one that warms the libraries up, torch.utils.checkpoint too."""
    module, batch = make_module(sizes, budget), make_batch(sizes)
    loss = {"plain": plain_loss, "ours": our_loss}[side]
    network = module.retriever.network
    network.checkpointing = True  # type: ignore[assignment]
    gradients(module, loss(module, make_batch(Sizes(2, 4, sizes.regions, sizes.dim))))
    network.checkpointing = None  # type: ignore[assignment]
    return lambda: gradients(module, loss(module, batch))


def make_module(sizes: Sizes, budget: int | None = None, compile: bool = False) -> RetrievalModule:  # noqa: A002
    """S2VS as in experiment=s2vs_clip_rn50x4 (attention, no base), with the four losses of its paper."""
    torch.manual_seed(0)
    dims = StoreDims(sizes.regions, sizes.dim)
    network = S2VS(sizes.dim, sizes.regions, compile=compile)
    network.memory_budget = budget
    losses = {
        "infonce": InfoNCELoss("video", temperature=0.03, epsilon=1e-6, unit_range=True),
        "hard_negative": HardNegativeLoss("video"),
        "self_similarity": SelfSimilarityLoss("video"),
        "range_regularization": RangeRegularizationLoss("video"),
    }
    loss = CompositeLoss(losses, {"hard_negative": 3.0, "self_similarity": 3.0})
    return RetrievalModule(Retriever(network, MeanFusion(dims), dims), loss, total_steps=1)


def make_batch(sizes: Sizes, device: torch.device | str = "cpu") -> Batch:
    """Videos of shots of four frames; two of them always show the same shots, with other noise, and match."""
    generator = torch.Generator(device).manual_seed(0)
    count = sizes.videos if sizes.itself else 2 * sizes.videos
    shots = torch.randn(count // 2, -(-sizes.frames // 4), sizes.regions, sizes.dim, generator=generator, device=device)
    shown = shots.repeat_interleave(4, dim=1)[:, : sizes.frames].repeat_interleave(2, dim=0)
    x = shown + torch.randn(shown.shape, generator=generator, device=device)
    tokens, topics = Tokens(x, torch.ones(x.shape[:2], dtype=torch.bool, device=device)), torch.arange(count) // 2
    relevance = (topics[:, None] == topics).float().fill_diagonal_(-1.0).to(device)
    if sizes.itself:
        return _batch(tokens, tokens, relevance)
    return _batch(tokens[torch.arange(0, count, 2)], tokens[torch.arange(1, count, 2)], relevance[::2, 1::2])


def _batch(queries: Tokens, database: Tokens, relevance: Tensor) -> Batch:
    present = queries.mask.any(dim=1)
    ids, others = (tuple(f"{side}{place}" for place in range(len(present))) for side in "qn")
    asked = QueryBatch(ids, queries, None, {"video": present, "text": ~present})
    return Batch(asked, database, None, ids if queries is database else others, relevance)


def our_loss(module: RetrievalModule, batch: Batch) -> Tensor:
    """What the trainer does."""
    return module.training_step(batch, 0)


def plain_loss(module: RetrievalModule, batch: Batch) -> Tensor:
    """The same loss on scores in the plain formulation."""
    network = module.retriever.network
    if not isinstance(network, S2VS) or batch.queries.video is None:
        raise TypeError("the plain formulation is that of S2VS on videos")
    q = network.index(batch.queries.video)
    n = q if batch.database is batch.queries.video else network.index(batch.database)
    scores, excess = plain_scores(network, q.x, n.x)
    own = [scores[i, i] if q is n else plain_scores(network, x[None], x[None])[0][0, 0] for i, x in enumerate(q.x)]
    extras = {"range_excess": excess, "self": torch.stack(own)}
    total: Tensor = module.loss({"video": scores}, batch.relevance, extras).total
    return total


def gradients(module: nn.Module, loss: Tensor) -> Gradients:
    """Gradients of all weights, by name."""
    module.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad.cpu() for name, weight in module.named_parameters() if weight.grad is not None}


def differences(ours: Gradients, others: Gradients) -> tuple[float, float, str]:
    """How far gradients lie apart, in norms relative to those of the second.

    Returns:
        Of all weights together; of the weight where it is largest; that weight's name. The second is large where a
        gradient is a sum that cancels: a softmax's gradients of a row sum to 0, and the last bias gets just this sum.
    """
    if ours.keys() != others.keys():
        raise SystemExit(f"gradients of different weights: {sorted(ours)} and {sorted(others)}")
    apart = {name: (ours[name] - grad).norm() for name, grad in others.items()}
    norms = {name: grad.norm() for name, grad in others.items()}
    worst = max(apart, key=lambda name: float(apart[name] / norms[name]))
    overall = torch.stack([*apart.values()]).norm() / torch.stack([*norms.values()]).norm()
    return float(overall), float(apart[worst] / norms[worst]), worst


if __name__ == "__main__":
    main()
