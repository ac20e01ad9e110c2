"""Centring: what all frames (all texts) have in common says nothing."""

from __future__ import annotations

import logging
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import DataError
from muvr_train.search.calibration.base import CalibrationStep, FitContext
from muvr_train.search.calibration.order import Kind

log = logging.getLogger(__name__)


class Centring(CalibrationStep):
    """x -> L2-normalised (x - mean): frames less the mean frame, texts less the mean text of the training split.

    The two means differ because images and texts of one encoder lie in different cones (i-CIR, arXiv 2510.25387). A
    vector that equals the mean becomes 0 and is similar to nothing. Without a training text, texts stay as they are.
    """

    kind: ClassVar[Kind] = "features"

    def fit(self, context: FitContext) -> None:
        """Learn `video` [D], `frames` [D_frames] and `text` [D_text], the last where there are texts.

        Raises:
            DataError: there is no training vector, or one is not finite.
        """
        for part in ("video", "frames", "text"):
            total, count = torch.zeros((), dtype=torch.float64), 0
            for block in context.vectors(part):
                total, count = total + block.double().sum(dim=0).cpu(), count + len(block)
            if count:
                if not bool(torch.isfinite(total).all()):
                    raise DataError("centring: the training features hold values that are not finite (NaN or inf)")
                self.state[part] = (total / count).float()
        if "video" not in self.state:
            raise DataError("centring: there is no training frame to take the mean of")
        if "text" not in self.state:
            log.warning("centring: no training query has a text vector, so texts are not centred")

    def features(self, x: Tensor, part: str) -> Tensor:
        """Subtract the mean of the part and normalise."""
        if part not in self.state:
            return x
        return F.normalize(x - self.state[part].to(x.device), dim=-1)
