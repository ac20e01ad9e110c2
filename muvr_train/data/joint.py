"""Supervised and self-supervised batches in one run."""

from __future__ import annotations

import math

import numpy as np
from torch.utils.data import Dataset

from muvr_train.data.batch import Batch


class JointBatches(Dataset[Batch]):
    """Two kinds of batches in turn, as evenly as a share allows: which kind batch `n` is follows from (seed, n).

    Of each kind the batches come in their own order and none is left out.

    Args:
        supervised: batches with labels.
        self_supervised: batches of views.
        share: of the self-supervised batches, in (0, 1).
        seed: says where in its turn the schedule starts.
    """

    def __init__(
        self, supervised: Dataset[Batch], self_supervised: Dataset[Batch], share: float = 0.5, seed: int = 0
    ) -> None:
        self.supervised, self.self_supervised, self.share = supervised, self_supervised, share
        self.start = float(np.random.default_rng([seed, 13]).random())

    def __getitem__(self, n: int) -> Batch:
        """Load batch `n`, counted from the start of training."""
        before, after = (math.floor(number * self.share + self.start) for number in (n, n + 1))
        return self.self_supervised[before] if after > before else self.supervised[n - before]
