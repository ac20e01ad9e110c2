"""Fusions in which both parts must agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muvr_train.errors import ConfigError
from muvr_train.search.calibration.base import Floats
from muvr_train.search.calibration.z_fusion import Fusion


class Product(Fusion):
    """s_v' s_t' with s' = max(0, (s - low) / (mean - low)), low and mean those of the part's training scores.

    i-CIR (arXiv 2510.25387) divides by |low|, which is the same after centring of single vectors, whose mean score is
    0; this form needs no centring. A score below `low` counts as `low`. A query with one part is taken to have both of
    that score: its square is comparable with products.
    """

    def _scale(self, values: Floats) -> tuple[float, float]:
        low = float(values.min())
        return low, float(values.mean()) - low

    def fuse(self, parts: Mapping[str, Floats]) -> Floats:
        """Merge part scores [Q, N]."""
        scaled = [np.maximum(part, 0.0) for part in self._scaled(parts)]
        return self._merge(scaled[0], scaled[-1])

    def _merge(self, video: Floats, text: Floats) -> Floats:
        return video * text


class Harris(Product):
    """s_v' s_t' - weight * (s_v' - s_t')^2, with s' as in `Product`: parts that disagree lose (i-CIR, 2510.25387).

    The corner measure s_v' s_t' - c (s_v' + s_t')^2 orders alike: weight = c / (1 - 4 c), so c = 0.1 is weight 1/6.

    Args:
        weight: of the disagreement.

    Raises:
        ConfigError: it is negative.
    """

    def __init__(self, weight: float = 0.1) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"calibration.harris.weight={weight}: must be >= 0")
        self.weight = weight

    def _merge(self, video: Floats, text: Floats) -> Floats:
        return video * text - self.weight * (video - text) ** 2
