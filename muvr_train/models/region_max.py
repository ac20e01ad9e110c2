"""Frame-to-frame maps with the maximum over regions, block by block, in both passes.

The products of all regions of all videos, N^2 T^2 R^2 numbers, never exist at once. A block of them is multiplied,
reduced and dropped; of each maximum only its place is kept, one byte, from which the backward pass makes the block's
gradient. So no product is computed twice, and the gradient is exact. Where regions tie, the first one gets it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from muvr_train.models.functional import full_precision, half_type, products

BLOCK_ENTRIES = {"cpu": 700_000, "cuda": 32_000_000}
"""Products of one block: what stays in the second-level cache of a core or two, or enough to fill a GPU."""
BYTES_PER_PRODUCT = 12
"""The products of a block, what is compared with them or made of them, and smaller things."""


class Block(NamedTuple):
    """Videos of one block; `mirrored` where it stands for its mirror image too."""

    q: slice
    n: slice
    mirrored: bool


class Settings(NamedTuple):
    """How maps are made: see `region_maps`."""

    symmetric: bool
    same: bool
    half: torch.dtype | None
    entries: int


def region_maps(
    x_q: Tensor, x_n: Tensor, symmetric: bool = False, entries: int | None = None, half: torch.dtype | None = None
) -> Tensor:
    """Chamfer over regions of all frame pairs: mean over query regions of the max over target regions, float32.

    Source: ViSiL (arXiv 1908.07410, eq. 3). Equals `functional.frame_maps`, in bounded memory.

    Args:
        x_q: [Q, T1, R1, D].
        x_n: [N, T2, R2, D]. Where it is `x_q` itself, half of the products are enough.
        symmetric: the mean with the exchanged roles.
        entries: bound on the products of one block, None for the fast one; a block holds at least one pair of videos.
        half: multiply numbers rounded to this type (sums in float32). Autocast asks for its own.

    Returns:
        [Q, N, T1, T2].
    """
    entries = entries or BLOCK_ENTRIES.get(x_q.device.type, BLOCK_ENTRIES["cpu"])
    settings = Settings(symmetric, x_q is x_n, half or half_type(x_q), entries)
    return torch.as_tensor(_RegionMaps.apply(x_q, None if settings.same else x_n, settings))


def map_bytes(x_q: Tensor, x_n: Tensor, symmetric: bool) -> int:
    """Bytes per pair of videos that training keeps of `region_maps`: the map, its gradient, the places of maxima."""
    (t1, r1), (t2, r2) = x_q.shape[1:3], x_n.shape[1:3]
    places = 0 if r1 == r2 == 1 else r1 * _place_type(r2).itemsize + (r2 * _place_type(r1).itemsize if symmetric else 0)
    return t1 * t2 * (8 + places)


class _RegionMaps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_q: Tensor, x_n: Tensor | None, settings: Settings) -> Tensor:
        targets = x_q if x_n is None else x_n
        maps = x_q.new_empty((len(x_q), len(targets), x_q.shape[1], targets.shape[1]))
        ctx.settings, kept = settings, []
        with full_precision(x_q):
            for block in _blocks(x_q, targets, settings):
                q, n = x_q[block.q], _by_region(targets[block.n])
                grid = _grid(products(q.flatten(0, 2), n.flatten(0, 2), settings.half), q, n)
                parts, places = _reduce(grid, block, settings, any(ctx.needs_input_grad))
                kept += places
                _write(maps, parts, block, settings)
        ctx.save_for_backward(x_q, x_n, *kept)
        return maps

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        settings: Settings = ctx.settings
        x_q, x_n, *kept = ctx.saved_tensors
        targets = x_q if x_n is None else x_n
        grad_q, places = torch.zeros_like(x_q), iter(kept)
        grad_n = grad_q if x_n is None else torch.zeros_like(x_n)
        with full_precision(x_q):
            for block in _blocks(x_q, targets, settings):
                q, n = x_q[block.q], _by_region(targets[block.n])
                slopes = _slopes(grad, q, n, block, settings, places).view(q.flatten(0, 2).shape[0], -1)
                grad_q[block.q] += products(slopes, n.flatten(0, 2).T, settings.half).view(q.shape)
                back = products(slopes.T, q.flatten(0, 2).T, settings.half).view(n.shape)
                grad_n[block.n] += back.permute(1, 2, 0, 3)
        return grad_q, None if x_n is None else grad_n, None


def _blocks(x_q: Tensor, x_n: Tensor, settings: Settings) -> Iterator[Block]:
    """Blocks of about as many queries as targets; of equal videos, those on and above the diagonal."""
    (count_q, t1, r1, _), (count_n, t2, r2, _) = x_q.shape, x_n.shape
    pairs = max(1, settings.entries // max(1, t1 * r1 * t2 * r2))
    step_n = max(1, min(count_n, round(pairs**0.5)))
    step_q = step_n if settings.same else max(1, min(count_q, pairs // step_n))
    for i in range(0, count_q, step_q):
        for j in range(i if settings.same else 0, count_n, step_n):
            yield Block(slice(i, i + step_q), slice(j, j + step_n), settings.same and i != j)


def _by_region(x: Tensor) -> Tensor:
    """[N, T, R, D] -> [R, N, T, D]: a maximum over the first of several rows is a fast one."""
    return x.permute(2, 0, 1, 3).contiguous()


def _grid(flat: Tensor, q: Tensor, n: Tensor) -> Tensor:
    """Products [Q T1 R1, R2 N T2] as [Q T1, R1, R2, N T2]."""
    return flat.view(q.shape[0] * q.shape[1], q.shape[2], n.shape[0], n.shape[1] * n.shape[2])


def _directions(block: Block, settings: Settings) -> tuple[int, ...]:
    """Which dimensions of a grid are maximised: 2 = best target region, 1 = best query region (the roles exchanged)."""
    return (2, 1) if settings.symmetric or block.mirrored else (2,)


def _reduce(grid: Tensor, block: Block, settings: Settings, keep: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The mean of the maxima [Q T1, N T2] in each direction, and the places of the maxima."""
    parts, places = [], []
    if grid.shape[1] == grid.shape[2] == 1:
        return [grid[:, 0, 0]] * len(_directions(block, settings)), []
    for dim in _directions(block, settings):
        best = grid.amax(dim=dim)
        parts.append(best.mean(dim=1))
        if keep:
            places.append(_places(grid, best, dim))
    return parts, places


def _places(grid: Tensor, best: Tensor, dim: int) -> Tensor:
    """How far from the end the first maximum along `dim` stands: 1 is the last place."""
    count = grid.shape[dim]
    hits = torch.eq(grid, best.unsqueeze(dim), out=torch.empty_like(grid))
    return hits.mul_(_from_end(grid, dim)).amax(dim=dim).to(_place_type(count))


def _place_type(count: int) -> torch.dtype:
    return torch.uint8 if count < 2**8 else torch.int16 if count < 2**15 else torch.int32


def _from_end(like: Tensor, dim: int) -> Tensor:
    shape = [1] * like.ndim
    shape[dim] = like.shape[dim]
    return torch.arange(like.shape[dim], 0, -1, dtype=like.dtype, device=like.device).view(shape)


def _write(maps: Tensor, parts: list[Tensor], block: Block, settings: Settings) -> None:
    own = maps[block.q, block.n]
    shaped = [part.view(own.shape[0], own.shape[2], own.shape[1], own.shape[3]) for part in parts]
    if settings.symmetric:
        shaped = [(shaped[0] + shaped[1]) / 2] * 2
    own.copy_(shaped[0].transpose(1, 2))
    if block.mirrored:
        maps[block.n, block.q].copy_(shaped[1].permute(2, 0, 3, 1))


def _slopes(grad: Tensor, q: Tensor, n: Tensor, block: Block, settings: Settings, places: Iterator[Tensor]) -> Tensor:
    """The gradient of a block's products, [Q T1, R1, R2, N T2]."""
    forward = grad[block.q, block.n].transpose(1, 2).reshape(q.shape[0] * q.shape[1], -1)
    mirrored = forward
    if block.mirrored:
        mirrored = grad[block.n, block.q].permute(1, 3, 0, 2).reshape(forward.shape)
    if settings.symmetric:
        forward = (forward + mirrored) / 2 if block.mirrored else forward / 2
        mirrored = forward
    grid = _grid(q.new_empty((q.shape[:3].numel(), n.shape[:3].numel())), q, n)
    sides = zip(_directions(block, settings), (forward, mirrored), strict=False)
    if grid.shape[1] == grid.shape[2] == 1:
        return torch.stack([side for _, side in sides]).sum(dim=0)
    total = None
    for dim, side in sides:
        part = grid if total is None else torch.empty_like(grid)
        torch.eq(next(places).to(grid.dtype).unsqueeze(dim), _from_end(grid, dim), out=part)
        part.mul_((side / grid.shape[3 - dim])[:, None, None])
        total = part if total is None else total.add_(part)
    return torch.as_tensor(total)
