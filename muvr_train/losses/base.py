"""The face of every loss: scores, relevance and extras in, a scalar out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError


@dataclass(frozen=True)
class LossValue:
    """What a loss gives.

    Attributes:
        value: scalar float32 tensor, with a graph even where all rows were skipped (then 0).
        rows: number of rows (queries) that the value is a mean over.
        skipped: number of rows that were left out because they have no positive (or no negative).
    """

    value: Tensor
    rows: int
    skipped: int


class Loss(nn.Module, ABC):
    """A one-to-many loss on a score matrix.

    Args:
        on: what it is computed on: "fused", or the name of a part ("video", "text").
        unit_range: map scores by (s + 1) / 2 first, as S2VS does in training (arXiv 2304.03378).

    Attributes:
        needs: names of the extras that the loss reads.
        soft: whether it reads partial matches, relevance between 0 and 1; to others they come as -1, not judged.
        sees_offset: whether one number added to all scores of a row may change it. Where no loss sees that, parameters
            that do nothing else are not trained: their gradients would be rounding errors.
    """

    needs: frozenset[str] = frozenset()
    soft: bool = False
    sees_offset: bool = True

    def __init__(self, on: str = "fused", unit_range: bool = False) -> None:
        super().__init__()
        self.on, self.unit_range = on, unit_range

    @abstractmethod
    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        """The loss and how many rows it skipped.

        Args:
            scores: float [Q, N], on the inference scale.
            relevance: int or float [Q, N]: 1 match, 0 no match, -1 not judged (ignored, e.g. a query's own column);
                a `soft` loss also gets what is between 0 and 1, the degree of a partial match.
            extras: tensors by name, first dimension Q; those in `needs` must be there.
        """

    def forward(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor] | None = None) -> Tensor:
        """The scalar value of `compute`."""
        return self.compute(scores, relevance, extras or {}).value

    def _prepare(self, scores: Tensor) -> Tensor:
        """Scores in float32, mapped to [0, 1] where `unit_range` asks for it."""
        scores = scores.float()
        return (scores + 1) / 2 if self.unit_range else scores


def without_blank(scores: Tensor, relevance: Tensor) -> Tensor:
    """Relevance [Q, N] with -1, not judged, for pairs of a blank video, whose score is -inf."""
    return relevance.masked_fill(scores == float("-inf"), -1)


def split_judged(scores: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Positives and negatives, bool [Q, N], without pairs of a blank video: their score is -inf and nothing is learned.

    Neither holds what is not judged, nor partial matches.
    """
    judged = without_blank(scores, relevance)
    return judged == 1, judged == 0


def float32(scores: Tensor) -> torch.autocast:
    """Context in which autocast is off on the device of the scores."""
    return torch.autocast(device_type=scores.device.type, enabled=False)


def mean_over_rows(values: Tensor, keep: Tensor) -> LossValue:
    """Mean of values [Q] over the rows in keep [Q]; 0 with a graph where nothing is kept.

    Entries that are not kept must be finite, so that no gradient becomes NaN.
    """
    rows = int(keep.sum())
    total = values.masked_fill(~keep, 0.0).sum()
    return LossValue(total / max(rows, 1), rows, len(keep) - rows)


def require_positive(name: str, value: float) -> None:
    """Raise ConfigError unless a setting is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise ConfigError(f"{name}={value}: must be > 0 and finite")
