"""Average precision with sigmoids in the place of steps."""

from __future__ import annotations

import torch
from torch import Tensor

from muvr_train.losses.base import Loss, LossValue, float32, mean_over_rows, require_positive, split_judged


class SmoothAPLoss(Loss):
    """One minus a smooth average precision of each row (Smooth-AP, arXiv 2007.12163, eq. 6).

    The rank of a positive p is counted with sigmoids: with G(x) = 1 / (1 + exp(-x / temperature)),
    AP = mean over p of (1 + sum over the other positives of G(s - s_p)) / (1 + the same sum over all other judged).
    As the temperature goes to 0 the loss tends to 1 - AP; equal scores count half. The result is the mean over rows
    that have both a positive and a negative; the others are skipped.

    Memory: [positives of the batch, N] float32, a few times.

    Args:
        on: "fused" or the name of a part.
        temperature: fixed, > 0; the paper has 0.01 for cosines. Scores further apart have no gradient.
        unit_range: see `Loss`.
    """

    sees_offset = False

    def __init__(self, on: str = "fused", temperature: float = 0.01, unit_range: bool = False) -> None:
        super().__init__(on, unit_range)
        require_positive("loss temperature", temperature)
        self.temperature = temperature

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        positive, negative = split_judged(scores, relevance)
        keep = positive.any(dim=1) & negative.any(dim=1)
        with float32(scores):
            clean = torch.where(positive | negative, self._prepare(scores), 0.0)
            rows, columns = positive.nonzero(as_tuple=True)
            above = torch.sigmoid((clean[rows] - clean[rows, columns, None]) / self.temperature)  # [P, N]
            others = torch.arange(scores.shape[1], device=scores.device) != columns[:, None]
            among_positives = 1 + torch.where(positive[rows] & others, above, 0.0).sum(dim=1)
            among_all = among_positives + torch.where(negative[rows], above, 0.0).sum(dim=1)
            precisions = torch.zeros_like(clean).masked_scatter(positive, among_positives / among_all)
            return mean_over_rows(1 - precisions.sum(dim=1) / positive.sum(dim=1).clamp(min=1), keep)
