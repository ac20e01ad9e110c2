"""Early fusion by weights: frames that the text is about count more."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import MAP_BYTES, PartScorers
from muvr_train.models.fusion.text_head import TextHead, aligned, frame_cosines, own_cosines
from muvr_train.models.s2vs_index import with_weight
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims

SIDES = ("query", "target", "both")
WEIGHTED_COPIES = 3
"""How often the database's vectors exist while a query's weights are on them: weighted, in order, as a gradient."""


class QueryScoring(TextHead):
    """Weights of frames softmax_t(sharpness * cos(W t, x_t) / temperature) times the number of frames.

    The cosine of a frame is the largest one over words and regions. The weights have mean 1 and become `Tokens.weight`;
    `sharpness` is learned and starts at 0, where all are 1 and the head equals the mean. The parts are then fused as by
    `WeightedFusion`. Source: CLIP-Hitchhiker (arXiv 2205.08508), which weighs the target's frames.

    Args:
        dims: sizes of the feature store.
        side: whose frames are weighted: the query's; the target's, for each query anew, so that the network compares
            one query at a time; or both.
        temperature: of the softmax where `sharpness` is 1.

    Raises:
        ConfigError: a store without texts, an unknown side, or a temperature that is not positive.
    """

    def __init__(self, dims: StoreDims, side: str = "query", temperature: float = 0.1) -> None:
        super().__init__(dims)
        if side not in SIDES:
            raise ConfigError(f"fusion.side={side!r}: must be one of {', '.join(SIDES)}")
        if not temperature > 0:
            raise ConfigError(f"fusion.temperature={temperature}: must be > 0")
        self.side, self.temperature, self.one_by_one = side, temperature, side != "query"
        self.sharpness = nn.Parameter(torch.zeros(()))

    def prepare(self, query: QueryBatch) -> QueryBatch:
        """Weigh the query's frames [Q, T]; queries without text keep all weights."""
        pair = self.pair(query) if self.side != "target" else None
        if pair is None or query.video is None:
            return query
        weight = self._softmax(own_cosines(pair), pair.real)
        return replace(query, video=with_weight(query.video, torch.where(pair.both[:, None], weight, 1.0)))

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: PartScorers) -> dict[str, Tensor]:
        """Part scores [Q, N], those of videos with the target's frames weighted where that is asked for.

        Raises:
            ConfigError: the network keeps no frames whose weights could differ.
        """
        pair = self.pair(query.query) if self.side != "query" else None
        if pair is None:
            return super().compare(query, database, scorers)
        raw = aligned(database.raw, database.index)
        weight = self._softmax(frame_cosines(pair, raw), raw.mask)
        scores = self._one_by_one(query, database, torch.where(pair.both[:, None, None], weight, 1.0), scorers)
        text = scorers.text(query, database)
        return {"video": scores} if text is None else {"video": scores, "text": text}

    def training_bytes(self, q: EncodedQuery, n: EncodedDatabase) -> int:
        """Every query weighs the database's frames for itself; see the base class."""
        asked = self.one_by_one and q.query.video is not None and q.query.text is not None
        return WEIGHTED_COPIES * n.index.x.nbytes if asked else 0

    def scoring_bytes(self, queries: int, frames: int) -> int:
        """Weights of all queries, and the weighted frames of one; see the base class."""
        vectors = 4 * WEIGHTED_COPIES * self.dims.regions * self.dims.dim
        return MAP_BYTES * queries + vectors if self.one_by_one and frames else 0

    @staticmethod
    def _one_by_one(query: EncodedQuery, database: EncodedDatabase, weight: Tensor, scorers: PartScorers) -> Tensor:
        """Video scores [Q, N] under target weights [Q, N, T] (a network takes [N, T])."""
        rows, extras = [], []
        for number, own in enumerate(weight):
            place = slice(number, number + 1)
            index = None if query.index is None else query.index[place]
            weighed = replace(database, index=with_weight(database.index, own))
            row = scorers.video(EncodedQuery(query.query[place], index), weighed)
            rows.append(weight.new_zeros((1, len(database))) if row is None else row)
            extras.append({} if row is None else dict(scorers.extras))
        for name, like in list(scorers.extras.items()):
            scorers.extras[name] = torch.cat([own.get(name, torch.zeros_like(like)) for own in extras])
        return torch.cat(rows)

    def _softmax(self, cosines: Tensor, real: Tensor) -> Tensor:
        """Weights [..., T] with mean 1 over the real frames, 0 elsewhere."""
        logits = (self.sharpness.float() * cosines / self.temperature).masked_fill(~real, -1e4)
        return logits.softmax(dim=-1) * real.sum(dim=-1, keepdim=True)
