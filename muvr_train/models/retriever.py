"""The retrieval model: a similarity network, a text part and a fusion head behind one face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.models.base import EXTRAS, SimilarityNetwork
from muvr_train.models.cut import query_chunks
from muvr_train.models.functional import full_precision
from muvr_train.models.fusion.base import FusionHead, PartScorers, part_present
from muvr_train.models.recompute import SHORTEN, pieces_at_once, run_piece
from muvr_train.models.text import TextPart
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, Tokens

MODES: dict[str, tuple[str, ...]] = {"v": ("video",), "t": ("text",), "tv": ("video", "text")}
"""MUVR's query modes and the parts that each may use."""


class Retriever(nn.Module):
    """Scores queries (video, text or both) against database videos; needs no labels and no Lightning.

    Args:
        network: compares videos with videos.
        head: merges the parts.
        dims: sizes of the feature store; without `text_dim` there is no text part.
        text_pooling: training-time pooling of the text part, see `TextPart`.
        text_temperature: its temperature.

    Attributes:
        query_chunk: queries that training scores at a time, each time again in the backward pass; None = all at once,
            or as many as `network.memory_budget` has room for. The loss is that of the whole batch all the same.
    """

    query_chunk: int | None = None

    def __init__(
        self,
        network: SimilarityNetwork,
        head: FusionHead,
        dims: StoreDims,
        text_pooling: str = "logsumexp",
        text_temperature: float = 0.05,
    ) -> None:
        super().__init__()
        self.network, self.head, self.dims = network, head, dims
        self.register_buffer("anchor", torch.zeros(()), persistent=False)  # even a model without weights has a device
        self.text_part: TextPart | None = None
        if dims.text_dim is not None:
            self.text_part = TextPart(dims.text_dim, dims.text_target_dim, text_pooling, text_temperature)

    @property
    def needs_fit(self) -> bool:
        """True while `fit` has something left to learn."""
        return self.network.needs_fit

    def fit(self, batches: Iterable[Tokens]) -> None:
        """Learn buffers (whitening) from tokens of the training split, once before step 0."""
        self.network.fit(batches)

    def encode_query(self, query: QueryBatch) -> EncodedQuery:
        """Normalise the tokens of queries and index their videos; texts are dropped where the store has none."""
        if self.text_part is None:
            query = replace(query.restrict([part for part in query.present if part != "text"]), text=None)
        video = None if query.video is None else query.video.to(dtype=torch.float32).normalized()
        text = None if query.text is None else query.text.to(dtype=torch.float32).normalized()
        index = None if video is None else self._index(video)
        return EncodedQuery(replace(query, video=video, text=text), index)

    def encode_database(self, video: Tokens, fine: Tokens | None = None) -> EncodedDatabase:
        """Normalise and index database videos; `fine` holds the text part's tokens where the store has two grids."""
        raw = video.to(dtype=torch.float32).normalized()
        own = raw if fine is None else fine.to(dtype=torch.float32).normalized()
        return EncodedDatabase(raw, self._index(raw), own)

    def encode_batch(
        self, queries: QueryBatch, video: Tokens, fine: Tokens | None = None
    ) -> tuple[EncodedQuery, EncodedDatabase]:
        """Both sides of a training batch; where the videos are the same on both, they are indexed once.

        A network may then save half of the work of comparing them.
        """
        encoded = self.encode_query(queries)
        raw = encoded.query.video
        if queries.video is None or raw is None or encoded.index is None or queries.video.x is not video.x:
            return encoded, self.encode_database(video, fine)
        own = raw if fine is None else fine.to(dtype=torch.float32).normalized()
        return encoded, EncodedDatabase(raw, encoded.index, own)

    def score(self, q: EncodedQuery, n: EncodedDatabase) -> Tensor:
        """Fused scores float32 [Q, N] from all parts that each query has, higher is more similar.

        In eval mode all scoring is float32, also under autocast.

        Raises:
            DataError: if a query has neither a video nor a text.
        """
        _check_votes(q.query, "score")
        prepared, parts, _ = self._parts(q, n)
        return self._combine(parts, prepared.query)

    def score_parts(self, q: EncodedQuery, n: EncodedDatabase) -> dict[str, Tensor]:
        """Part scores float32 [Q, N] by name; rows of queries that lack a part hold 0."""
        return self._parts(q, n)[1]

    def score_modes(self, q: EncodedQuery, n: EncodedDatabase, modes: Sequence[str]) -> dict[str, Tensor]:
        """Fused scores float32 [Q, N] of every mode in `modes` (v, t, tv).

        In a mode each query votes with those of the mode's parts that it has. Part scores are computed once for all
        modes, unless the head rewrites queries or compares them itself.

        Raises:
            ConfigError: for an unknown mode.
            DataError: if a query has none of a mode's parts (the message names the queries).
        """
        restricted = {}
        for mode in modes:
            if mode not in MODES:
                raise ConfigError(f"unknown mode {mode!r}: must be one of {', '.join(MODES)}")
            restricted[mode] = restrict(q, MODES[mode])
            _check_votes(restricted[mode].query, f"mode {mode}")
        own = type(self.head)
        if own.prepare is not FusionHead.prepare or own.compare is not FusionHead.compare:
            return {mode: self.score(query, n) for mode, query in restricted.items()}
        needed = restrict(q, sorted({part for mode in modes for part in MODES[mode]}))
        parts = self._parts(needed, n)[1]
        return {mode: self._combine(parts, query.query) for mode, query in restricted.items()}

    def training_scores(
        self, q: EncodedQuery, n: EncodedDatabase, wanted: frozenset[str] = frozenset()
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Scores for losses: "fused" and each part by name, float32 [Q, N], and extras.

        Extras (the first dimension is always Q): those of `range_excess` [Q, N] and `self` [Q] that are wanted, with 0
        in rows of queries without a video; and `present/<part>` bool [Q], by which a composite loss leaves out the
        rows of queries that lack the part.
        """
        _check_votes(q.query, "training")
        rows = self._rows_at_once(q, n)
        if rows >= len(q.query):
            return self._training_scores(q, n, wanted)
        parts = [run_piece(self._training_scores, *chunk, wanted) for chunk in query_chunks(q, n, rows)]
        scores, extras = ([part[kind] for part in parts] for kind in (0, 1))
        return _join(scores), _join(extras)

    def _training_scores(
        self, q: EncodedQuery, n: EncodedDatabase, wanted: frozenset[str]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        prepared, parts, extras = self._parts(q, n, wanted & EXTRAS)
        scores = {"fused": self._combine(parts, prepared.query), **parts}
        flags = {f"present/{part}": part_present(prepared.query, part) for part in parts}
        return scores, {**extras, **flags}

    def _rows_at_once(self, q: EncodedQuery, n: EncodedDatabase) -> int:
        """How many queries training scores at a time."""
        count, network = max(1, len(q.query)), self.network
        if self.query_chunk is not None and self.query_chunk < count and not network.divisible:
            raise ConfigError(
                f"query_chunk={self.query_chunk} would split a batch of {count} queries, which changes the scores of "
                f"{type(network).__name__} (batch norm in train mode?)"
            )
        if not network.divisible or self.query_chunk is not None:
            return self.query_chunk or count
        each, fixed = (0, 0) if q.index is None else network.training_bytes(q.index, n.index)
        if self.text_part is not None and q.query.text is not None:
            each += 16 * q.query.text.x.shape[1] * n.fine.x[0, :, :, 0].numel()
        what = f"scoring one query against {len(n)} videos"
        return pieces_at_once(count, network.memory_budget, fixed, each * len(n), what, advice=SHORTEN)

    def _parts(
        self, q: EncodedQuery, n: EncodedDatabase, wanted: frozenset[str] = frozenset()
    ) -> tuple[EncodedQuery, dict[str, Tensor], dict[str, Tensor]]:
        scorers = PartScorers(self.network, self.text_part, wanted)
        with self._precision(n.raw.x):
            query = self._prepared(q)
            parts = self.head.compare(query, n, scorers)
        zeros = {"range_excess": (len(q.query), len(n)), "self": (len(q.query),)}
        has_video = part_present(query.query, "video")
        extras = {name: scorers.extras.get(name, n.raw.x.new_zeros(zeros[name])) for name in wanted}
        return (
            query,
            {name: _blank(value.float(), part_present(query.query, name)) for name, value in parts.items()},
            {name: _blank(value, has_video) for name, value in extras.items()},
        )

    def _combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        with full_precision(next(iter(parts.values()))):
            return self.head.combine(parts, query).float()

    def _index(self, video: Tokens) -> Tokens:
        with self._precision(video.x):
            return self.network.index(video)

    def _precision(self, x: Tensor) -> AbstractContextManager[object]:
        """In eval mode everything is float32 even under autocast, so that training and evaluation agree on scores."""
        return nullcontext() if self.training else full_precision(x)

    def _prepared(self, q: EncodedQuery) -> EncodedQuery:
        query = self.head.prepare(q.query)
        if query.video is q.query.video:
            return EncodedQuery(query, q.index)
        return EncodedQuery(query, None if query.video is None else self.network.index(query.video))


def restrict(q: EncodedQuery, parts: Sequence[str]) -> EncodedQuery:
    """Hide every part that is not named, its tokens included, so that no head can look at it."""
    query = q.query.restrict(parts)
    keep_video, keep_text = "video" in parts, "text" in parts
    query = replace(query, video=query.video if keep_video else None, text=query.text if keep_text else None)
    return EncodedQuery(query, q.index if keep_video else None)


def _join(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Rows under each other; where only some have a name (a part that no other query has), 0 for the others."""
    counts = [len(next(iter(part.values()))) for part in parts]
    joined = {}
    for name, like in {name: value for part in parts for name, value in part.items()}.items():
        rows = zip(parts, counts, strict=True)
        joined[name] = torch.cat(
            [part[name] if name in part else like.new_zeros((count, *like.shape[1:])) for part, count in rows]
        )
    return joined


def _blank(rows: Tensor, present: Tensor) -> Tensor:
    return torch.where(present.view(-1, *(1,) * (rows.ndim - 1)), rows, torch.zeros_like(rows))


def _check_votes(query: QueryBatch, what: str) -> None:
    """Every query needs a part that it has, whose tokens are there."""
    tokens = {"video": query.video is not None, "text": query.text is not None}
    votes = [part_present(query, part).cpu() for part in query.present if tokens.get(part, True)]
    has_vote = torch.stack(votes).any(dim=0) if votes else torch.zeros(len(query), dtype=torch.bool)
    if not bool(has_vote.all()):
        silent = [identifier for identifier, flag in zip(query.ids, has_vote.tolist(), strict=True) if not flag]
        raise DataError(
            f"{what}: {len(silent)} queries have none of the parts that are asked for ({shorten(silent)}); "
            "leave these queries out, add the missing features, or choose another mode"
        )
