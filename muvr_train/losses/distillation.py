"""Learning the scores of another model."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, float32, mean_over_rows, require_positive


class DistillationLoss(Loss):
    """Brings the scores of a row near a teacher's (distillation, arXiv 1503.02531).

    kl * KL(softmax(teacher / teacher_temperature) || softmax(s / temperature)) + mse * mean of (s - teacher)^2, each
    over the row's judged columns; relevance says nothing else here. No factor temperature^2: give the weight that is
    wanted. The result is the mean over rows with a judged column. Columns that -1 marks are left out, and those where
    a side has -inf (a blank video). KL asks for the teacher's order and spacing alone, MSE also for its scale.

    Args:
        on: "fused" or the name of a part: what learns.
        teacher: what it learns from: the teacher's "fused" score, or that of a part.
        temperature: of the learner's scores, > 0.
        teacher_temperature: of the teacher's, > 0; None takes the same.
        kl: weight of the first term, >= 0.
        mse: weight of the second, >= 0.
        unit_range: see `Loss`; for the teacher's scores too.
    """

    def __init__(
        self,
        on: str = "fused",
        teacher: str = "fused",
        temperature: float = 0.1,
        teacher_temperature: float | None = None,
        kl: float = 1.0,
        mse: float = 0.0,
        unit_range: bool = False,
    ) -> None:
        super().__init__(on, unit_range)
        self.temperature = temperature
        self.teacher_temperature = temperature if teacher_temperature is None else teacher_temperature
        require_positive("loss temperature", self.temperature)
        require_positive("loss teacher_temperature", self.teacher_temperature)
        if kl < 0 or mse < 0 or not kl + mse > 0:
            raise ConfigError(f"loss kl={kl}, mse={mse}: must be >= 0, and one of them above 0")
        self.kl, self.mse, self.sees_offset = kl, mse, mse > 0
        self.needs = frozenset({"teacher" if teacher == "fused" else f"teacher/{teacher}"})

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        """The loss; see the class."""
        teacher = extras[next(iter(self.needs))].detach()
        blank = (scores == float("-inf")) | (teacher == float("-inf"))
        judged = (relevance >= 0) & ~blank
        with float32(scores):
            ours = torch.where(judged, self._prepare(scores), 0.0)
            theirs = torch.where(judged, self._prepare(teacher), 0.0)
            total = ours.sum(dim=1) * 0.0
            if self.kl:
                log_ours, log_theirs = (
                    F.log_softmax((values / heat).masked_fill(~judged, -1e30), dim=1)
                    for values, heat in ((ours, self.temperature), (theirs, self.teacher_temperature))
                )
                pairs = log_theirs.exp() * (log_theirs - log_ours)
                total = total + self.kl * torch.where(judged, pairs, 0.0).sum(dim=1)
            if self.mse:
                total = total + self.mse * (ours - theirs).square().sum(dim=1) / judged.sum(dim=1).clamp(min=1)
            return mean_over_rows(total, judged.any(dim=1))
