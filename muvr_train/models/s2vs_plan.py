"""How many pairs of videos S2VS reads at once: as many as are fast, or as a memory budget has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.memory import show_bytes
from muvr_train.models.base import WORK_SHARE
from muvr_train.models.recompute import SHORTEN, pieces_at_once
from muvr_train.models.region_max import BYTES_PER_PRODUCT

if TYPE_CHECKING:
    from muvr_train.models.s2vs import S2VS
    from muvr_train.models.s2vs_tiles import Side

BUDGET_PARTS = 2 * WORK_SHARE
"""One part in so many of `memory_budget` is for the CNN in inference; the maps that it reads have as much."""
MIN_FRAMES = 4
CHUNK_CELLS = {"cpu": 60_000, "cuda": 4_000_000}
"""Cells of the maps that the CNN reads at once: what stays near a processor's caches, or enough to fill a GPU."""
MAP_ENTRIES = {"cpu": 1_000_000, "cuda": 64_000_000}
"""Cells of the maps that exist at once in inference."""
RECOMPUTE_ABOVE = {"cpu": 2**29, "cuda": 2**33}
"""Bytes of the CNN's activations in a training batch from which on they are computed twice instead of kept.

Just below this size all of it is kept, and a step takes more than a quarter of what the plain formulation takes; above
it less. model.checkpointing=true saves the memory at every size.
"""


def of_device(sizes: dict[str, int], x: Tensor) -> int:
    """The size for the device of `x`."""
    return sizes.get(x.device.type, sizes["cpu"])


def refuse_parts(pairs: int, pair_chunk: int | None, budget: int | None, size: int) -> None:
    """Batch norm in train mode has statistics of all pairs, and so cannot be computed in pieces.

    Args:
        pairs: of the batch.
        pair_chunk: how many the user wants at once.
        budget: bytes.
        size: bytes that all pairs take.

    Raises:
        ConfigError: they would not be done at once.
    """
    reason = None
    if pair_chunk is not None and pair_chunk < pairs:
        reason = f"model.pair_chunk={pair_chunk}, but the batch has {pairs} pairs of videos"
    if budget is not None and budget < size:
        reason = f"memory_budget={show_bytes(budget)}, but scoring the batch takes {show_bytes(size)}"
    if reason is not None:
        raise ConfigError(
            f"{reason}, and model.batch_norm=true needs all pairs of a training batch at once: set it "
            "off, give more memory or make the batch smaller"
        )


def pairs_at_once(network: S2VS, q: Side, n: Side) -> tuple[int, bool]:
    """How many pairs of two sides the CNN reads at once, and whether the backward pass computes them again.

    Raises:
        ConfigError: the budget has no room for one pair, or for all of them where batch norm needs all.
    """
    (t1, r1), (t2, r2), pairs = q.x.shape[1:3], n.x.shape[1:3], max(1, len(q) * len(n))
    learns, budget = network.training and torch.is_grad_enabled(), network.memory_budget
    each, what = t1 * t2 * network.head.cell_bytes(learns), f"a pair of videos of {t1} and {t2} frames"
    fast = network.pair_chunk or max(1, of_device(CHUNK_CELLS, q.x) // (t1 * t2))
    if not learns and network.divisible:
        products = BYTES_PER_PRODUCT * t1 * r1 * t2 * r2
        return pieces_at_once(fast, budget, products, each, what, BUDGET_PARTS), False
    kept = pairs * network.kept_bytes(q.x, n.x, t1 * t2)
    if not network.divisible:
        refuse_parts(pairs, network.pair_chunk, budget, kept + pairs * each)
        return pairs, False
    room = budget or of_device(RECOMPUTE_ABOVE, q.x)
    again = kept + pairs * each > room if network.checkpointing is None else network.checkpointing
    return pieces_at_once(fast, budget if again else None, kept, each, what, advice=SHORTEN), again
