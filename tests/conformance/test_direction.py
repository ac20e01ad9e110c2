"""The check of losses catches what blank videos break, and what teaches nothing, the wrong way, or ignores degrees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from muvr_train.losses.base import Loss, LossValue, mean_over_rows, split_judged
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.losses.smooth_ap import SmoothAPLoss
from muvr_train.testing import check_loss


def difference(scores: Tensor, positive: Tensor, negative: Tensor) -> LossValue:
    """Mean over rows of the sum of negatives less that of positives."""
    scores = scores.float()
    values = scores.masked_fill(~negative, 0).sum(1) - scores.masked_fill(~positive, 0).sum(1)
    return mean_over_rows(values, (positive | negative).any(1))


class Blank(Loss):
    """Takes the -inf of a blank video for a score."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return difference(scores, relevance == 1, relevance == 0)


class BlankIsLow(Loss):
    """A blank video counts as a finite, low score."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return difference(scores.clamp(min=-2), relevance == 1, relevance == 0)


class Negative(InfoNCELoss):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return super().compute(torch.where(torch.isneginf(scores), scores, -scores), relevance, extras)


class Swapped(InfoNCELoss):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return super().compute(scores, torch.where(relevance >= 0, 1 - relevance, relevance), extras)


class PushesPartialMatches(Loss):
    soft = True

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        positive, negative = split_judged(scores, torch.where((relevance > 0) & (relevance < 1), 0.0, relevance))
        return difference(scores, positive, negative)


class IgnoresPartialMatches(Loss):
    soft = True

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return difference(scores, *split_judged(scores, relevance))


class RoundsPartialMatches(SigmoidLoss):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return super().compute(scores, (relevance > 0.5).float() - (relevance < 0).float(), extras)


class Nothing(Loss):
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return LossValue(torch.where(torch.isneginf(scores), 0.0, scores.float()).sum() * 0, 0, len(scores))


LOSSES = [
    (Blank, r"scores of -inf \(a blank video\)"),
    (BlankIsLow, r"counts pairs of a blank video \(-inf\)"),
    (Negative, "teaches the wrong way"),
    (Swapped, "teaches the wrong way"),
    (PushesPartialMatches, "does not read partial matches"),
    (IgnoresPartialMatches, "does not read partial matches"),
    (RoundsPartialMatches, "does not read partial matches"),
    (Nothing, "teaches nothing in a plain batch"),
]


@pytest.mark.parametrize(("loss", "message"), LOSSES, ids=lambda value: getattr(value, "__name__", ""))
def test_losses(loss, message):
    with pytest.raises(AssertionError, match=f"{loss.__name__}: .*({message})"):
        check_loss(loss)


def test_a_direction_that_is_meant_passes():
    check_loss(Nothing, direction=False)
    check_loss(SmoothAPLoss, direction=True)
