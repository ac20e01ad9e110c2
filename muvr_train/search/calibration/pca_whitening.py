"""PCA-whitening of what an untrained network compares."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError, DataError
from muvr_train.search.calibration.base import CalibrationStep, FitContext
from muvr_train.search.calibration.order import Kind
from muvr_train.whitening import Whitening


class PcaWhitening(CalibrationStep):
    """Frames as `whitening.Whitening` maps them, fitted on the training split; zeros fill them up to D.

    It acts on the comparison of videos (modes v and tv). Texts and the frames that they are compared with need the
    encoder's own alignment and stay as they are.

    Args:
        components: leading components kept; null keeps all.
        regularization: damping of small eigenvalues, in units of the mean eigenvalue.

    Raises:
        ConfigError: a value out of range.
    """

    kind: ClassVar[Kind] = "features"
    parts = ("video",)

    def __init__(self, components: int | None = None, regularization: float = 1e-3) -> None:
        super().__init__()
        if components is not None and components < 1:
            raise ConfigError(f"calibration.pca_whitening.components={components}: must be null or >= 1")
        if not regularization >= 0:
            raise ConfigError(f"calibration.pca_whitening.regularization={regularization}: must be >= 0")
        self.components, self.regularization = components, regularization

    def fit(self, context: FitContext) -> None:
        """Learn `mean` [D] and `projection` [D, components].

        Raises:
            DataError: fewer than two training vectors, all equal ones, or one that is not finite.
        """
        blocks = context.vectors("video")
        first = next(blocks, None)
        if first is None:
            raise DataError("pca_whitening: there is no training frame to fit it on")
        layer = Whitening(first.shape[-1], self.components, self.regularization).to(first.device)
        layer.fit(block for part in ([first], blocks) for block in part)
        if not bool(layer.projection.any()):
            raise DataError("pca_whitening: all training frames are equal, there is no variance to whiten")
        self.state = {"mean": layer.mean.cpu(), "projection": layer.projection.cpu()}

    def features(self, x: Tensor, part: str) -> Tensor:
        """Whiten the frames of the part "video"."""
        if part != "video":
            return x
        mean, projection = (self.state[name].to(x.device) for name in ("mean", "projection"))
        white = F.normalize((x - mean) @ projection, dim=-1)
        return F.pad(white, (0, x.shape[-1] - white.shape[-1]))
