"""Products of padded token sets and their reductions, shared by the similarity networks (shape letters: types.py)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from muvr_train.types import Tokens

BLOCK_ELEMENTS = 8_000_000
"""Default bound on the entries of one block of a similarity product (float32: 32 MB)."""
MAX_COLUMNS = 1024
"""Width of those blocks: narrow products whose rows fill whole cache lines are 1.3x as fast as wide ragged ones."""


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast is off, for exact float32 products on the device of `x`."""
    return torch.autocast(device_type=x.device.type, enabled=False)


def half_type(x: Tensor) -> torch.dtype | None:
    """The type in which autocast would multiply on the device of `x`; None where it is off."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def products(a: Tensor, b: Tensor, half: torch.dtype | None = None) -> Tensor:
    """Dot products of all rows of a [A, D] with those of b [B, D]: [A, B].

    Args:
        a: float32 (float64 in tests).
        b: of the same type.
        half: bfloat16 or float16: the numbers are rounded to it before they are multiplied; sums and results stay
            float32. A GPU does that at the speed of half precision; elsewhere it saves nothing, for equal results.
    """
    if half is None:
        return a @ b.T
    if a.device.type == "cuda":
        return torch.mm(a.to(half), b.T.to(half), out_dtype=torch.float32)
    return a.to(half).to(a.dtype) @ b.to(half).to(b.dtype).T


def weighted(tokens: Tokens) -> Tensor:
    """Token vectors [B, T, R, D] in float32, times `weight` where there is one (weights must be >= 0)."""
    x = tokens.x.float()
    return x if tokens.weight is None else x * tokens.weight.float()[:, :, None, None]


def weigh_maps(maps: Tensor, q: Tokens, n: Tokens) -> Tensor:
    """Maps [Q, N, T1, T2] of unweighted frames times the weights of both frames of each pair (which are >= 0).

    A maximum over regions is the same before as after, and no product of regions needs a gradient for the weights.
    """
    if q.weight is not None:
        maps = maps * fill_padding(q.weight.float(), q.mask)[:, None, :, None]
    return maps if n.weight is None else maps * fill_padding(n.weight.float(), n.mask)[None, :, None, :]


def fill_padding(x: Tensor, mask: Tensor) -> Tensor:
    """Overwrite padded frames of x [B, T, ...] by copies of the video's first real frame.

    A maximum over frames is then the same as with padded entries at -inf, without a pass over the product. Videos
    without any real frame are left as they are.
    """
    if bool(mask.all()):
        return x
    first = mask.int().argmax(dim=1)
    copies = x[torch.arange(len(x), device=x.device), first][:, None].expand_as(x)
    return torch.where(mask.view(*mask.shape, *(1,) * (x.ndim - 2)), x, copies)


def forbid_empty(scores: Tensor, q_mask: Tensor, n_mask: Tensor) -> Tensor:
    """Scores [Q, N] with -inf wherever a side has no real frame at all."""
    empty = ~q_mask.any(dim=1)[:, None] | ~n_mask.any(dim=1)[None]
    return scores.masked_fill(empty, float("-inf"))


def block_sizes(count_q: int, count_n: int, cost: int, limit: int) -> tuple[int, int]:
    """How many queries and database entries to take at once so that queries * entries * cost <= limit.

    At least one of each is taken. Whole rows of the database come first, because a large product is faster.

    >>> block_sizes(10, 100, cost=4, limit=1000)
    (2, 100)
    >>> block_sizes(10, 1000, cost=4, limit=1000)
    (1, 250)
    """
    pairs = max(1, limit // max(1, cost))
    step_n = min(max(count_n, 1), pairs)
    step_q = max(1, min(max(count_q, 1), pairs // step_n))
    return step_q, step_n


def max_product(q: Tensor, n: Tensor, block_elements: int = BLOCK_ELEMENTS, half: torch.dtype | None = None) -> Tensor:
    """Largest dot product between the vectors of q [Q, A, D] and those of n [N, C, D]: [Q, N].

    Computed in blocks, so that no product holds more than about `block_elements` entries; `half`: see `products`.
    """
    (count_q, len_q, dim), (count_n, len_n, _) = q.shape, n.shape
    narrow = max(1, MAX_COLUMNS // max(1, len_n)) if q.device.type == "cpu" else count_n
    step_q, step_n = block_sizes(count_q, min(count_n, narrow), len_q * len_n, block_elements)
    if 16 < step_n < count_n:
        step_n -= step_n % 16
    rows = [q.new_empty((0, count_n))]
    for i in range(0, count_q, step_q):
        part_q = q[i : i + step_q].reshape(-1, dim)
        row = [q.new_empty((len(part_q) // len_q, 0))]
        for j in range(0, count_n, step_n):
            part_n = n[j : j + step_n].reshape(-1, dim)
            product = products(part_q, part_n, half).view(-1, len_q, len(part_n)).amax(dim=1)
            row.append(product.view(len(product), -1, len_n).amax(dim=2))
        rows.append(torch.cat(row, dim=1))
    return torch.cat(rows)


def pool_regions(products: Tensor, pooling: str, symmetric: bool = False) -> Tensor:
    """Reduce region products [..., R1, R2] to one value per frame pair.

    `chamfer`: mean over query regions of the max over target regions (ViSiL, arXiv 1908.07410, eq. 3); `symmetric`
    averages it with the exchanged roles. `max`: max over all region pairs (already symmetric).
    """
    if pooling == "max":
        return products.amax(dim=(-2, -1))
    forward = products.amax(dim=-1).mean(dim=-1)
    return (forward + products.amax(dim=-2).mean(dim=-1)) / 2 if symmetric else forward


def frame_maps(
    q: Tensor, n: Tensor, pooling: str = "chamfer", symmetric: bool = False, half: torch.dtype | None = None
) -> Tensor:
    """Frame-to-frame similarities of q [Q, T1, R1, D] with n [N, T2, R2, D]: [Q, N, T1, T2]; `half`: see `products`."""
    (count_q, t1, r1, dim), (count_n, t2, r2, _) = q.shape, n.shape
    flat = products(q.reshape(-1, dim), n.reshape(-1, dim), half)
    if r1 == r2 == 1:
        return flat.view(count_q, t1, count_n, t2).permute(0, 2, 1, 3)
    grid = flat.view(count_q, t1, r1, count_n, t2, r2).permute(0, 3, 1, 4, 2, 5)
    return pool_regions(grid, pooling, symmetric)


def pair_maps(
    q: Tensor, n: Tensor, pooling: str = "chamfer", symmetric: bool = False, half: torch.dtype | None = None
) -> Tensor:
    """Frame-to-frame similarities of q_i [P, T1, R1, D] with n_i [P, T2, R2, D]: [P, T1, T2]; `half` rounds both."""
    if half is not None:
        q, n = q.to(half).to(q.dtype), n.to(half).to(n.dtype)
    (count, t1, r1, _), (_, t2, r2, _) = q.shape, n.shape
    grid = q.flatten(1, 2) @ n.flatten(1, 2).transpose(1, 2)
    return pool_regions(grid.view(count, t1, r1, t2, r2).transpose(2, 3), pooling, symmetric)


def chamfer_frames(maps: Tensor, rows: Tensor | None = None, columns: Tensor | None = None) -> Tensor:
    """Mean over query frames of the max over target frames of maps [..., T1, T2] (ViSiL, eq. 4).

    Args:
        maps: similarities.
        rows: bool, broadcastable to [..., T1], True where a query frame is real; others are left out of the mean.
        columns: bool, broadcastable to [..., T2]; others are -inf before the max, and give 0 where none is real.
    """
    if columns is not None:
        maps = maps.masked_fill(~columns[..., None, :], float("-inf"))
    best = maps.amax(dim=-1)
    if columns is not None:
        best = torch.where(columns.any(dim=-1, keepdim=True), best, torch.zeros_like(best))
    if rows is None:
        return best.mean(dim=-1)
    rows = rows.expand(best.shape)
    return torch.where(rows, best, torch.zeros_like(best)).sum(dim=-1) / rows.sum(dim=-1).clamp(min=1)


def compact(tokens: Tokens) -> Tokens:
    """Move the real frames of every video to the front, in order (a video with holes equals the one without)."""
    if not bool((tokens.mask[:, 1:] & ~tokens.mask[:, :-1]).any()):
        return tokens
    return take_frames(tokens, torch.argsort(~tokens.mask, dim=1, stable=True))


def repeat_short(tokens: Tokens, least: int) -> Tokens:
    """Repeat the real frames of videos that have fewer than `least`, in turn, until they have `least`.

    Every video is treated by itself, whatever the padding of the batch; videos without a real frame stay empty.
    """
    count = tokens.mask.sum(dim=1, keepdim=True)
    short = (count < least) & (count > 0)
    if tokens.mask.shape[1] < least:
        tokens = tokens.pad_to(least)
    elif not bool(short.any()):
        return tokens
    position = torch.arange(tokens.mask.shape[1], device=tokens.mask.device)[None]
    order = torch.argsort(~tokens.mask, dim=1, stable=True)
    index = torch.where(short, order.gather(1, position % count.clamp(min=1)), position)
    taken = take_frames(tokens, index)
    return replace(taken, mask=torch.where(short, position < least, tokens.mask))


def take_frames(tokens: Tokens, index: Tensor) -> Tokens:
    """Choose frames by index [B, T'] within each video."""
    rows = torch.arange(len(tokens), device=index.device)[:, None]
    weight = None if tokens.weight is None else tokens.weight[rows, index]
    return replace(tokens, x=tokens.x[rows, index], mask=tokens.mask[rows, index], weight=weight)


def orthogonal_map(rows: int, columns: int) -> Tensor:
    """The identity if rows == columns, otherwise a matrix with orthonormal rows or columns from a fixed seed."""
    if rows == columns:
        return torch.eye(rows)
    generator = torch.Generator().manual_seed(0)
    tall = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    basis, triangle = torch.linalg.qr(tall)
    signed: Tensor = basis * triangle.diagonal().sign()
    return (signed if rows >= columns else signed.T).float().contiguous()
