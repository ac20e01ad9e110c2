"""Late fusion in which both parts must agree: their product."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead, part_present
from muvr_train.types import QueryBatch, StoreDims


class ProductFusion(FusionHead):
    """u_v u_t with u_p = a_p (s_p - c_p), cut at 0: a video that only one part likes loses (BASIC, arXiv 2510.25387).

    The centre c_p and the scale a_p > 0 are learned (a by its logarithm). They start at -1 and 1/2, which maps cosines
    to [0, 1]; so the untrained head orders videos by the product of what cosines can say at best. Centres that are
    fitted to the training split's scores instead, with nothing trained, are `calibration=product` and
    `calibration=harris` of an evaluation. A query with one part gets u |u|, which orders as the part itself does and is
    comparable with products. The head does not start as the mean.

    Args:
        dims: sizes of the feature store.
        parts: names of the two parts.
    """

    disagreement: float = 0.0

    def __init__(self, dims: StoreDims, parts: tuple[str, str] = ("video", "text")) -> None:
        super().__init__(dims)
        self.log_scale = nn.ParameterDict({name: nn.Parameter(torch.tensor(0.5).log()) for name in parts})
        self.centre = nn.ParameterDict({name: nn.Parameter(torch.tensor(-1.0)) for name in parts})

    def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
        """Merge part scores into [Q, N]; see the class."""
        flags = {name: part_present(query, name)[:, None] for name in parts}
        scaled = {
            name: self.log_scale[name].exp() * (torch.where(flags[name], value, 0.0) - self.centre[name])
            for name, value in parts.items()
        }
        first, *others = scaled
        alone = torch.where(flags[first], scaled[first], scaled[others[-1]] if others else 0.0)
        merged = alone * alone.abs()
        if not others:
            return merged
        one, two = (scaled[name].clamp(min=0.0) for name in (first, others[-1]))
        agreed = one * two - self.disagreement * (one - two) ** 2
        return torch.where(flags[first] & flags[others[-1]], agreed, merged)


class HarrisFusion(ProductFusion):
    """u_v u_t - 0.1 (u_v - u_t)^2, u as in `ProductFusion`: parts that disagree lose (i-CIR, arXiv 2510.25387).

    Args:
        dims: sizes of the feature store.
        parts: names of the two parts.
        disagreement: the factor 0.1.

    Raises:
        ConfigError: it is negative.
    """

    def __init__(self, dims: StoreDims, parts: tuple[str, str] = ("video", "text"), disagreement: float = 0.1) -> None:
        super().__init__(dims, parts)
        if not disagreement >= 0:
            raise ConfigError(f"fusion.disagreement={disagreement}: must be >= 0")
        self.disagreement = disagreement
