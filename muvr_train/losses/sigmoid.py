"""The pairwise sigmoid loss of SigLIP."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, float32, mean_over_rows, require_positive


class SigmoidLoss(Loss):
    """Every pair is a yes-or-no question (SigLIP, arXiv 2303.15343, eq. 1 and algorithm 1).

    With z = exp(log_scale) * s + bias, of which both are learned, and r the relevance, a pair costs
    r softplus(-z) + (1 - r) softplus(z), the cross-entropy with target r, and so for partial matches (0 < r < 1) too.
    The result is the mean over rows of the sum over the row's judged pairs (the paper divides by the batch in this
    way); a row without positives has something to say as well, and only rows without a judged pair are skipped.

    The start of the paper, scale 10 and bias -10, is for cosines in [-1, 1] and rows of mostly negatives: nearly all
    pairs then begin with a small loss. Parameters of one number get no weight decay.

    Args:
        on: "fused" or the name of a part.
        scale: where the learned scale starts, > 0.
        bias: where the learned bias starts.
        learned: False keeps both as they are.
        unit_range: see `Loss`.
    """

    soft = True

    def __init__(
        self,
        on: str = "fused",
        scale: float = 10.0,
        bias: float = -10.0,
        learned: bool = True,
        unit_range: bool = False,
    ) -> None:
        super().__init__(on, unit_range)
        require_positive("loss scale", scale)
        if not math.isfinite(bias):
            raise ConfigError(f"loss bias={bias}: must be a finite number")
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)), requires_grad=learned)
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=learned)

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        judged = (relevance >= 0) & (scores != float("-inf"))
        with float32(scores):
            target = torch.where(judged, relevance.float(), 0.0)
            logits = self.log_scale.exp() * torch.where(judged, self._prepare(scores), 0.0) + self.bias
            pairs = target * F.softplus(-logits) + (1 - target) * F.softplus(logits)
            return mean_over_rows(torch.where(judged, pairs, 0.0).sum(dim=1), judged.any(dim=1))
