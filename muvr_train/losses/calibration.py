"""Scores that are comparable between queries."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, float32, mean_over_rows, require_positive, split_judged

FORMS = ("hinge", "softplus")


class CalibrationLoss(Loss):
    """Positives above one level and negatives below another, the same levels in all rows (ROADMAP, arXiv 2110.01445).

    Ranking losses let every query have a scale of its own; uAP, which ranks the pairs of all queries together, needs
    one. Per row: mean over positives of h(positive_level - s) + mean over negatives of h(s - negative_level), where
    h(x) is max(0, x) (hinge, the paper's), or temperature * softplus(x / temperature), which tends to it and never
    stops pushing. The result is the mean over rows with a judged pair; a row without positives (or negatives) has the
    other term alone.

    Args:
        on: "fused" or the name of a part.
        positive_level: on the scale of the scores; the paper has 0.9 for cosines.
        negative_level: below it; the paper has 0.6.
        form: "hinge" or "softplus".
        temperature: of softplus, > 0.
        unit_range: see `Loss`.
    """

    def __init__(
        self,
        on: str = "fused",
        positive_level: float = 0.9,
        negative_level: float = 0.6,
        form: str = "hinge",
        temperature: float = 0.05,
        unit_range: bool = False,
    ) -> None:
        super().__init__(on, unit_range)
        require_positive("loss temperature", temperature)
        if form not in FORMS:
            raise ConfigError(f"loss form={form!r}: must be one of {', '.join(FORMS)}")
        if not negative_level <= positive_level:
            raise ConfigError(
                f"loss negative_level={negative_level}: must not be above positive_level={positive_level}"
            )
        self.levels, self.form, self.temperature = (positive_level, negative_level), form, temperature

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        positive, negative = split_judged(scores, relevance)
        keep = (positive | negative).any(dim=1)
        with float32(scores):
            s, (high, low) = self._prepare(scores), self.levels
            total = self._mean(high - s, positive) + self._mean(s - low, negative)
            return mean_over_rows(total, keep)

    def _mean(self, excess: Tensor, mask: Tensor) -> Tensor:
        """Mean of h over a mask [Q, N] by row; 0 for an empty row."""
        clean = torch.where(mask, excess, 0.0)
        soft = self.form == "softplus"
        cost = self.temperature * F.softplus(clean / self.temperature) if soft else clean.clamp(min=0)
        return torch.where(mask, cost, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
