"""One fusion head on one size of features, with what its checks need."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, training_mode
from muvr_train.conformance.world import Database, blanked, make_world, pack_queries
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead, PartScorers
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, Tokens

HeadFactory = Callable[..., FusionHead]
NetworkFactory = Callable[..., SimilarityNetwork]


class HeadTrial:
    """One head on one size of features.

    Args:
        head: see `check_fusion_head`.
        network: see there.
        dims: sizes of the feature store.
        seed: of weights and vectors.
    """

    def __init__(
        self, head: FusionHead | HeadFactory, network: NetworkFactory | None, dims: StoreDims, seed: int
    ) -> None:
        self.head, self.network, self.dims, self.seed = head, network, dims, seed
        self.world = make_world(dims, seed)
        names = [f"{place} ({len(video)} frames)" for place, video in enumerate(self.world.videos)]
        size = f"{dims.regions} x {dims.dim} features and " + (
            f"texts of {dims.text_dim}" if dims.text_dim else "no texts"
        )
        self.subject = Subject(f"{name_of(head)} on {size}", [item.name for item in self.world.items], names)
        self.model = self.build(seed)

    def build(self, seed: int) -> Retriever:
        """The head with a network in a retriever, in eval mode; weights of this seed where the head is a factory."""
        torch.manual_seed(seed)
        head = copy.deepcopy(self.head) if isinstance(self.head, FusionHead) else self.head(dims=self.dims)
        self.subject.require(isinstance(head, FusionHead), f"it is a {type(head).__name__}, no FusionHead")
        maps = {"extra_maps": head.extra_maps} if head.extra_maps else {}
        make: NetworkFactory = self.network or (S2VS if maps else Chamfer)
        return Retriever(make(dim=self.dims.dim, regions=self.dims.regions, **maps), head, self.dims).eval()

    def encoded(
        self, query: QueryBatch | None = None, database: Database | None = None
    ) -> tuple[EncodedQuery, EncodedDatabase]:
        """Encode all queries and videos of the world, or others."""
        query = pack_queries(self.world.items) if query is None else query
        videos, fine = self.world.database() if database is None else database
        return self.model.encode_query(query), self.model.encode_database(videos, fine)

    def blank_database(self, place: int, chosen: Sequence[int] | None = None) -> Database:
        """Videos of the world, one of which has lost its real frames."""
        videos, fine = self.world.database(chosen)
        return blanked(videos, place), None if fine is None else blanked(fine, place)

    def score(self, query: QueryBatch | None = None, database: Database | None = None) -> Tensor:
        """Scores [Q, N]: those of evaluation, or in train mode those that losses get."""
        with torch.no_grad():
            encoded = self.encoded(query, database)
            return (
                self.model.training_scores(*encoded)[0]["fused"] if self.model.training else self.model.score(*encoded)
            )

    @contextmanager
    def training(self) -> Iterator[None]:
        """Train mode without dropout; a network whose scores then depend on the batch (batch norm) stays as it is."""
        plain = self.subject
        self.subject = Subject(f"{plain.name} in train mode", plain.rows, plain.columns)
        with training_mode(self.model):
            if not self.model.network.divisible:
                self.model.network.eval()
            yield
        self.subject = plain

    def check_shapes(self) -> None:
        """What each hook gives, and the score."""
        subject, head, (q, n) = self.subject, self.model.head, self.encoded()
        shape = (len(q.query), len(n))
        with torch.no_grad():
            prepared = head.prepare(q.query)
            subject.require(isinstance(prepared, QueryBatch), f"prepare must give a QueryBatch, got {type(prepared)}")
            subject.require(prepared.ids == q.query.ids, "prepare must keep the ids of the queries")
            size = self.dims.dim if prepared.video is None else prepared.video.x.shape[-1]
            subject.require(size == self.dims.dim, f"prepare gives video vectors of size {size}, not {self.dims.dim}")
            parts = head.compare(q, n, PartScorers(self.model.network, self.model.text_part))
            subject.require(isinstance(parts, dict) and len(parts) > 0, "compare must give a dict of part scores")
            for name, value in parts.items():
                got = tuple(value.shape)
                subject.require(got == shape, f"part {name!r} of compare must be {list(shape)}, got {list(got)}")
            own = {name: value for name, value in self.model.score_parts(q, n).items() if name != "tags"}
            subject.require_matrix(head.combine(own, q.query), shape, "what combine gives")
        subject.require_matrix(self.score(), shape, "the score")

    def check_mean(self) -> None:
        """The untrained head is the mean of the parts, on the same network."""
        expected_model = copy.deepcopy(self.model)
        expected_model.head = MeanFusion(self.dims)
        with torch.no_grad():
            expected = expected_model.score(*self.encoded())
        self.subject.require_equal(expected, self.score(), "does not start as the mean", 1e-6)

    def check_direction(self) -> None:
        """Higher is more similar: copies of the query videos score above other videos, on the average over queries."""
        if self.network is not None or self.model.head.extra_maps:
            return  # an untrained network may order videos by chance
        items = [item for item in self.world.items if item.video is not None and item.region is None]
        videos = [item.video for item in items if item.video is not None]
        fine = None if self.world.fine is None else Tokens.pack([self.world.fine[0]] * len(videos))
        scores = self.score(pack_queries(items), (Tokens.pack(videos), fine))
        own, all_pairs = float(scores.diagonal().mean()), float(scores.mean())
        self.subject.require(
            own > all_pairs,
            f"higher must be more similar, but as built copies of the query videos score {own:.4g} on the average and "
            f"all videos {all_pairs:.4g} (direction=False if the sign is to be learned)",
        )
