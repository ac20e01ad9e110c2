"""The base class of fusion heads: three hooks, each with a default, so that a new head overrides one method."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from muvr_train.models.asking import similarity_of
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.text import TextPart
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, Tags, TextTokens


class PartScorers:
    """What `FusionHead.compare` may call. It keeps the extras that losses asked for as the video part is scored.

    Attributes:
        network: the similarity network.
        text_part: scores texts against frames; None where the store has no texts.
        extras: `range_excess` [Q, N] and `self` [Q], filled by `video` as far as wanted.

    Args:
        network: see above.
        text_part: see above.
        wanted: the extras.
        texts: shared by scorers of one database: texts and their scores by the identity of the tokens.
    """

    def __init__(
        self,
        network: SimilarityNetwork,
        text_part: TextPart | None,
        wanted: frozenset[str] = frozenset(),
        texts: dict[int, tuple[TextTokens, Tensor]] | None = None,
    ) -> None:
        self.network, self.text_part, self._wanted, self._texts = network, text_part, wanted, texts
        self.extras: dict[str, Tensor] = {}

    def video(self, query: EncodedQuery, database: EncodedDatabase, extra_maps: Tensor | None = None) -> Tensor | None:
        """Scores of the query videos [Q, N]; None where no query of the batch has a video."""
        if query.index is None or not bool(part_present(query.query, "video").any()):
            return None
        scores, extras = similarity_of(self.network, query.index, database.index, self._wanted, extra_maps)
        self.extras.update(extras)
        return scores

    def text(self, query: EncodedQuery, database: EncodedDatabase) -> Tensor | None:
        """Scores of the query texts [Q, N]; None where no query of the batch has a text."""
        text = query.query.text
        if self.text_part is None or text is None or not bool(part_present(query.query, "text").any()):
            return None
        if self._texts is None:
            return self.text_part(text, database.fine)  # type: ignore[no-any-return]
        if id(text) not in self._texts:
            self._texts[id(text)] = text, self.text_part(text, database.fine)
        return self._texts[id(text)][1]


MAP_BYTES = 12
"""Bytes of a cell of an extra map: as given, as the network orders it, and on the way there."""
OFFICIAL_TAG_WEIGHT = 0.3
"""The weight of tags in MUVR's official program (arXiv 2510.21406)."""


class FusionHead(nn.Module):
    """Merges the parts of a query (video, text) into one score; the defaults are MUVR's mean of the present parts.

    Hooks, in this order: `prepare` (early fusion), `compare` (part scores), `combine` (late fusion). A part that is
    absent must have no vote: look at `query.present`, never at the values of absent rows. Where a query has tags,
    `tag_weight * tag_scores(...)` is added to what `combine` gives. A region needs no attention: where a query has one,
    its video already holds what is inside.

    Args:
        dims: sizes of the feature store, for heads with layers of their own.

    Attributes:
        learns_tags: whether the weight of tags (at first the official 0.3) and the threshold of their cosines (at first
            0) are learned.
        extra_maps: how many frame-to-frame maps `compare` gives to the network beside its own.
        one_by_one: whether `compare` asks the network about one query at a time.
        learns_offsets: False where no loss of a run sees one number that is added to all scores of a query: the
            threshold then gets no gradient from what only adds one.
    """

    learns_tags: bool = True
    extra_maps: int = 0
    one_by_one: bool = False
    learns_offsets: bool = True
    tag_weight: Tensor
    tag_threshold: Tensor

    def __init__(self, dims: StoreDims) -> None:
        super().__init__()
        self.dims = dims
        for name, start in (("tag_weight", OFFICIAL_TAG_WEIGHT), ("tag_threshold", 0.0)):
            if self.learns_tags and dims.text_dim is not None:
                self.register_parameter(name, nn.Parameter(torch.tensor(start)))
            else:
                self.register_buffer(name, torch.tensor(start), persistent=False)

    def prepare(self, query: QueryBatch) -> QueryBatch:
        """Rewrite the tokens or the weights of the query before comparison.

        `query.video` [Q, T, R, D] and `query.text` [Q, L, D_text] are L2-normalised; what is returned may be of any
        scale. A part that the mode does not ask for is None here.
        """
        return query

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: PartScorers) -> dict[str, Tensor]:
        """Part scores [Q, N] by name; a part that no query has may be left out.

        A video without a real frame scores -inf, as the networks and the text part have it.
        """
        scores = {"video": scorers.video(query, database), "text": scorers.text(query, database)}
        return {name: value for name, value in scores.items() if value is not None}

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        """Merge part scores into [Q, N]: the mean over the parts that each query has.

        `parts` may hold more parts than `query.present` allows; rows of absent parts hold 0. So do pairs with a video
        without a real frame: where a part that the query has scored -inf, the fused score will be -inf, whatever is
        returned for the pair, and no gradient comes from there.
        """
        flags = {name: part_present(query, name) for name in parts}
        total = sum(torch.where(flags[name][:, None], value, 0.0) for name, value in parts.items())
        count = sum(flag.int() for flag in flags.values())
        return torch.as_tensor(total) / torch.as_tensor(count)[:, None]

    def tag_scores(self, cosines: Tensor, tags: Tags) -> Tensor:
        """How well videos meet the conditions of queries [Q, N]: the sum of sign * (cosine - threshold) over them.

        Of conditions joined by OR it is the maximum. With threshold 0 the sum is MUVR's official score of tags. It is
        finite: cosines with a video without a real frame are 0 here, and its fused score is -inf all the same.

        Args:
            cosines: float [Q, K, N] of tags and videos, 0 where a tag is padded.
            tags: `sign` and `either` [Q, K].
        """
        threshold = self.tag_threshold if self.learns_offsets else self.tag_threshold.detach()
        signed = tags.sign[:, :, None] * (cosines - threshold)
        best, place = signed.masked_fill(~tags.mask[:, :, None], float("-inf")).max(dim=1)
        either = tags.either.any(dim=1)[:, None]
        scores = torch.where(either, best, signed.sum(dim=1))
        if self.learns_offsets:
            return scores
        slope = torch.where(either, tags.sign.gather(1, place), tags.sign.sum(dim=1, keepdim=True))
        differs = slope - slope.median(dim=1, keepdim=True).values  # 0 in rows that the threshold moves as a whole
        return scores - (self.tag_threshold - threshold) * differs

    def row_offsets(self) -> list[nn.Parameter]:
        """Parameters that only add one number to all fused scores of a query; none here.

        They are trained only where a loss sees such a number, see `Loss.sees_offset`.
        """
        return []

    def training_bytes(self, q: EncodedQuery, n: EncodedDatabase) -> int:
        """About what `prepare` and `compare` keep for each query until the backward pass, beside the network; 0 here.

        With a memory budget, fewer queries are scored at a time the more it is.
        """
        del q, n
        return 0

    def scoring_bytes(self, queries: int, frames: int) -> int:
        """About what `compare` holds in inference for each frame of the database, beside the network's own.

        By default that of `extra_maps`.

        Args:
            queries: how many are scored at a time.
            frames: of the longest query; 0 where there are only texts.
        """
        return MAP_BYTES * self.extra_maps * queries * frames


def part_present(query: QueryBatch, part: str) -> Tensor:
    """Which queries have the part: bool [Q] (nobody, if the batch does not mention it)."""
    if part in query.present:
        return query.present[part]
    known = next(iter(query.present.values()), None)
    return torch.zeros(len(query), dtype=torch.bool, device=None if known is None else known.device)
