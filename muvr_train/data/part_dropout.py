"""Part-dropout: training hides parts of queries at random, so that one model serves queries with any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muvr_train.benchmarks.expressions import Expression
from muvr_train.types import Masked, QueryBatch

M = TypeVar("M", bound=Masked)
WORD = 5
"""Tells these random numbers of a batch from its other ones."""


@dataclass(frozen=True)
class PartDropout:
    """The chance that a part is hidden from a row of a training batch, each from 0 to 1.

    Of video and text one always stays: where both would be hidden, either stays with chance 1/2.
    """

    video: float = 0.0
    text: float = 0.0
    tags: float = 0.0
    region: float = 0.0

    def __bool__(self) -> bool:
        """Whether anything is hidden at all."""
        return any(astuple(self))

    def rolls(self, seed: int, n: int, rows: int) -> NDArray[np.float64]:
        """The random numbers [rows, 5] of batch `n`, of which each process takes those of its own rows."""
        return np.random.default_rng([seed, WORD, n]).random((rows, 5))

    def hide(self, queries: QueryBatch, rolls: NDArray[np.float64]) -> QueryBatch:
        """Hide parts: their tokens become zeros under a False mask, and they are not present.

        Args:
            queries: q rows.
            rolls: [q, 5].
        """
        hidden = torch.from_numpy(rolls[:, :4] < np.array(astuple(self)))
        present = {part: flags.cpu() for part, flags in queries.present.items()}
        both = hidden[:, 0] & hidden[:, 1]
        video_stays = (both & torch.from_numpy(rolls[:, 4] < 0.5)) | ~present["text"]
        text_stays = (both & ~video_stays) | ~present["video"]
        hide = {
            "video": hidden[:, 0] & ~video_stays,
            "text": hidden[:, 1] & ~text_stays,
            "tags": hidden[:, 2],
            "region": hidden[:, 3],
        }
        kept = {part: flags & ~hide[part].to(flags.device) for part, flags in queries.present.items()}
        return replace(
            queries,
            video=_only(queries.video, kept.get("video")),
            text=_only(queries.text, kept.get("text")),
            tags=_only(queries.tags, kept.get("tags")),
            region=_only(queries.region, kept.get("region")),
            present=kept,
        )

    def judged(self, relevance: Tensor, expressions: Sequence[Expression | None], rolls: NDArray[np.float64]) -> Tensor:
        """Judge rows whose tags are hidden without them.

        Args:
            relevance: [Q, N] of the whole batch.
            expressions: [Q]; the row of a query without one stands before its rows with one.
            rolls: [Q, 5].
        """
        relevance, plain = relevance.clone(), 0
        for row, expression in enumerate(expressions):
            if expression is None:
                plain = row
            elif rolls[row, 2] < self.tags:
                relevance[row] = relevance[plain]
        return relevance


def _only(part: M | None, kept: Tensor | None) -> M | None:
    """A part with zeros in the rows that are not kept."""
    if part is None or kept is None or bool(kept.all()):
        return part
    rows = kept.to(part.x.device)

    def change(value: Tensor) -> Tensor:
        return torch.where(rows.view(-1, *(1,) * (value.ndim - 1)), value, torch.zeros_like(value))

    return part.each(change)
