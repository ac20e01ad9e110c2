"""One batch over several processes: the database is gathered, score rows are gathered with their gradient.

Every process scores its own queries against the whole database of the batch and sees the whole score matrix, so that
losses need not know of processes, and one, two or three processes give the same gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from muvr_train.processes import Group
from muvr_train.types import Tokens


def gather_tokens(tokens: Tokens, group: Group) -> Tokens:
    """The videos of all processes, in the order of their ranks [B of all, T of the longest, R, D]; no gradient."""
    if group.size == 1:
        return tokens
    parts = zip(group.gather(tokens.x), group.gather(tokens.mask), strict=True)
    return Tokens.cat([Tokens(x, mask) for x, mask in parts])


def gather_rows(
    rows: Mapping[str, Tensor], count: int, group: Group, device: torch.device | None = None
) -> dict[str, Tensor]:
    """Put the rows of all processes under each other, in the order of their ranks.

    Args:
        rows: of this process, float or bool [q] or [q, W] by name, q = its share of `count`; empty where q is 0. A
            name that only some processes have is filled with 0 (False) in the others.
        count: rows of all processes together.
        group: of the processes.
        device: where the rows are; needed by a process that has none.

    Returns:
        [count] or [count, W] by name, in every process. The gradient of this process's own rows comes out times the
        number of processes, because DDP takes the mean over them; that of a loss's own parameters needs no such factor,
        being the same in every process.
    """
    if group.size == 1:
        return dict(rows)
    known: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for told in group.gather_objects({name: (value.dtype, tuple(value.shape[1:])) for name, value in rows.items()}):
        known.update(told)
    own = group.share(count)
    filled = {
        name: rows[name].float() if name in rows else torch.zeros((own.stop - own.start, *shape), device=device)
        for name, (_, shape) in sorted(known.items())
    }
    flat = torch.cat([value.flatten(1) if value.ndim > 1 else value[:, None] for value in filled.values()], dim=1)
    whole = _GatherRows.apply(flat, flat.new_zeros((), requires_grad=True), own, group)
    widths = [shape[0] if shape else 1 for _, shape in (known[name] for name in filled)]
    result = {}
    for name, value in zip(filled, whole.split(widths, dim=1), strict=True):
        dtype, shape = known[name]
        value = value.view(count, *shape)
        result[name] = value > 0 if dtype == torch.bool else value
    return result


class _GatherRows(torch.autograd.Function):
    """All rows [count, W] from own rows [q, W]; `anchor` gives a process without a row a backward pass too."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, anchor: Tensor, rows: slice, group: Group) -> Tensor:  # noqa: ARG004
        ctx.rows, ctx.size = rows, group.size
        return torch.cat(group.gather(own))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (grad,) = grads
        return grad[ctx.rows] * ctx.size, grad.new_zeros(()), None, None
