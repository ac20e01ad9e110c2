"""The text part: how well a text describes the best frame of a video."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.functional import (
    BLOCK_ELEMENTS,
    fill_padding,
    forbid_empty,
    full_precision,
    max_product,
    orthogonal_map,
    weighted,
)
from muvr_train.types import TextTokens, Tokens


class TextPart(nn.Module):
    """Largest cosine between W t and x over text tokens, target frames and regions; in [-1, 1].

    W has no bias. It starts as the identity where the sizes agree, so that an untrained part is exactly MUVR's score t,
    and as a fixed orthogonal map otherwise.

    Args:
        dim_text: size of the text vectors.
        dim_frame: size of the frame vectors.
        training_pooling: in train mode, "logsumexp" replaces the maximum by temperature * log(mean(exp(cosine /
            temperature))), which sends gradient to all frames and lies between mean and maximum; "max" keeps it.
        temperature: of that soft maximum.
        block_elements: bound on the entries of one similarity product in eval mode.
    """

    def __init__(
        self,
        dim_text: int,
        dim_frame: int,
        training_pooling: str = "logsumexp",
        temperature: float = 0.05,
        block_elements: int = BLOCK_ELEMENTS,
    ) -> None:
        super().__init__()
        if training_pooling not in ("logsumexp", "max"):
            raise ConfigError(f"training_pooling={training_pooling!r}: must be 'logsumexp' or 'max'")
        if temperature <= 0:
            raise ConfigError(f"text temperature={temperature}: must be > 0")
        self.training_pooling, self.temperature, self.block_elements = training_pooling, temperature, block_elements
        self.projection = nn.Linear(dim_text, dim_frame, bias=False)
        with torch.no_grad():
            self.projection.weight.copy_(orthogonal_map(dim_frame, dim_text))

    def forward(self, text: TextTokens, video: Tokens) -> Tensor:
        """Scores float32 [Q, N]; -inf where a side has no real entry."""
        with full_precision(video.x):
            x_q = F.normalize(self.projection(text.x.float()), dim=-1)
            if self.training and self.training_pooling == "logsumexp":
                scores = self._soft_maximum(x_q, text.mask, video)
            else:
                x_n = fill_padding(weighted(video), video.mask).flatten(1, 2)
                scores = max_product(fill_padding(x_q, text.mask), x_n, self.block_elements)
            return forbid_empty(scores, text.mask, video.mask)

    def _soft_maximum(self, x_q: Tensor, q_mask: Tensor, video: Tokens) -> Tensor:
        real = q_mask[:, None, :, None, None] & video.mask[None, :, None, :, None]
        cosines = torch.einsum("qld,ntrd->qnltr", x_q, weighted(video)) / self.temperature
        real = real.expand(cosines.shape).flatten(2)
        # -1e4 instead of -inf: exp gives 0 all the same, and an empty row has finite gradients
        soft = torch.logsumexp(cosines.flatten(2).masked_fill(~real, -1e4), dim=-1)
        count = real.sum(dim=-1).clamp(min=1)
        return (soft - count.to(soft.dtype).log()) * self.temperature
