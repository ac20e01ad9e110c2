"""One similarity network on one size of features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, training_mode
from muvr_train.conformance.world import spoil_padding
from muvr_train.models.base import EXTRAS, SimilarityNetwork
from muvr_train.types import Tokens

NetworkFactory = Callable[..., SimilarityNetwork]
LENGTHS = (5, 1, 3, 9, 2), (4, 9, 1, 6, 2, 7)


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
        self.network = self.build(seed)
        self.maps: Tensor | None = None
        count = int(getattr(self.network, "extra_maps", 0))
        if count:
            shape = (len(LENGTHS[0]), len(LENGTHS[1]), count, max(LENGTHS[0]), max(LENGTHS[1]))
            self.maps = torch.randn(shape, generator=generator)

    def build(self, seed: int) -> SimilarityNetwork:
        """The network, fitted, in eval mode; weights of this seed where it comes from a factory."""
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
        """Scores [Q, N] in the mode that the network is in."""
        with torch.no_grad():
            return self.network.similarity(self.network.index(q), self.network.index(n), maps)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Train mode without dropout."""
        plain = self.subject
        self.subject = Subject(f"{plain.name} in train mode", plain.rows, plain.columns)
        with training_mode(self.network):
            yield
        self.subject = plain

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
            self.check_range(plain)
            subject.require_matrix(extras.get("range_excess"), shape, "the extra range_excess")
            subject.require(float(extras["range_excess"].min()) >= 0, "the extra range_excess has entries below 0")
            subject.require_matrix(extras.get("self"), shape[:1], "the extra self")
            self._check_map(network.similarity_map(index_q, index_n), shape)

    def check_range(self, scores: Tensor) -> None:
        """No score leaves the range that the network states."""
        (low, high), least, most = self.network.range, float(scores.min()), float(scores.max())
        inside = low - 1e-5 <= least and most <= high + 1e-5
        self.subject.require(inside, f"scores from {least:.6g} to {most:.6g} leave the range {low:.6g} to {high:.6g}")

    def _check_map(self, maps: Tensor, shape: tuple[int, int]) -> None:
        got = tuple(maps.shape)
        self.subject.require(
            len(got) == 4 and got[:2] == shape, f"similarity_map must be {[*shape, 'T1', 'T2']}, got {list(got)}"
        )
        self.subject.require(bool(torch.isfinite(maps).all()), "similarity_map holds NaN or infinite entries")
        empty = (maps == 0).flatten(2).all(dim=2).nonzero().tolist()
        self.subject.require(not empty, f"similarity_map is 0 everywhere for pairs {empty[:3]}")

    def check_direction(self) -> None:
        """Higher is more similar: a video with itself scores above other videos, where nothing is learned."""
        if any(parameter.requires_grad for parameter in self.network.parameters()):
            return
        both = Tokens.pack(self.videos)
        scores = self.score(both, both)
        own, all_pairs = float(scores.diagonal().mean()), float(scores.mean())
        self.subject.require(
            own > all_pairs,
            f"higher must be more similar, but videos score {own:.4g} with themselves and {all_pairs:.4g} with all",
        )
