"""MUVR's official fusion."""

from __future__ import annotations

from muvr_train.models.fusion.base import FusionHead


class MeanFusion(FusionHead):
    """The plain mean of the parts that a query has, (v + t) / 2 for video and text (arXiv 2510.21406); not trained."""
