"""Pieces of a tensor whose gradients add up in one tensor, each as soon as it is there.

The gradient of a slice is a tensor of the full size, once for each slice; that of torch.split is put together when all
pieces' gradients are there, which takes twice the size. Here a piece's gradient is added to its place and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from muvr_train.types import EncodedDatabase, EncodedQuery

Place = tuple[slice, ...]


class Cut:
    """A tensor to take pieces of: `Cut(x)[a, b]` is `x[a, b]` for slices a, b.

    Args:
        x: any tensor.
    """

    def __init__(self, x: Tensor) -> None:
        self._sum: list[Tensor] = []  # empty but during a backward pass
        self._learns = torch.is_grad_enabled() and x.requires_grad
        self._x = torch.as_tensor(_Whole.apply(x, self._sum)) if self._learns else x

    def __getitem__(self, place: Place) -> Tensor:
        """A view; its gradient is added to that of the whole."""
        return torch.as_tensor(_Piece.apply(self._x, self._sum, place)) if self._learns else self._x[place]


def query_chunks(q: EncodedQuery, n: EncodedDatabase, rows: int) -> Iterator[tuple[EncodedQuery, EncodedDatabase]]:
    """Queries in pieces, each with the whole database; indexed vectors get one gradient, see `Cut`."""
    targets = Cut(n.index.x)
    queries = targets if q.index is None or q.index is n.index else Cut(q.index.x)
    for start in range(0, len(q.query), rows):
        place = slice(start, start + rows)
        index = None if q.index is None else replace(q.index[place], x=queries[place,])
        yield EncodedQuery(q.query[place], index), replace(n, index=replace(n.index, x=targets[:,]))


class _Whole(torch.autograd.Function):
    """Its backward pass comes after those of all pieces, and passes their sum on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, total: list[Tensor]) -> Tensor:
        ctx.total = total
        ctx.set_materialize_grads(False)
        return x.view_as(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        del grad  # the pieces send none
        return ctx.total.pop() if ctx.total else None, None


class _Piece(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, total: list[Tensor], place: Place) -> Tensor:
        ctx.total, ctx.place, ctx.shape = total, place, x.shape
        ctx.set_materialize_grads(False)
        return x[place]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[None, None, None]:
        if grad is not None:
            if not ctx.total:
                ctx.total.append(grad.new_zeros(ctx.shape))
            ctx.total[0][ctx.place] += grad
        return None, None, None
