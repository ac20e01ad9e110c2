"""The retrieval model: a similarity network, a text part and a fusion head behind one face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.models.asking import index_of
from muvr_train.models.base import EXTRAS, SimilarityNetwork
from muvr_train.models.cut import query_chunks
from muvr_train.models.functional import full_precision
from muvr_train.models.fusion.base import FusionHead, PartScorers, part_present
from muvr_train.models.fusion.hooks import check_parts, check_query, check_scores, hook
from muvr_train.models.queries import MODES, Asked, blank, check_votes, focused, prepared, restrict
from muvr_train.models.recompute import run_piece
from muvr_train.models.rows import join_rows, rows_at_once
from muvr_train.models.text import TextPart
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, TextTokens, Tokens


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

    def encode_query(self, query: QueryBatch, plain: bool = True) -> EncodedQuery:
        """Normalise the tokens of queries and index their videos; texts and tags are dropped where the store has none.

        Args:
            query: any queries.
            plain: also keep the whole videos of queries with a region, for modes that do not ask for it.
        """
        if self.text_part is None:
            known = [part for part in query.present if part not in ("text", "tags")]
            query = replace(query.restrict(known), text=None, tags=None)
        query = prepared(query)
        whole, query = query.video, focused(query)
        index = None if query.video is None else self._index(query.video)
        if whole is query.video or whole is None or not plain:
            return EncodedQuery(query, index)
        return EncodedQuery(query, index, (whole, self._index(whole)))

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
        encoded = self.encode_query(queries, plain=False)
        raw = encoded.query.video
        same = queries.video is not None and queries.video.x is video.x and queries.region is None
        if not same or raw is None or encoded.index is None:
            return encoded, self.encode_database(video, fine)
        own = raw if fine is None else fine.to(dtype=torch.float32).normalized()
        return encoded, EncodedDatabase(raw, encoded.index, own)

    def score(self, q: EncodedQuery, n: EncodedDatabase) -> Tensor:
        """Fused scores float32 [Q, N] from all parts that each query has, higher is more similar.

        In eval mode all scoring is float32, also under autocast.

        Raises:
            DataError: if a query has neither a video nor a text.
        """
        check_votes(q.query, "score")
        asked = self._prepared(q)
        return self._combine(self._parts(asked, n)[0], asked.query)

    def score_parts(self, q: EncodedQuery, n: EncodedDatabase) -> dict[str, Tensor]:
        """Part scores float32 [Q, N] by name; rows of queries that lack a part hold 0."""
        return self._parts(self._prepared(q), n)[0]

    def score_modes(self, q: EncodedQuery, n: EncodedDatabase, modes: Sequence[str]) -> dict[str, Tensor]:
        """Fused scores float32 [Q, N] of every mode in `modes` (see `MODES`).

        In a mode each query votes with those of the mode's parts that it has. Part scores are computed once for all
        modes (once with and once without regions), unless the head rewrites queries or compares them itself.

        Raises:
            ConfigError: for an unknown mode.
            DataError: if a query has none of a mode's parts (the message names the queries).
        """
        scores = self.score_asked(self.ask(q, modes), n)
        return {mode: scores[mode] for mode in modes}

    def ask(self, q: EncodedQuery, modes: Sequence[str]) -> list[Asked]:
        """What queries ask under several modes, ready to be compared with any number of databases by `score_asked`.

        The head prepares them here. Raises as `score_modes` does.
        """
        restricted = {}
        for mode in modes:
            if mode not in MODES:
                raise ConfigError(f"unknown mode {mode!r}: must be one of {', '.join(MODES)}")
            restricted[mode] = restrict(q, MODES[mode])
            check_votes(restricted[mode].query, f"mode {mode}")
        own = type(self.head)
        if own.prepare is not FusionHead.prepare or own.compare is not FusionHead.compare:
            prepared = {mode: self._prepared(query) for mode, query in restricted.items()}
            return [Asked(query, {mode: query.query}) for mode, query in prepared.items()]
        asked = []
        for inside in (False, True) if q.plain is not None else (None,):
            alike = [mode for mode in restricted if inside is None or inside == ("region" in MODES[mode])]
            if alike:
                needed = restrict(q, sorted({part for mode in alike for part in MODES[mode]}))
                asked.append(Asked(self._prepared(needed), {mode: restricted[mode].query for mode in alike}))
        return asked

    def score_asked(self, asked: Sequence[Asked], n: EncodedDatabase) -> dict[str, Tensor]:
        """Fused scores float32 [Q, N] by mode of what `ask` gave; texts that modes share are scored once."""
        scores: dict[str, Tensor] = {}
        texts: dict[int, tuple[TextTokens, Tensor]] = {}
        for one in asked:
            parts, _ = self._parts(one.query, n, texts=texts)
            scores |= {mode: self._combine(parts, query) for mode, query in one.modes.items()}
        return scores

    def training_scores(
        self, q: EncodedQuery, n: EncodedDatabase, wanted: frozenset[str] = frozenset()
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Scores for losses: "fused" and each part by name, float32 [Q, N], and extras.

        Extras (the first dimension is always Q): those of `range_excess` [Q, N] and `self` [Q] that are wanted, with 0
        in rows of queries without a video; and `present/<part>` bool [Q], by which a composite loss leaves out the
        rows of queries that lack the part.
        """
        check_votes(q.query, "training")
        rows = rows_at_once(self.network, self.head, self.query_chunk, q, n)
        if rows >= len(q.query):
            return self._training_scores(q, n, wanted)
        parts = [run_piece(self._training_scores, *chunk, wanted) for chunk in query_chunks(q, n, rows)]
        scores, extras = ([part[kind] for part in parts] for kind in (0, 1))
        return join_rows(scores), join_rows(extras)

    def _training_scores(
        self, q: EncodedQuery, n: EncodedDatabase, wanted: frozenset[str]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        asked = self._prepared(q)
        parts, extras = self._parts(asked, n, wanted & EXTRAS)
        scores = {"fused": self._combine(parts, asked.query), **parts}
        flags = {f"present/{part}": part_present(asked.query, part) for part in parts}
        return scores, {**extras, **flags}

    def _parts(
        self,
        asked: EncodedQuery,
        n: EncodedDatabase,
        wanted: frozenset[str] = frozenset(),
        texts: dict[int, tuple[TextTokens, Tensor]] | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Part scores and extras of queries that the head has prepared; `texts`: see `PartScorers`."""
        query, scorers = asked.query, PartScorers(self.network, self.text_part, wanted, texts)
        with self._precision(n.raw.x):
            with hook(self.head, "compare"):
                parts = self.head.compare(asked, n, scorers)
                check_parts(self.head, parts, (len(query), len(n)))
            if bool(part_present(query, "tags").any()) and query.tags is not None:
                parts = {**parts, "tags": self._tag_scores(query, n)}
        zeros = {"range_excess": (len(query), len(n)), "self": (len(query),)}
        has_video = part_present(query, "video")
        extras = {name: scorers.extras.get(name, n.raw.x.new_zeros(zeros[name])) for name in wanted}
        return (
            {name: blank(value.float(), part_present(query, name)) for name, value in parts.items()},
            {name: blank(value, has_video) for name, value in extras.items()},
        )

    def _combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        """Fused scores [Q, N]; no arithmetic of the head meets -inf, whose gradient would be NaN."""
        own = {name: value for name, value in parts.items() if name != "tags"}
        impossible = [torch.isneginf(value) & part_present(query, name)[:, None] for name, value in own.items()]
        own = {name: value.masked_fill(torch.isneginf(value), 0.0) for name, value in own.items()}
        with full_precision(next(iter(parts.values()))):
            with hook(self.head, "combine"):
                scores = self.head.combine(own, query)
                check_scores(self.head, "combine", scores, next(iter(own.values())).shape)
            scores = scores.float()
            if "tags" in parts:
                scores = scores + blank(self.head.tag_weight * parts["tags"], part_present(query, "tags"))
            return scores.masked_fill(torch.stack(impossible).any(dim=0), float("-inf"))

    def _tag_scores(self, query: QueryBatch, n: EncodedDatabase) -> Tensor:
        """What the head makes of the conditions of queries: float32 [Q, N], 0 for videos without a real frame."""
        tags, score_text = query.tags, self.text_part
        if tags is None or score_text is None:
            raise ConfigError("tags need a text part, but the store has no texts")
        real = tags.mask & part_present(query, "tags")[:, None]
        cosines = n.fine.x.new_zeros((*real.shape, len(n)))
        with full_precision(cosines):
            found = score_text(TextTokens(tags.x[real][:, None], real[real][:, None]), n.fine)
            cosines[real] = found.masked_fill(~n.fine.mask.any(dim=1), 0.0)
            with hook(self.head, "tag_scores"):
                scores = self.head.tag_scores(cosines, tags)
                check_scores(self.head, "tag_scores", scores, (len(query), len(n)))
            return scores

    def _index(self, video: Tokens) -> Tokens:
        with self._precision(video.x):
            return index_of(self.network, video)

    def _precision(self, x: Tensor) -> AbstractContextManager[object]:
        """In eval mode everything is float32 even under autocast, so that training and evaluation agree on scores."""
        return nullcontext() if self.training else full_precision(x)

    def _prepared(self, q: EncodedQuery) -> EncodedQuery:
        with self._precision(self.get_buffer("anchor") if q.index is None else q.index.x):
            with hook(self.head, "prepare"):
                query = self.head.prepare(q.query)
                check_query(self.head, query, q.query)
            if query.video is q.query.video:
                return EncodedQuery(query, q.index)
            return EncodedQuery(query, None if query.video is None else index_of(self.network, query.video))
