"""The check of similarity networks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, named_errors, one_thread, perturb
from muvr_train.conformance.world import spoil_padding
from muvr_train.models.base import EXTRAS, SimilarityNetwork
from muvr_train.types import Tokens

NetworkFactory = Callable[..., SimilarityNetwork]
SIZES = ((16, 1), (16, 9), (24, 2))
"""Feature sizes and regions a frame."""
LENGTHS = (5, 1, 3, 9, 2), (4, 9, 1, 6, 2, 7)


@one_thread()
def check_network(
    network: SimilarityNetwork | NetworkFactory, *, sizes: Sequence[tuple[int, int]] | None = None, seed: int = 0
) -> None:
    """Check that a similarity network keeps its promises, with random videos of 1 to 9 frames.

    Scores must be float32 [Q, N], finite and inside `range`, -inf for a video without a real frame; equal to 1e-5
    whatever else is in the batch, in any order, padding and pieces; independent of masked vectors; the same each time
    in eval mode; restored by a state dict. `Tokens.weight` of 1 must change nothing and other weights something,
    `pair_similarity` be the diagonal, extras and `similarity_map` have their shapes. Gradients must be finite, and from
    moved parameters on reach each of them. Extra maps are given where `network.extra_maps` is above 0.

    Args:
        network: a class or function that is called with `dim=` and `regions=`, or one network.
        sizes: feature sizes and regions to try; by default three.
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
        with named_errors(trial.subject, "training"):
            trial.check_gradients(reach_all=False)
        perturb(trial.network, seed)
        with named_errors(trial.subject, "comparing videos with other weights"):
            trial.check_scores()
        with named_errors(trial.subject, "training with other weights"):
            trial.check_gradients(reach_all=True)


class NetworkTrial:
    """One network on one size of features.

    Args:
        network: see `check_network`.
        dim: feature size.
        regions: regions a frame.
        seed: of weights and vectors.
    """

    def __init__(self, network: SimilarityNetwork | NetworkFactory, dim: int, regions: int, seed: int) -> None:
        self.made, self.size, self.seed = network, (dim, regions), seed
        generator = torch.Generator().manual_seed(seed)
        self.videos, self.database = (
            [torch.randn(length, regions, dim, generator=generator) for length in lengths] for lengths in LENGTHS
        )
        self.database[2] = -self.videos[1]  # one frame against one frame: nothing may beat their cosine of -1
        names = [[f"{place} ({length} frames)" for place, length in enumerate(lengths)] for lengths in LENGTHS]
        self.subject = Subject(f"{name_of(network)} on {regions} x {dim} features", *names)
        self.network = self._build(seed)
        self.maps: Tensor | None = None
        count = int(getattr(self.network, "extra_maps", 0))
        if count:
            shape = (len(LENGTHS[0]), len(LENGTHS[1]), count, max(LENGTHS[0]), max(LENGTHS[1]))
            self.maps = torch.randn(shape, generator=generator)

    def _build(self, seed: int) -> SimilarityNetwork:
        torch.manual_seed(seed)
        dim, regions = self.size
        made = self.made
        network = copy.deepcopy(made) if isinstance(made, SimilarityNetwork) else made(dim=dim, regions=regions)
        self.subject.require(
            isinstance(network, SimilarityNetwork), f"it is a {type(network).__name__}, no SimilarityNetwork"
        )
        if network.needs_fit:
            network.fit([Tokens.pack(self.database), Tokens.pack(self.videos)])
            self.subject.require(not network.needs_fit, "needs_fit is still true after fit")
        return network.eval()

    def sides(self, padding: int = 0, spoilt: bool = False) -> tuple[Tokens, Tokens]:
        """Queries and database videos as tensors."""
        packed = []
        for videos in (self.videos, self.database):
            tokens = Tokens.pack(videos)
            tokens = tokens.pad_to(tokens.mask.shape[1] + padding)
            packed.append(spoil_padding(tokens) if spoilt else tokens)
        return packed[0], packed[1]

    def score(self, q: Tokens, n: Tokens, maps: Tensor | None = None) -> Tensor:
        """Scores [Q, N] in eval mode."""
        with torch.no_grad():
            return self.network.similarity(self.network.index(q), self.network.index(n), maps)

    def check_shapes(self) -> None:
        """What each method gives."""
        subject, network, (q, n) = self.subject, self.network, self.sides()
        shape = (len(q), len(n))
        with torch.no_grad():
            index_q, index_n = network.index(q), network.index(n)
            for side, index in ((q, index_q), (n, index_n)):
                subject.require(isinstance(index, Tokens), f"index must give Tokens, got {type(index).__name__}")
                subject.require(len(index) == len(side), f"index gives {len(index)} videos for {len(side)}")
            scores, extras = network.similarity_with_extras(index_q, index_n, EXTRAS, self.maps)
            subject.require_matrix(scores, shape, "what similarity_with_extras gives")
            plain = network.similarity(index_q, index_n, self.maps)
            subject.require_matrix(plain, shape, "what similarity gives")
            subject.require_equal(plain, scores, "similarity_with_extras gives other scores than similarity")
            self._check_range(plain)
            subject.require_matrix(extras.get("range_excess"), shape, "the extra range_excess")
            subject.require(float(extras["range_excess"].min()) >= 0, "the extra range_excess has entries below 0")
            subject.require_matrix(extras.get("self"), shape[:1], "the extra self")
            self._check_map(network.similarity_map(index_q, index_n), shape)

    def _check_range(self, scores: Tensor) -> None:
        (low, high), least, most = self.network.range, float(scores.min()), float(scores.max())
        inside = low - 1e-5 <= least and most <= high + 1e-5
        self.subject.require(inside, f"scores from {least:.6g} to {most:.6g} leave the range {low:.6g} to {high:.6g}")

    def _check_map(self, maps: Tensor, shape: tuple[int, int]) -> None:
        got = tuple(maps.shape)
        self.subject.require(
            len(got) == 4 and got[:2] == shape, f"similarity_map must be {[*shape, 'T1', 'T2']}, got {list(got)}"
        )
        self.subject.require(bool(torch.isfinite(maps).all()), "similarity_map holds NaN or infinite entries")

    def _check_empty(self) -> None:
        q, n = self.sides()
        blank = replace(n, mask=n.mask & (torch.arange(len(n)) != 1)[:, None])
        scores = self.score(q, blank)
        self.subject.require(
            bool((scores[:, 1] == float("-inf")).all()),
            f"a video without a real frame must score -inf, got {scores[:, 1].tolist()}",
        )
        others = [place for place in range(len(n)) if place != 1]
        expected = self.score(q, n[torch.tensor(others)])
        self.subject.require_equal(expected, scores[:, others], "a video without a real frame changes other scores")

    def check_gradients(self, reach_all: bool) -> None:
        """Gradients of scores and extras in train mode, in float32 and under bfloat16 autocast."""
        network, (q, n) = self.network.train(), self.sides()
        weights = torch.randn(len(q), len(n), generator=torch.Generator().manual_seed(7))

        def value() -> Tensor:
            torch.manual_seed(self.seed)
            index = network.index(q), network.index(n)
            scores, extras = network.similarity_with_extras(*index, EXTRAS, self.maps)
            self.subject.require_matrix(scores.float(), (len(q), len(n)), "the training score")
            return (scores * weights).sum() + 0.1 * extras["range_excess"].sum() + extras["self"].sum()

        self.subject.require_gradients(network, value, reach_all)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.subject.require_gradients(network, value, reach_all=False)
        network.zero_grad()
        network.eval()

    def check_scores(self) -> None:
        """What must not change a score."""
        q, n = self.sides()
        scores = self.score(q, n)
        self.subject.require_matrix(scores, (len(q), len(n)), "the score")
        self._check_range(scores)
        self._check_repeated(scores)
        self._check_order(scores)
        self._check_masks(scores)
        self._check_alone(scores)
        self._check_empty()
        self._check_pieces(scores)
        self._check_weights(scores)
        self._check_saved(scores)

    def _check_repeated(self, scores: Tensor) -> None:
        torch.manual_seed(self.seed + 1)
        self.subject.require_equal(scores, self.score(*self.sides()), "is not deterministic in eval mode", 0.0)
        with torch.no_grad():
            q, n = (self.network.index(side) for side in self.sides())
            self.network.similarity(q, n)
            again = self.network.similarity(q, n)
        self.subject.require_equal(scores, again, "changes the indexed videos in place", 0.0)

    def _check_order(self, scores: Tensor) -> None:
        generator, (q, n) = torch.Generator().manual_seed(2), self.sides()
        rows, columns = (torch.randperm(size, generator=generator) for size in scores.shape)
        moved = self.score(q[rows], n)[rows.argsort()]
        self.subject.require_equal(scores, moved, "depends on the order of the queries")
        moved = self.score(q, n[columns])[:, columns.argsort()]
        self.subject.require_equal(scores, moved, "depends on the order of the database")

    def _check_masks(self, scores: Tensor) -> None:
        self.subject.require_equal(scores, self.score(*self.sides(3)), "depends on padding (3 frames more)")
        spoilt = self.score(*self.sides(3, spoilt=True))
        self.subject.require_equal(scores, spoilt, "ignores the mask: it looks at vectors that are masked")

    def _check_alone(self, scores: Tensor) -> None:
        (q, n), (rows, columns) = self.sides(), (self.subject.rows, self.subject.columns)
        for i, video in enumerate(self.videos):
            own = Subject(self.subject.name, rows[i : i + 1], columns)
            alone = self.score(Tokens.pack([video]), n)
            own.require_equal(scores[i : i + 1], alone, "depends on which other queries are in the batch")
        for j, video in enumerate(self.database):
            own = Subject(self.subject.name, rows, columns[j : j + 1])
            alone = self.score(q, Tokens.pack([video]))
            own.require_equal(scores[:, j : j + 1], alone, "depends on which other videos are in the database")
        bare = torch.cat([torch.cat([self._pair(i, j) for j in range(len(n))], dim=1) for i in range(len(q))])
        self.subject.require_equal(scores, bare, "depends on padding: a pair alone scores differently")

    def _pair(self, i: int, j: int) -> Tensor:
        return self.score(Tokens.pack([self.videos[i]]), Tokens.pack([self.database[j]]))

    def _check_pieces(self, scores: Tensor) -> None:
        with torch.no_grad():
            q, n = (self.network.index(side) for side in self.sides())
            pieces = torch.cat([self.network.similarity(q, n[i : i + 4]) for i in range(0, len(n), 4)], dim=1)
            pairs = self.network.pair_similarity(q, n[: len(q)])
        self.subject.require_equal(scores, pieces, "depends on the chunks in which the database is scored")
        self.subject.require_matrix(pairs, (len(q),), "what pair_similarity gives")
        expected = scores[:, : len(q)].diagonal()
        self.subject.require_equal(expected, pairs, "pair_similarity differs from the diagonal of similarity")

    def _check_weights(self, scores: Tensor) -> None:
        q, n = self.sides()
        equal = self.score(replace(q, weight=torch.ones_like(q.x[:, :, 0, 0])), n)
        self.subject.require_equal(scores, equal, "Tokens.weight of 1 changes scores")
        halves = torch.linspace(0.2, 1.0, q.mask.shape[1]).expand(q.mask.shape)
        self.subject.require(
            not torch.allclose(scores, self.score(replace(q, weight=halves), n), atol=1e-4),
            "ignores Tokens.weight: frames of weights 0.2 to 1 score as frames of weight 1",
        )

    def _check_saved(self, scores: Tensor) -> None:
        moved, self.network = self.network, self._build(self.seed + 1)
        with named_errors(self.subject, "loading a state dict"):
            self.network.load_state_dict(moved.state_dict(), strict=True)
        self.subject.require_equal(scores, self.score(*self.sides()), "is not restored by its state dict", 1e-6)
        self.network = moved
