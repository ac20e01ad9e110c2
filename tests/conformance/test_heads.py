"""The check of heads: what is sound passes, and each way to break a promise is caught and named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead, part_present
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.testing import check_fusion_head
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims


class Gate(FusionHead):
    """A sound early head: the text turns query frames, by a learned map and a gate that starts at 0."""

    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.turn = nn.Linear(dims.text_dim or 1, dims.dim)
        self.gate = nn.Parameter(torch.zeros(()))

    def prepare(self, query: QueryBatch) -> QueryBatch:
        if query.video is None or query.text is None:
            return query
        return replace(query, video=replace(query.video, x=self.mixed(query, query.video.x)))

    def mixed(self, query: QueryBatch, x: Tensor) -> Tensor:
        both = part_present(query, "video") & part_present(query, "text")
        mixed = x + self.gate * self.turned(query)[:, None, None]
        return torch.where(both[:, None, None, None], mixed, x)

    def turned(self, query: QueryBatch) -> Tensor:
        real = query.text.mask[:, :, None]
        words = torch.where(real, query.text.x, 0.0).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return torch.tanh(self.turn(words))


class ColumnOfScores(FusionHead):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine(parts, query).mean(dim=1, keepdim=True)


class DoubleScores(FusionHead):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine(parts, query).double()


class OnePartOfOneQuery(FusionHead):
    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: object) -> dict[str, Tensor]:
        return {name: value[:1] for name, value in super().compare(query, database, scorers).items()}


class RankWithinBatch(FusionHead):
    """The first query of a batch is worth more."""

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        scores = super().combine(parts, query)
        return scores + torch.linspace(0.1, 0, len(scores))[:, None]


class ZNormalised(FusionHead):
    """Normalises over the database: that is for calibration, after chunked scoring."""

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        scores = super().combine(parts, query)
        return scores - scores.mean(dim=1, keepdim=True)


class CentredOverQueries(FusionHead):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        scores = super().combine(parts, query)
        return scores - scores.mean(dim=0, keepdim=True)


class CountsPadding(Gate):
    """Divides by the padded number of words."""

    def turned(self, query: QueryBatch) -> Tensor:
        return torch.tanh(self.turn(torch.where(query.text.mask[:, :, None], query.text.x, 0.0).mean(dim=1)))


class IgnoresMask(Gate):
    """Reads masked words, which happen to be zeros."""

    def turned(self, query: QueryBatch) -> Tensor:
        return torch.tanh(self.turn(query.text.x.sum(dim=1)))


class ForgetsPresent(Gate):
    """A missing text turns the video by the bias of its layer."""

    def mixed(self, query: QueryBatch, x: Tensor) -> Tensor:
        return x + self.gate * self.turned(query)[:, None, None]


class MeanOfAllParts(FusionHead):
    """A part that a query lacks counts as 0."""

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return torch.stack(list(parts.values())).mean(dim=0)


class Detached(Gate):
    def turned(self, query: QueryBatch) -> Tensor:
        return super().turned(query).detach()


class Unused(FusionHead):
    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.forgotten = nn.Linear(2, 2)


class NormOfAbsent(Gate):
    """The root of the squares of a missing text, 0, has no finite gradient."""

    def turned(self, query: QueryBatch) -> Tensor:
        words = F.linear(query.text.x.sum(dim=1), self.turn.weight)
        return words / (words.square().sum(dim=1, keepdim=True).sqrt() + 1e-6)


class Noisy(FusionHead):
    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        scores = super().combine(parts, query)
        return F.dropout(scores, 0.1)


class RewritesInPlace(FusionHead):
    def prepare(self, query: QueryBatch) -> QueryBatch:
        if query.text is not None:
            query.text.x.mul_(-1)
        return query


class NotSaved(Gate):
    """Weights that no state dict holds."""

    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        self.scale = 0.5 + float(torch.rand(()))

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        return super().combine(parts, query) * self.scale


class NeedsOneSize(FusionHead):
    """Compares texts with frames as they are."""

    def prepare(self, query: QueryBatch) -> QueryBatch:
        if query.video is not None and query.text is not None:
            torch.einsum("qtrd,qld->qtl", query.video.x, query.text.x)
        return query


@pytest.mark.parametrize("head", [MeanFusion, WeightedFusion, Gate])
def test_sound_heads_pass_and_start_as_the_mean(head):
    check_fusion_head(head, starts_as_mean=True)


HEADS = [
    (ColumnOfScores, r"combine gives must have shape \[10, 6\], got \[10, 1\]"),
    (DoubleScores, r"combine gives must be float32, got torch.float64"),
    (OnePartOfOneQuery, r"part 'video' of compare must be \[10, 6\], got \[1, 6\]"),
    (RankWithinBatch, r"depends on the order of the queries: the score of query \d .* a difference of 0.0"),
    (ZNormalised, r"depends on which other videos are in the database"),
    (CentredOverQueries, r"depends on which other queries are in the batch"),
    (CountsPadding, r"depends on padding"),
    (IgnoresMask, r"ignores a mask"),
    (ForgetsPresent, r"a missing text has a vote .* query 1 \(video\)"),
    (MeanOfAllParts, r"a missing (video|text) has a vote"),
    (Detached, r"no gradient reaches the parameter turn.weight"),
    (Unused, r"no gradient reaches the parameter forgotten.weight"),
    (NormOfAbsent, r"the gradient of turn.weight has \d+ entries that are NaN"),
    (Noisy, r"is not deterministic in eval mode"),
    (RewritesInPlace, r"changes the encoded query or database in place"),
    (NotSaved, r"is not restored by its state dict"),
    (NeedsOneSize, r"texts of 8: scoring queries raises RuntimeError"),
]


@pytest.mark.parametrize(("head", "message"), HEADS, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_heads_are_caught(head, message):
    with pytest.raises(AssertionError, match=f"{head.__name__} on .*{message}"):
        check_fusion_head(head)


def test_a_head_may_be_an_instance_or_a_function():
    check_fusion_head(WeightedFusion(StoreDims(regions=1, dim=8, text_dim=8)))
    check_fusion_head(partial(WeightedFusion, parts=("video", "text")), dims=[StoreDims(2, 8, 4)], network=FrameMax)
    opened = Gate(StoreDims(regions=1, dim=8, text_dim=8))
    nn.init.ones_(opened.gate)
    with pytest.raises(AssertionError, match=r"Gate on 1 x 8 .*does not start as the mean"):
        check_fusion_head(opened, starts_as_mean=True)
    with pytest.raises(AssertionError, match="it is a Linear, no FusionHead"):
        check_fusion_head(lambda dims: nn.Linear(dims.dim, 1))
