"""Multi-positive InfoNCE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, mean_over_rows, require_positive, without_blank

POSITIVES = ("each", "out", "in")
NEGLIGIBLE = 1e-6
"""An epsilon beside which rounding counts for more where scores are from 0 to 1, and each exponential is at least 1."""


class InfoNCELoss(Loss):
    """Softmax contrastive loss with several positives per row, float32 and log-sum-exp throughout.

    With e = exp(s / temperature), P the positives and A the judged entries of a row:
    each: mean over p in P of -log(e_p / (e_p + sum of the negatives + epsilon)); other positives are in no denominator
    (S2VS, arXiv 2304.03378, eq. 5); out: mean over p in P of -log(e_p / (sum over A + epsilon)); in: -log(mean over p
    in P of e_p / (sum over A + epsilon)) (SupCon, arXiv 2004.11362, eq. 2 and 3). The result is the mean over rows with
    a positive; rows without are skipped and counted. A row without negatives is kept. Pairs of a blank video (their
    score is -inf) are left out.

    Partial matches, 0 < r < 1, are positives of weight r: "mean over p" is then sum of r * value / max(1, sum of r), so
    that a row whose only match is a partial one pulls less (in: its mean of e_p has the weights r / sum of r, and the
    row is multiplied by min(1, sum of r)). With r of 0 and 1 alone this changes no bit.

    Args:
        on: "fused" or the name of a part.
        temperature: fixed, > 0.
        positives: "each", "out" or "in".
        epsilon: added to the denominators; S2VS has 1e-6.
        unit_range: see `Loss`.
    """

    soft = True

    def __init__(
        self,
        on: str = "fused",
        temperature: float = 0.03,
        positives: str = "each",
        epsilon: float = 0.0,
        unit_range: bool = False,
    ) -> None:
        super().__init__(on, unit_range)
        require_positive("loss temperature", temperature)
        if positives not in POSITIVES:
            raise ConfigError(f"loss positives={positives!r}: must be one of {', '.join(POSITIVES)}")
        if epsilon < 0:
            raise ConfigError(f"loss epsilon={epsilon}: must be >= 0")
        self.temperature, self.positives, self.epsilon = temperature, positives, epsilon
        self.sees_offset = epsilon > (NEGLIGIBLE if unit_range else 0.0)

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        relevance = without_blank(scores, relevance)
        positive = relevance > 0
        keep = positive.any(dim=1)
        weights = torch.where(positive, relevance.float(), ~keep[:, None])
        with torch.autocast(device_type=scores.device.type, enabled=False):
            logits = self._prepare(scores) / self.temperature
            # rows that are skipped get all-zero logits with every entry positive, which keeps them finite
            logits = torch.where(keep[:, None] & (relevance >= 0), logits, 0.0)
            positive = positive | ~keep[:, None]
            counted = relevance == 0 if self.positives == "each" else positive | (relevance == 0)
            rest = _masked_logsumexp(logits, counted, self.epsilon)[:, None]
            if self.positives == "in":
                total = weights.sum(dim=1)
                weighted = logits + torch.where(positive, weights, 1.0).log()
                best = _masked_logsumexp(weighted, positive, 0.0) - total.log()
                return mean_over_rows((rest[:, 0] - best) * total.clamp(max=1), keep)
            # softplus(r - s) = log(e^s + e^r) - s, without the cancellation where the loss is small
            per_pair = F.softplus(rest - logits) if self.positives == "each" else rest - logits
            per_pair = torch.where(positive, per_pair * weights, 0.0)
            return mean_over_rows(per_pair.sum(dim=1) / weights.sum(dim=1).clamp(min=1), keep)


def _masked_logsumexp(logits: Tensor, mask: Tensor, epsilon: float) -> Tensor:
    """log(sum over mask of exp(logits) + epsilon) per row; about -1e30 for an empty row without epsilon."""
    constant = math.log(epsilon) if epsilon > 0 else -1e30
    extended = torch.cat([logits.masked_fill(~mask, -1e30), logits.new_full((len(logits), 1), constant)], dim=1)
    return torch.logsumexp(extended, dim=1)
