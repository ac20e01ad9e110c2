"""The check of similarity networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from muvr_train.conformance.assertions import named_errors, one_thread, perturb, weighted_sum
from muvr_train.conformance.network_scores import check_scores, check_training_scores
from muvr_train.conformance.network_trial import NetworkFactory, NetworkTrial
from muvr_train.conformance.world import blanked
from muvr_train.models.base import EXTRAS, SimilarityNetwork
from muvr_train.types import Tokens

SIZES = ((16, 1), (16, 9), (24, 2))
"""Feature sizes and regions a frame."""


@one_thread()
def check_network(
    network: SimilarityNetwork | NetworkFactory,
    *,
    sizes: Sequence[tuple[int, int]] | None = None,
    direction: bool = True,
    seed: int = 0,
) -> None:
    """Check that a similarity network keeps its promises, with random videos of 1 to 9 frames.

    Scores must be float32 [Q, N], finite and inside `range`, -inf for a video without a real frame; equal to 1e-5
    whatever else is in the batch, in any order, padding and pieces, also in train mode (with nn.Dropout off) where the
    network calls itself divisible; going the same way there; independent of masked vectors; the same each time in eval
    mode; restored by a state dict. `Tokens.weight` of 1 must change nothing and other weights something,
    `pair_similarity` be the diagonal, extras and `similarity_map` have their shapes. Gradients must be finite, also
    with a blank video, and from moved parameters on reach each of them and the tokens of both sides. Extra maps are
    given where `network.extra_maps` is above 0.

    Args:
        network: a class or function that is called with `dim=` and `regions=`, or one network.
        sizes: feature sizes and regions to try; by default three.
        direction: require that a network without learned weights scores videos with themselves above others.
        seed: of weights and vectors.

    Raises:
        AssertionError: a promise is broken; the message says which, for which videos, and shows the numbers.
    """
    if isinstance(network, SimilarityNetwork):
        sizes = [(network.dim, network.regions)]
    for dim, regions in SIZES if sizes is None else sizes:
        trial = NetworkTrial(network, dim, regions, seed)
        with named_errors(trial.subject, "comparing videos"):
            trial.check_shapes()
            if direction:
                trial.check_direction()
        with named_errors(trial.subject, "training"):
            check_gradients(trial, reach_all=False)
        perturb(trial.network, seed)
        with named_errors(trial.subject, "comparing videos with other weights"):
            check_scores(trial)
        with named_errors(trial.subject, "training with other weights"):
            check_gradients(trial, reach_all=True)
            check_training_scores(trial)


def check_gradients(trial: NetworkTrial, reach_all: bool) -> None:
    """Gradients of scores and extras in train mode, in float32, with a blank video and under bfloat16 autocast."""
    network, subject, (q, n) = trial.network.train(), trial.subject, trial.sides()

    def value(q: Tokens = q, n: Tokens = n, maps: Tensor | None = trial.maps) -> Tensor:
        torch.manual_seed(trial.seed)
        index = network.index(q), network.index(n)
        scores, extras = network.similarity_with_extras(*index, EXTRAS, maps)
        real = n.mask.any(dim=1)
        subject.require_matrix(scores[:, real].float(), (len(q), int(real.sum())), "the training score")
        excess, own = extras["range_excess"][:, real].sum(), extras["self"].sum()
        return weighted_sum(scores) + 0.1 * excess + own

    subject.require_gradients(network, value, reach_all)
    subject.require_gradients(network, lambda: value(n=blanked(n, 1)), False, "with a blank video, ")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        subject.require_gradients(network, value, reach_all=False)
    if reach_all:
        leaves = [replace(side, x=side.x.clone().requires_grad_()) for side in (q, blanked(n, 1))]
        torch.manual_seed(trial.seed)
        scores = network.similarity(network.index(leaves[0]), network.index(leaves[1]), trial.maps)
        subject.require(scores.requires_grad, "no gradient reaches the tokens: the scores are detached")
        weighted_sum(scores).backward()  # type: ignore[no-untyped-call]
        for side, name in zip(leaves, ("query", "database"), strict=True):
            subject.require_reached([side.x], f"training cannot reach the tokens of {name} videos")
    network.zero_grad()
    network.eval()
