"""The check of fusion heads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, name_of, named_errors, one_thread, perturb
from muvr_train.conformance.world import (
    SPOILT,
    Database,
    make_world,
    pack_queries,
    padded_queries,
    spoil_absent,
    spoil_padded_queries,
)
from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead, PartScorers
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims

HeadFactory = Callable[..., FusionHead]
NetworkFactory = Callable[..., SimilarityNetwork]
DIMS = (
    StoreDims(regions=1, dim=16, text_dim=16),
    StoreDims(regions=9, dim=16, text_dim=8),
    StoreDims(regions=1, dim=8, text_dim=24),
    StoreDims(regions=2, dim=16, text_dim=8, fine_regions=4, fine_dim=24),
    StoreDims(regions=1, dim=16),
)
"""One and nine regions; texts as large as frames, smaller, larger, with a grid of frames of their own, and none."""


@one_thread()
def check_fusion_head(
    head: FusionHead | HeadFactory,
    *,
    dims: Sequence[StoreDims] | None = None,
    network: NetworkFactory | None = None,
    starts_as_mean: bool = False,
    seed: int = 0,
) -> None:
    """Check that a fusion head keeps its promises, with random queries of all combinations of parts.

    Scores must be float32 [Q, N] and finite; equal to 1e-5 whatever else is in the batch, in any order, padding and
    pieces; independent of masked vectors and of the values of absent parts, NaN included; the same each time
    in eval mode; restored by a state dict. Gradients must be finite, and from moved parameters on reach each of them
    (where the store has texts).

    Args:
        head: a class or function that is called with `dims=StoreDims(...)`, or one head: then only its sizes are tried.
        dims: sizes of the feature stores to try; by default five, the last without texts, which a head may refuse with
            a ConfigError.
        network: called with `dim=`, `regions=` and, where the head has them, `extra_maps=`; by default Chamfer, or
            S2VS for heads with extra maps.
        starts_as_mean: also require that the head as built scores as the plain mean does (to 1e-6).
        seed: of weights and vectors.

    Raises:
        AssertionError: a promise is broken; the message says which, for which query and video, and shows the numbers.
    """
    if isinstance(head, FusionHead):
        dims = [head.dims]
    for size in DIMS if dims is None else dims:
        try:
            trial = HeadTrial(head, network, size, seed)
        except ConfigError:
            if size.text_dim is not None:
                raise
            continue
        with named_errors(trial.subject, "scoring queries"):
            trial.check_shapes()
            if starts_as_mean:
                trial.check_mean()
        with named_errors(trial.subject, "training"):
            trial.check_gradients(reach_all=False)
        perturb(trial.model, seed)
        with named_errors(trial.subject, "scoring queries with other weights"):
            trial.check_scores()
        with named_errors(trial.subject, "training with other weights"):
            trial.check_gradients(reach_all=size.text_dim is not None)


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
        self.model = self._build(seed)

    def _build(self, seed: int) -> Retriever:
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

    def score(self, query: QueryBatch | None = None, database: Database | None = None) -> Tensor:
        """Scores [Q, N] in eval mode."""
        with torch.no_grad():
            return self.model.score(*self.encoded(query, database))

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

    def check_gradients(self, reach_all: bool) -> None:
        """Gradients of training scores, in float32 and under bfloat16 autocast."""
        model, size = self.model.train(), (len(self.world.items), len(self.world.videos))
        weights = torch.randn(size, generator=torch.Generator().manual_seed(7))

        def value() -> Tensor:
            torch.manual_seed(self.seed)
            scores = model.training_scores(*self.encoded())[0]["fused"]
            self.subject.require_matrix(scores, size, "the training score")
            return (scores * weights).sum()

        self.subject.require_gradients(model.head, value, reach_all)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.subject.require_gradients(model.head, value, reach_all=False)
        model.zero_grad()
        model.eval()

    def check_scores(self) -> None:
        """What must not change a score."""
        scores = self.score()
        self.subject.require_matrix(scores, tuple(scores.shape), "the score")
        self._check_repeated(scores)
        self._check_order(scores)
        self._check_masks(scores)
        self._check_missing(scores)
        self._check_alone(scores)
        self._check_pieces(scores)
        self._check_saved(scores)

    def _check_repeated(self, scores: Tensor) -> None:
        torch.manual_seed(self.seed + 1)
        self.subject.require_equal(scores, self.score(), "is not deterministic in eval mode", 0.0)
        q, n = self.encoded()
        with torch.no_grad():
            first, second = self.model.score(q, n), self.model.score(q, n)
        self.subject.require_equal(first, second, "changes the encoded query or database in place", 0.0)

    def _check_order(self, scores: Tensor) -> None:
        generator = torch.Generator().manual_seed(2)
        rows, columns = (torch.randperm(size, generator=generator) for size in scores.shape)
        moved = self.score(pack_queries([self.world.items[i] for i in rows]))
        self.subject.require_equal(scores, moved[rows.argsort()], "depends on the order of the queries")
        moved = self.score(database=self.world.database(columns.tolist()))
        self.subject.require_equal(scores, moved[:, columns.argsort()], "depends on the order of the database")

    def _check_masks(self, scores: Tensor) -> None:
        plain = pack_queries(self.world.items)
        wide = padded_queries(plain, 3)
        padded = self.score(wide, self.world.database(padding=2))
        self.subject.require_equal(scores, padded, "depends on padding (3 frames, words and tags more)")
        spoilt = self.score(spoil_padded_queries(wide), self.world.database(padding=2, spoilt=True))
        self.subject.require_equal(scores, spoilt, "ignores a mask: it looks at vectors that are masked")

    def _check_missing(self, scores: Tensor) -> None:
        plain = pack_queries(self.world.items)
        for size in SPOILT:
            spoilt, what = self.score(spoil_absent(plain, size)), "NaN" if size != size else "vectors"
            self.subject.require_equal(scores, spoilt, f"leaks a missing part: {what} in its place change the score")

    def _check_alone(self, scores: Tensor) -> None:
        rows, columns, name = self.subject.rows, self.subject.columns, self.subject.name
        lacking = [[part for part in ("video", "text") if getattr(item, part) is None] for item in self.world.items]
        for i in sorted(range(len(rows)), key=lambda place: len(lacking[place])):
            alone = self.score(pack_queries([self.world.items[i]]))
            problem = "depends on which other queries are in the batch"
            if lacking[i] and self.dims.text_dim:
                problem = f"a missing {lacking[i][0]} has a vote where other queries have one"
            Subject(name, rows[i : i + 1], columns).require_equal(scores[i : i + 1], alone, problem)
        for j in range(len(columns)):
            alone = self.score(database=self.world.database([j]))
            own = Subject(name, rows, columns[j : j + 1])
            own.require_equal(scores[:, j : j + 1], alone, "depends on which other videos are in the database")
        self._check_bare(scores)

    def _check_bare(self, scores: Tensor) -> None:
        """One short query against one short video, without any padding."""
        for i, item in enumerate(self.world.items):
            for j, video in enumerate(self.world.videos):
                if len(video) <= 2 and (item.video is None or len(item.video) <= 2):
                    bare = self.score(pack_queries([item]), self.world.database([j]))
                    own = Subject(self.subject.name, self.subject.rows[i : i + 1], self.subject.columns[j : j + 1])
                    problem = "depends on padding: a pair alone scores differently"
                    own.require_equal(scores[i : i + 1, j : j + 1], bare, problem)

    def _check_pieces(self, scores: Tensor) -> None:
        q, n = self.encoded()
        with torch.no_grad():
            pieces = torch.cat([self.model.score(q, n[i : i + 4]) for i in range(0, len(n), 4)], dim=1)
            self.subject.require_equal(scores, pieces, "depends on the chunks in which the database is scored")
            whole = self.model.training_scores(q, n)[0]["fused"]
            self.model.query_chunk = 3
            pieces = self.model.training_scores(q, n)[0]["fused"]
            self.model.query_chunk = None
        self.subject.require_equal(whole, pieces, "depends on the chunks in which training scores queries")

    def _check_saved(self, scores: Tensor) -> None:
        moved, self.model = self.model, self._build(self.seed + 1)
        with named_errors(self.subject, "loading a state dict"):
            self.model.load_state_dict(moved.state_dict(), strict=True)
        self.subject.require_equal(scores, self.score(), "is not restored by its state dict", 1e-6)
        self.model = moved
