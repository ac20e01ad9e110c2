"""The baseline of composed video retrieval: one vector for the query, one for the video."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.functional import forbid_empty, full_precision
from muvr_train.models.fusion.base import PartScorers, part_present
from muvr_train.models.fusion.text_head import TextHead, check_hidden, unit_length, unit_variance, zero_linear
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims


class CoVR(TextHead):
    """cos(z, y) with z = v + t + O GELU(A v + B t) / sqrt(D), in [-1, 1]; y is the mean of all frames of the target.

    v is the query's middle frame, the mean over its regions; t the mean of its mapped words W t; both of unit length,
    and times sqrt(D) before A and B. O starts at 0. Queries with one part have z = v or z = t. Every part has this
    score, which is then calibrated as by `WeightedFusion`; the similarity network and the text part are never asked
    (choose model=mean_pool), and the head does not start as the mean. The recipe of CoVR (arXiv 2308.14746) on frozen
    features: known to be weak where one frame does not show what a video is about.

    Args:
        dims: sizes of the feature store.
        hidden: size of the layer between.

    Raises:
        ConfigError: a store without texts.
    """

    def __init__(self, dims: StoreDims, hidden: int = 256) -> None:
        super().__init__(dims)
        check_hidden(hidden)
        self.from_frame = nn.Linear(dims.dim, hidden)
        self.from_text = nn.Linear(dims.dim, hidden, bias=False)
        self.change = zero_linear(hidden, dims.dim)

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: PartScorers) -> dict[str, Tensor]:
        """The same scores [Q, N] for every part that a query of the batch has."""
        del scorers
        frames, words = self._frames(query.query), self._words(query.query)
        known = {name: vector for name, vector in (("video", frames), ("text", words)) if vector is not None}
        if not known:
            return {}
        joined = torch.stack([*known.values()]).sum(dim=0)
        if frames is not None and words is not None:
            hidden = F.gelu(self.from_frame(unit_variance(frames)) + self.from_text(unit_variance(words)))
            both = frames.any(dim=1, keepdim=True) & words.any(dim=1, keepdim=True)
            joined = joined + torch.where(both, unit_length(self.change(hidden)), 0.0)
        targets = database.raw
        with full_precision(joined):
            pooled = targets.x.float().masked_fill(~targets.mask[:, :, None, None], 0.0).sum(dim=(1, 2))
            scores = F.normalize(joined.float(), dim=-1) @ F.normalize(pooled, dim=-1).T
        scores = forbid_empty(scores, joined.any(dim=1, keepdim=True), targets.mask)
        return dict.fromkeys(known, scores)

    def _frames(self, query: QueryBatch) -> Tensor | None:
        """Middle frames [Q, D], 0 where a query has no video."""
        if query.video is None or not bool(part_present(query, "video").any()):
            return None
        real = query.video.mask & part_present(query, "video")[:, None]
        middle = (real.sum(dim=1) - 1).clamp(min=0) // 2
        place = torch.argsort(~real, dim=1, stable=True).gather(1, middle[:, None])
        rows = torch.arange(len(real), device=real.device)[:, None]
        regions = query.video.x[rows, place][:, 0].float().masked_fill(~real.any(dim=1)[:, None, None], 0.0)
        return F.normalize(regions.sum(dim=1), dim=-1)

    def _words(self, query: QueryBatch) -> Tensor | None:
        """Mean words [Q, D], 0 where a query has no text."""
        if query.text is None or not bool(part_present(query, "text").any()):
            return None
        said = query.text.mask & part_present(query, "text")[:, None]
        return F.normalize(self.words(query.text, said).sum(dim=1), dim=-1)
