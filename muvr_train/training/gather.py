"""One batch over several processes: the database is gathered, score rows are gathered with their gradient.

Every process scores its own queries against the whole database of the batch and sees the whole score matrix, so that
losses need not know of processes, and one, two or three processes give the same gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from muvr_train.processes import Group
from muvr_train.types import Tokens


def gather_tokens(tokens: Tokens, group: Group) -> Tokens:
    """The videos of all processes, in the order of their ranks [B of all, T of the longest, R, D]; no gradient."""
    if group.size == 1:
        return tokens
    parts = zip(group.gather(tokens.x), group.gather(tokens.mask), strict=True)
    return Tokens.cat([Tokens(x, mask) for x, mask in parts])


class Anchor(nn.Module):
    """A parameter that every process's loss depends on, always with a gradient of 0; no optimiser or checkpoint has it.

    DDP waits for ever for a process whose loss depends on no parameter, as where it has no row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def _save_to_state_dict(self, *args: Any) -> None:
        """Nothing."""

    def _load_from_state_dict(self, *args: Any) -> None:
        """Nothing."""


def gather_rows(rows: Mapping[str, Tensor], count: int, group: Group, anchor: Tensor) -> dict[str, Tensor]:
    """Put the rows of all processes under each other, in the order of their ranks.

    Args:
        rows: of this process, float or bool [q] or [q, W] by name, q = its share of `count`; empty where q is 0. A
            name that only some processes have is filled with 0 (False) in the others.
        count: rows of all processes together.
        group: of the processes.
        anchor: the value of an `Anchor`.

    Returns:
        [count] or [count, W] by name, in every process. The gradient of this process's own rows comes out times the
        number of processes, because DDP takes the mean over them; that of a loss's own parameters needs no such factor,
        being the same in every process.
    """
    known: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for told in group.gather_objects({name: (value.dtype, tuple(value.shape[1:])) for name, value in rows.items()}):
        known.update(told)
    own = group.share(count)
    filled = {
        name: rows[name].float()
        if name in rows
        else anchor.new_zeros((own.stop - own.start, *shape), dtype=torch.float32)
        for name, (_, shape) in sorted(known.items())
    }
    flat = torch.cat(
        [value.detach().flatten(1) if value.ndim > 1 else value.detach()[:, None] for value in filled.values()], dim=1
    )
    widths = [shape[0] if shape else 1 for _, shape in (known[name] for name in filled)]
    result = {}
    for name, value in zip(filled, torch.split(torch.cat(group.gather(flat)), widths, dim=1), strict=True):
        dtype, shape = known[name]
        whole = value.reshape(count, *shape)
        if dtype == torch.bool:
            result[name] = whole > 0
        else:
            result[name] = _OwnRows.apply(whole, filled[name], anchor, own, group.size)
    return result


class _OwnRows(torch.autograd.Function):
    """Gathered rows [count, ...] whose gradient goes to this process's own."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, own: Tensor, anchor: Tensor, rows: slice, size: int) -> Tensor:  # noqa: ARG004
        ctx.rows, ctx.size, ctx.empty = rows, size, torch.zeros_like(anchor)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor, None, None]:
        (grad,) = grads
        return None, grad[ctx.rows] * ctx.size, ctx.empty, None, None
