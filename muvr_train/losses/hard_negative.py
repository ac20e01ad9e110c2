"""The hard-negative half of S2VS's SSHN loss."""

from __future__ import annotations

import torch
from torch import Tensor

from muvr_train.losses.base import Loss, LossValue, mean_over_rows, require_positive, split_judged

SLOPE = 10.0
"""How steep the loss is above a score of 1."""


class HardNegativeLoss(Loss):
    """Mean over rows of -log(max(1 - hardest negative, floor)) (S2VS, arXiv 2304.03378, eq. 6).

    Rows without a negative are skipped and counted; a blank video, whose score is -inf, is none. It is written for
    scores in [0, 1], so `unit_range` is on by default. A deviation from the paper, whose scores end there: above 1,
    where networks with a residual can score, 10 (score - 1) is added, so that the hardest negatives have a gradient,
    as steep as that of the logarithm at 0.9.

    Args:
        on: "fused" or the name of a part.
        floor: keeps the logarithm finite; a score from 1 - floor to 1 has no gradient.
        unit_range: see `Loss`.
    """

    def __init__(self, on: str = "fused", floor: float = 1e-3, unit_range: bool = True) -> None:
        super().__init__(on, unit_range)
        require_positive("loss floor", floor)
        self.floor = floor

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        _, negative = split_judged(scores, relevance)
        keep = negative.any(dim=1)
        if not scores.shape[1]:
            return LossValue(scores.float().sum(), 0, len(scores))
        with torch.autocast(device_type=scores.device.type, enabled=False):
            hardest = self._prepare(scores).masked_fill(~negative, float("-inf")).amax(dim=1)
            hardest = torch.where(keep, hardest, 0.0)
            beyond = SLOPE * (hardest - 1).clamp(min=0)
            return mean_over_rows(beyond - (1 - hardest).clamp(min=self.floor).log(), keep)
