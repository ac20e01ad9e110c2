"""PCA-whitening of token vectors, fitted on the training split and saved with the weights."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import DataError

logger = logging.getLogger(__name__)


class Whitening(nn.Module):
    """x -> L2-normalised (x - mean) P, where P makes the training tokens uncorrelated with unit variance.

    P holds the leading eigenvectors of the covariance, each divided by sqrt(eigenvalue + regularization * mean
    eigenvalue); directions without variance in the training tokens are dropped (their column is 0). Signs are fixed by
    making the largest entry of every eigenvector positive. Source: Jegou and Chum, ECCV 2012 (PCA-whitening).

    Args:
        dim: size D of the vectors.
        components: number of leading components kept, 1..D (a larger number means D).
        regularization: damping of small eigenvalues, in units of the mean eigenvalue.
    """

    mean: Tensor
    projection: Tensor
    fitted: Tensor

    def __init__(self, dim: int, components: int | None = None, regularization: float = 1e-3) -> None:
        super().__init__()
        self.components = dim if components is None else min(components, dim)
        self.regularization = regularization
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("projection", torch.zeros(dim, self.components))
        self.register_buffer("fitted", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        """Whiten x [..., D] to [..., components] with unit L2 norm, in float32.

        Raises:
            DataError: if neither `fit` nor a checkpoint has set the statistics.
        """
        if not bool(self.fitted):
            raise DataError(
                "the model whitens its features (model.whiten) but the whitening has not been fitted: "
                "call fit() on the training split first, or load a checkpoint of a trained model"
            )
        with torch.autocast(device_type=x.device.type, enabled=False):
            return F.normalize((x.float() - self.mean) @ self.projection, dim=-1)

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Learn mean and projection from batches of vectors [M, D] (float64 sums, one pass, bounded memory).

        Raises:
            DataError: if the batches hold fewer than two vectors, or values that are not finite.
        """
        dim = len(self.mean)
        count = 0
        total, square = torch.zeros(dim, dtype=torch.float64), torch.zeros(dim, dim, dtype=torch.float64)
        for batch in batches:
            x = batch.detach().double()
            total, square = total.to(x.device), square.to(x.device)
            count += len(x)
            total += x.sum(dim=0)
            square += x.T @ x
        if count < 2:
            raise DataError(f"whitening needs at least 2 training vectors, got {count}")
        mean = total / count
        covariance = square / count - torch.outer(mean, mean)
        if not bool(torch.isfinite(covariance).all()):
            raise DataError("whitening: the training features hold values that are not finite (NaN or inf)")
        if count < self.components:
            logger.warning(
                "whitening: %d vectors for %d components; fewer components would be safer", count, self.components
            )
        self.mean.copy_(mean)
        self.projection.copy_(_projection(covariance.cpu(), self.components, self.regularization))
        self.fitted.fill_(True)


def _projection(covariance: Tensor, components: int, regularization: float) -> Tensor:
    """Columns of the whitening map, float64 [D, components]."""
    values, vectors = torch.linalg.eigh(covariance)
    values, vectors = values.flip(0)[:components].clamp(min=0), vectors.flip(1)[:, :components]
    peak = vectors.abs().argmax(dim=0)
    vectors = vectors * vectors.gather(0, peak[None]).sign()
    damped = values + regularization * covariance.diagonal().mean()
    alive = values > 1e-10 * values[0]
    return torch.where(alive, vectors / damped.clamp(min=torch.finfo(torch.float64).tiny).sqrt(), 0.0)
