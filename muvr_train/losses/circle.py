"""Circle loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, float32, mean_over_rows, require_positive, split_judged


class CircleLoss(Loss):
    """Pairs weigh the more the further they are from their goal (Circle loss, arXiv 2002.10857, eq. 6 and 8).

    log(1 + sum over negatives of exp(scale * a_n (s_n - margin)) * sum over positives of
    exp(-scale * a_p (s_p - 1 + margin))) with a_p = max(0, 1 + margin - s_p) and a_n = max(0, s_n + margin), which are
    constants to the gradient. The result is the mean over rows that have both a positive and a negative; the others are
    skipped. It is written for cosines, whose best positive is 1 and whose best negative is 0.

    Args:
        on: "fused" or the name of a part.
        scale: the paper's gamma, > 0: 80 to 256 there.
        margin: from 0 to 1; the paper has 0.25 or 0.4.
        unit_range: see `Loss`.
    """

    def __init__(self, on: str = "fused", scale: float = 80.0, margin: float = 0.25, unit_range: bool = False) -> None:
        super().__init__(on, unit_range)
        require_positive("loss scale", scale)
        if not 0 <= margin <= 1:
            raise ConfigError(f"loss margin={margin}: must be from 0 to 1")
        self.scale, self.margin = scale, margin

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        positive, negative = split_judged(scores, relevance)
        keep = positive.any(dim=1) & negative.any(dim=1)
        if not scores.shape[1]:
            return LossValue(scores.float().sum(), 0, len(scores))
        with float32(scores):
            s = torch.where(positive | negative, self._prepare(scores), 0.0)
            fixed = s.detach()
            pull = -self.scale * (1 + self.margin - fixed).clamp(min=0) * (s - 1 + self.margin)
            push = self.scale * (fixed + self.margin).clamp(min=0) * (s - self.margin)
            # rows that are skipped are made of zeros, which keeps them finite
            pull = torch.where(keep[:, None], pull.masked_fill(~positive, -torch.inf), 0.0)
            push = torch.where(keep[:, None], push.masked_fill(~negative, -torch.inf), 0.0)
            return mean_over_rows(F.softplus(pull.logsumexp(dim=1) + push.logsumexp(dim=1)), keep)
