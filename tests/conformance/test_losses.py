"""The check of losses: what is sound passes, and each way to break a promise is caught and named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from muvr_train.losses.base import Loss, LossValue, mean_over_rows, split_judged
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.testing import check_loss

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


class ForgetsUnjudged(Margin):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return super().compute(scores, relevance.clamp_(min=0), extras)


class ScalesScores(Margin):
    """Behind autograd's back: the next loss reads other scores."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores, relevance, extras)
        scores.data.add_(1.0)
        return result


class ScalesTeacher(Margin):
    needs = frozenset({"teacher/fused"})

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        result = super().compute(scores + extras["teacher/fused"], relevance, extras)
        extras["teacher/fused"].data.mul_(2.0)
        return result


BROKEN_LOSSES = [
    (ForgetsUnjudged, r"changes its relevance in place, which the losses beside it read"),
    (ScalesScores, r"changes its scores in place"),
    (ScalesTeacher, r"changes its teacher/fused in place"),
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
