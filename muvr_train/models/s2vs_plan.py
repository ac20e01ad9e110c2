"""How many pairs of videos S2VS reads at once: as many as are fast, or as a memory budget has room for."""

from __future__ import annotations

from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.memory import show_bytes

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
