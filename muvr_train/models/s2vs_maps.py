"""Further channels of the map that S2VS reads: the fusion head's frame-to-frame maps, kept in step with the frames."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.cut import Cut
from muvr_train.models.functional import compact, repeat_short
from muvr_train.models.s2vs_plan import MIN_FRAMES
from muvr_train.models.s2vs_tiles import Side
from muvr_train.types import Tokens


def check_maps(maps: Tensor, q: Tokens, n: Tokens, channels: int) -> None:
    """Maps are float [Q, N, K, T1, T2]; T1 or T2 may be 1 where all frames of that side have one value.

    Raises:
        ConfigError: the fusion head gives something else, or the network has no place for them.
    """
    if not channels:
        raise ConfigError("model S2VS was built without extra maps: its fusion head must declare extra_maps")
    frames = q.mask.shape[1], n.mask.shape[1]
    wanted = (len(q), len(n), channels, *frames)
    sides = [got in (1, full) for got, full in zip(maps.shape[3:], frames, strict=False)]
    if maps.shape[:3] != wanted[:3] or maps.ndim != 5 or not all(sides):
        raise ConfigError(
            f"the fusion head's extra maps are {tuple(maps.shape)}; needed are {wanted}: queries, videos, extra_maps, "
            "frames of the query, frames of the video (1 for a side whose frames all have one value)"
        )


def in_step(maps: Tensor, given: tuple[Tokens, Tokens], sides: tuple[Side, Side], front: bool) -> Tensor:
    """Maps of the frames that `given` has, in its order, as maps of the frames of `sides`, in theirs.

    Frames are moved to the front and repeated, and videos sorted, as S2VS does it with their vectors.

    Args:
        maps: see `check_maps`.
        given: queries and videos, as indexed.
        sides: what became of them.
        front: whether real frames were moved to the front.
    """
    for axis, (tokens, side) in enumerate(zip(given, sides, strict=True)):
        order = _frame_order(tokens, front) if maps.shape[3 + axis] > 1 else None
        if order is not None:
            shape, index = [*maps.shape], [1, 1, 1, 1, 1]
            index[axis], index[3 + axis] = order.shape
            shape[3 + axis] = order.shape[1]
            maps = maps.gather(3 + axis, order.view(index).expand(shape))
        if side.places is not None:
            maps = maps.index_select(axis, torch.argsort(side.places))
    return maps


def _frame_order(tokens: Tokens, front: bool) -> Tensor | None:
    """Which frame [B, T'] stands at each place of what S2VS compares; None where nothing is moved."""
    count, frames = tokens.mask.shape
    places = torch.arange(frames, device=tokens.mask.device).expand(count, frames)
    numbered = Tokens(places[:, :, None, None], tokens.mask)
    moved = repeat_short(compact(numbered) if front else numbered, MIN_FRAMES)
    return None if moved is numbered else moved.x[:, :, 0, 0]


def pieces_of(maps: Tensor | None) -> Callable[..., Tensor | None]:
    """Gives pieces of maps by slices; None of None."""
    cut = None if maps is None else Cut(maps)
    return lambda *place: None if cut is None else cut[place]


def channels(maps: Tensor, extra: Tensor | None) -> Tensor:
    """What the CNN reads of pairs: maps [..., T1, T2] and further ones [..., K, T1, T2] as [P, 1 + K, T1, T2]."""
    maps = maps.flatten(0, -3)[:, None]
    if extra is None:
        return maps
    further = extra.flatten(0, -4).to(maps.dtype)
    return torch.cat([maps, further.expand(*further.shape[:2], *maps.shape[2:])], dim=1)
