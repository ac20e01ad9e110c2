"""Fusion of parts on a common scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from muvr_train.errors import DataError
from muvr_train.search.calibration.base import CalibrationStep, FitContext, Floats
from muvr_train.search.calibration.order import Kind

PARTS = ("video", "text")


class Fusion(CalibrationStep):
    """A fusion that puts part scores on a scale by two numbers of the training scores; see the subclasses."""

    kind: ClassVar[Kind] = "fusion"
    pairwise = True
    modes = ("tv",)

    def fit(self, context: FitContext) -> None:
        """Learn `<part>` float64 [2], shift and scale, for both parts.

        Raises:
            DataError: a part has no training scores, or they are all equal.
        """
        found = context.scores()
        for part in PARTS:
            values = found.get(part, np.zeros(0))
            if len(values) < 2:
                raise DataError(
                    f"{type(self).__name__}: {len(values)} training scores of the part {part}, needed are 2 or more "
                    "(queries with that part, and videos to compare them with)"
                )
            if not np.ptp(values) > 1e-9 * max(1.0, float(np.abs(values).max())):
                raise DataError(
                    f"{type(self).__name__}: the {len(values)} training scores of the part {part} are all equal "
                    f"({values[0]:g}, or not finite): they give no scale"
                )
            self.state[part] = torch.tensor(self._scale(values), dtype=torch.float64)

    def _scale(self, values: Floats) -> tuple[float, float]:
        raise NotImplementedError

    def _scaled(self, parts: Mapping[str, Floats]) -> list[Floats]:
        pairs = {name: self.state[name].tolist() for name in parts}
        return [(scores - pairs[name][0]) / pairs[name][1] for name, scores in parts.items()]


class ZFusion(Fusion):
    """Mean over the parts that a query has of (s - mean) / std, both of the part's training scores.

    The plain mean is ruled by the part whose scores spread more; here both count alike (models.md, section 5).
    """

    def _scale(self, values: Floats) -> tuple[float, float]:
        return float(values.mean()), float(values.std())

    def fuse(self, parts: Mapping[str, Floats]) -> Floats:
        """Merge part scores [Q, N]."""
        scaled = self._scaled(parts)
        mean: Floats = sum(scaled[1:], scaled[0]) / len(scaled)
        return mean
