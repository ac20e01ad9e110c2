"""The self-similarity half of S2VS's SSHN loss."""

from __future__ import annotations

import torch
from torch import Tensor

from muvr_train.losses.base import Loss, LossValue, require_positive


class SelfSimilarityLoss(Loss):
    """Mean over queries of -log(max(score of a video with itself, floor)) (S2VS, arXiv 2304.03378, eq. 6).

    It is written for scores in [0, 1], so `unit_range` is on by default. A deviation from the paper, whose scores end
    there: one above 1, which networks with a residual give, counts as 1 and has no gradient. The extra `self` comes
    from the video part, so `on` is "video" unless a model provides another.

    Args:
        on: the part that `self` belongs to.
        floor: keeps the logarithm finite; below it a query has no gradient.
        unit_range: see `Loss`.
    """

    needs = frozenset({"self"})

    def __init__(self, on: str = "video", floor: float = 1e-3, unit_range: bool = True) -> None:
        super().__init__(on, unit_range)
        require_positive("loss floor", floor)
        self.floor = floor

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        with torch.autocast(device_type=scores.device.type, enabled=False):
            own = self._prepare(extras["self"])
            total = -torch.where(own > 1, 1.0, own).clamp(min=self.floor).log().sum()
        return LossValue(total / max(len(own), 1), len(own), 0)
