"""The checks for plug-in authors: what is sound passes, and each way to break a promise is caught and named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.losses.base import Loss, LossValue, mean_over_rows, split_judged
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead, part_present
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.s2vs import S2VS
from muvr_train.testing import check_fusion_head, check_loss, check_network
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, Tokens

# -- heads ------------------------------------------------------------------------------------------------------------


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


# -- networks ---------------------------------------------------------------------------------------------------------

NETWORKS = [FrameMax, MeanPool, Chamfer, partial(Chamfer, whiten=5), S2VS, partial(S2VS, extra_maps=1)]
NETWORKS += [partial(S2VS, residual=True, whiten=8, base="chamfer_frames", base_weights=True)]


@pytest.mark.parametrize("network", NETWORKS)
def test_sound_networks_pass(network):
    check_network(network)


class Projected(FrameMax):
    """A sound learned network, and what the broken ones change."""

    def __init__(self, dim: int, regions: int = 1) -> None:
        super().__init__(dim, regions)
        self.map = nn.Linear(dim, dim, bias=False)

    def _index(self, tokens: Tokens) -> Tokens:
        return replace(tokens, x=F.normalize(self.map(tokens.x), dim=-1))


class Transposed(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return super().similarity(q, n, extra_maps).T


class Doubled(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return 2 * super().similarity(q, n, extra_maps)


class ZerosInPadding(Projected):
    """A padded 0 beats every negative cosine."""

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        maps = torch.einsum("qtrd,nusd->qntrus", q.x, n.x).flatten(2).amax(dim=2)
        empty = ~(q.mask.any(dim=1)[:, None] & n.mask.any(dim=1)[None])
        return maps.masked_fill(empty, float("-inf"))


class ReadsMasked(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        return replace(super()._index(tokens), mask=tokens.mask.any(dim=1, keepdim=True).expand(tokens.mask.shape))


class CentredInBatch(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        mean = n.x.mean(dim=(0, 1, 2))
        return super().similarity(replace(q, x=q.x - mean), n, extra_maps) / 4


class WrongPairs(Projected):
    def pair_similarity(self, q: Tokens, n: Tokens) -> Tensor:
        return super().pair_similarity(n, q) + 0.01


class Unweighted(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        return replace(super()._index(tokens), weight=None)


class Frozen(Projected):
    def _index(self, tokens: Tokens) -> Tokens:
        with torch.no_grad():
            return super()._index(tokens)


class ScoresBlanks(Projected):
    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        return super().similarity(q, n, extra_maps).clamp(min=-1)


def test_the_sound_twin_of_the_broken_networks_passes():
    check_network(Projected)


BROKEN_NETWORKS = [
    (Transposed, r"similarity_with_extras gives must have shape \[5, 6\], got \[6, 5\]"),
    (Doubled, r"leave the range -1 to 1"),
    (ZerosInPadding, r"depends on"),
    (ReadsMasked, r"(depends on|ignores|without a real frame)"),
    (CentredInBatch, r"depends on which other videos are in the database|depends on padding"),
    (WrongPairs, r"pair_similarity differs from the diagonal"),
    (Unweighted, r"ignores Tokens.weight"),
    (Frozen, r"detached"),
    (ScoresBlanks, r"a video without a real frame must score -inf"),
]


@pytest.mark.parametrize(("network", "message"), BROKEN_NETWORKS, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_networks_are_caught(network, message):
    with pytest.raises(AssertionError, match=f"{network.__name__} on .*({message})"):
        check_network(network)


def test_a_network_that_depends_on_padding_is_named_with_numbers():
    with pytest.raises(AssertionError, match=r"S2VS on 1 x 16 .*depends on padding .* where 1e-05 is allowed"):
        check_network(partial(S2VS, mask_pooling="any"))
    with pytest.raises(AssertionError, match="it is a Linear, no SimilarityNetwork"):
        check_network(lambda dim, regions: nn.Linear(dim, regions))


# -- losses -----------------------------------------------------------------------------------------------------------

LOSSES = [InfoNCELoss, partial(InfoNCELoss, positives="in", epsilon=1e-6), partial(InfoNCELoss, positives="out")]
LOSSES += [HardNegativeLoss, RangeRegularizationLoss, SelfSimilarityLoss]


@pytest.mark.parametrize("loss", LOSSES)
def test_sound_losses_pass(loss):
    check_loss(loss)


class Margin(Loss):
    """A sound loss, and what the broken ones change: the mean over rows of the largest violation of a margin."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        positive, negative = split_judged(scores, relevance)
        keep = positive.any(dim=1) & negative.any(dim=1)
        scores = self._prepare(scores)
        lowest = torch.where(positive, scores, torch.inf).amin(dim=1) if scores.shape[1] else scores.sum(dim=1)
        highest = torch.where(negative, scores, -torch.inf).amax(dim=1) if scores.shape[1] else scores.sum(dim=1)
        return mean_over_rows(torch.where(keep, highest - lowest + 0.2, 0.0).clamp(min=0), keep)


class VectorLoss(Margin):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return replace(super().compute(scores, relevance, extras), value=scores.sum(dim=1))


class HalfLoss(Margin):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores, relevance, extras)
        return replace(result, value=result.value.to(scores.dtype))


class DividesByPositives(Loss):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        positive = relevance == 1
        return LossValue((-scores.float() * positive).sum() / positive.sum(), len(scores), 0)


class PlainExponent(Loss):
    """exp without logsumexp."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        judged = relevance >= 0
        return mean_over_rows((scores.float().exp() * judged).sum(dim=1), judged.any(dim=1))


class CountsUnjudged(Margin):
    """Takes what is not judged for a negative."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return super().compute(scores, torch.where(relevance < 0, 0.0, relevance), extras)


class FirstColumnIsSelf(Margin):
    """Looks at positions instead of relevance."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores, relevance, extras)
        judged = torch.where(relevance >= 0, scores.float(), 0.0)
        places = torch.arange(scores.shape[1], dtype=torch.float32)
        return replace(result, value=result.value + (judged * places).sum())


class MiscountsRows(Margin):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return replace(super().compute(scores, relevance, extras), skipped=0)


class SkippedRowsCount(Margin):
    """Divides by all rows."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores, relevance, extras)
        return replace(result, value=result.value * result.rows / max(1, len(scores)))


class NoGraph(Margin):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores, relevance, extras)
        return result if result.rows else replace(result, value=torch.zeros(()))


class ParameterUnused(Margin):
    def __init__(self) -> None:
        super().__init__()
        self.logit_scale = nn.Parameter(torch.zeros(()))


class NeedsUnknown(Margin):
    needs = frozenset({"age"})


def test_the_sound_twin_of_the_broken_losses_passes():
    check_loss(Margin)
    check_loss(Margin(unit_range=True))
    check_loss(NeedsUnknown, extras={"age": torch.zeros(7)})


BROKEN_LOSSES = [
    (VectorLoss, r"must have shape \[\], got \[1\]"),
    (HalfLoss, r"scores in bfloat16 under autocast must be float32, got torch.bfloat16"),
    (DividesByPositives, r"a row without positives holds 1 entries that are NaN"),
    (PlainExponent, r"scores of size 10000 holds 1 entries that are NaN or infinite"),
    (CountsUnjudged, r"counts pairs that are not judged \(-1\): the loss is|not judged \(-1\) is up to 0"),
    (FirstColumnIsSelf, r"depends on the order of the columns: the loss is"),
    (MiscountsRows, r"rows=0 and skipped=0 must add up to the 1 rows"),
    (SkippedRowsCount, r"is counted as skipped, but it changes the loss"),
    (NoGraph, r"has no graph"),
    (ParameterUnused, r"no gradient reaches the parameter logit_scale"),
    (NeedsUnknown, r"needs the extras \['age'\]"),
]


@pytest.mark.parametrize(("loss", "message"), BROKEN_LOSSES, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_losses_are_caught(loss, message):
    with pytest.raises(AssertionError, match=f"{loss.__name__}: .*({message})"):
        check_loss(loss)


def test_checks_leave_the_number_of_threads_alone():
    before = torch.get_num_threads()
    with pytest.raises(AssertionError):
        check_loss(VectorLoss)
    assert torch.get_num_threads() == before


def test_the_instance_that_is_checked_keeps_its_weights():
    network: SimilarityNetwork = Projected(16)
    loss = ParameterUnused()
    before = [parameter.clone() for part in (network, loss) for parameter in part.parameters()]
    check_network(network)
    with pytest.raises(AssertionError):
        check_loss(loss)
    after = [parameter for part in (network, loss) for parameter in part.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
