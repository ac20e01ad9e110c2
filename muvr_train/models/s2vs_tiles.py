"""How S2VS cuts its pairs of videos into pieces: by rows and columns, videos of like length together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from muvr_train.types import Tokens

Scored = tuple[Tensor, Tensor]
"""Scores and range excess, [Q, N] each."""


@dataclass(frozen=True)
class Side:
    """Videos of one side of a comparison.

    Attributes:
        x: what is multiplied, [B, T, R, D].
        mask: real frames [B, T].
        counts: the number of real frames of each video.
        trim: real frames come first, and what is cut off behind the longest video changes nothing, but at least so
            many are kept; 0 where nothing is cut off.
        places: where each video stands that was once in place 0, 1, ...; None where all stand where they stood.
    """

    x: Tensor
    mask: Tensor
    counts: list[int]
    trim: int
    places: Tensor | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: slice) -> Side:
        """Choose videos; as long as the longest of them, if padding may go."""
        counts = self.counts[rows]
        width = max(self.trim, *counts) if self.trim and counts else self.x.shape[1]
        return Side(self.x[rows, :width], self.mask[rows, :width], counts, self.trim)

    @property
    def padded(self) -> bool:
        """Whether some frame is none."""
        return any(count < self.x.shape[1] for count in self.counts)


def make_side(tokens: Tokens, x: Tensor, trim: bool, least: int) -> Side:
    """The videos of `tokens` with vectors x, the shortest first where their padding may be trimmed.

    Args:
        tokens: real frames first if `trim`.
        x: [B, T, R, D].
        trim: see `Side`.
        least: frames that are kept of all videos.
    """
    counts = tokens.mask.sum(dim=1).tolist()
    if not trim or min(counts, default=0) == x.shape[1]:
        return Side(x, tokens.mask, counts, trim=0)
    order = sorted(range(len(counts)), key=counts.__getitem__)
    index = torch.tensor(order, device=x.device, dtype=torch.long)
    return Side(x[index], tokens.mask[index], [counts[place] for place in order], least, torch.argsort(index))


def back_in_order(matrix: Tensor, q: Side, n: Side) -> Tensor:
    """Rows and columns [Q, N] as they were before the sides were sorted."""
    matrix = matrix if q.places is None else matrix[q.places]
    return matrix if n.places is None else matrix[:, n.places]


def paired(q: Side, n: Side) -> tuple[Tensor, Tensor] | None:
    """The masks of both sides of all pairs, [Q N, T1] and [Q N, T2]; None where no frame is padded."""
    if not (q.padded or n.padded):
        return None
    return q.mask.repeat_interleave(len(n), dim=0), n.mask.repeat(len(q), 1)


def tiled(
    score: Callable[[slice, slice], Scored], count_q: int, count_n: int, steps: tuple[int, int], like: Tensor
) -> Scored:
    """Put together what `score` gives of tiles of at most `steps` queries and targets."""
    rows = [_cat([_empty(0, count_n, like)], 1)]
    for i in range(0, count_q, steps[0]):
        a = slice(i, min(i + steps[0], count_q))
        tiles = [score(a, slice(j, min(j + steps[1], count_n))) for j in range(0, count_n, steps[1])]
        rows.append(_cat(tiles or [_empty(a.stop - a.start, 0, like)], 1))
    return _cat(rows[1:] or rows, 0)


def _empty(rows: int, columns: int, like: Tensor) -> Scored:
    return (like.flatten()[:0].view(rows, columns),) * 2  # with a gradient, if `like` has one


def _cat(blocks: list[Scored], dim: int) -> Scored:
    scores, excess = zip(*blocks, strict=True)
    return torch.cat(scores, dim), torch.cat(excess, dim)
