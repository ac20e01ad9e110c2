"""MUVR's official fusion."""

from __future__ import annotations

from muvr_train.models.fusion.base import FusionHead


class MeanFusion(FusionHead):
    """MUVR's official fusion: the mean of video and text, whichever a query has, plus 0.3 times its tags; not trained.

    Source: arXiv 2510.21406.
    """

    learns_tags = False
