"""Keeps the similarity maps inside [-1, 1] before they are clipped."""

from __future__ import annotations

from torch import Tensor

from muvr_train.losses.base import Loss, LossValue


class RangeRegularizationLoss(Loss):
    """Sum over all pairs and map entries of the distance outside [-1, 1] (S2VS, arXiv 2304.03378; ViSiL, eq. 8).

    A sum, not a mean, as in the reference. Judged or not, every pair counts.

    Args:
        on: the part that `range_excess` belongs to.
    """

    needs = frozenset({"range_excess"})

    def __init__(self, on: str = "video") -> None:
        super().__init__(on, unit_range=False)

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:  # noqa: ARG002
        """The loss; see the class."""
        excess = extras["range_excess"].float()
        return LossValue(excess.sum(), len(excess), 0)
