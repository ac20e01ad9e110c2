"""How many queries of a batch training scores at a time, and how their scores come together again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.recompute import SHORTEN, pieces_at_once
from muvr_train.models.s2vs_plan import RECOMPUTE_ABOVE, of_device
from muvr_train.types import EncodedDatabase, EncodedQuery


def rows_at_once(
    network: SimilarityNetwork, head: FusionHead, chunk: int | None, q: EncodedQuery, n: EncodedDatabase
) -> int:
    """How many queries to score at once: `chunk`, or as many as the network's memory budget has room for.

    A head that compares one query at a time hides from the network how much there is to keep in all, and gets one
    query at once where it is too much (without a budget: what S2VS finds too much).

    Raises:
        ConfigError: `chunk` splits a batch whose scores depend on each other, or the budget has no room for one query.
    """
    count = max(1, len(q.query))
    if chunk is not None and chunk < count and not network.divisible:
        raise ConfigError(
            f"query_chunk={chunk} would split a batch of {count} queries, which changes the scores of "
            f"{type(network).__name__} (batch norm in train mode?)"
        )
    if not network.divisible or chunk is not None:
        return chunk or count
    pair, fixed = (0, 0) if q.index is None else network.training_bytes(q.index, n.index)
    words = sum(part.x.shape[1] for part in (q.query.text, q.query.tags) if part is not None)
    own, budget = head.training_bytes(q, n), network.memory_budget
    each = own + (pair + 16 * words * n.fine.x[0, :, :, 0].numel()) * len(n)
    fast = count
    if head.one_by_one and own:
        whole, room = count * (each + fixed * len(n)), budget or of_device(RECOMPUTE_ABOVE, n.raw.x)
        fast = count if whole <= room else 1
    return pieces_at_once(fast, budget, fixed, each, f"scoring one query against {len(n)} videos", advice=SHORTEN)


def join_rows(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Rows under each other; where only some have a name (a part that no other query has), 0 for the others."""
    counts = [len(next(iter(part.values()))) for part in parts]
    joined = {}
    for name, like in {name: value for part in parts for name, value in part.items()}.items():
        rows = zip(parts, counts, strict=True)
        joined[name] = torch.cat(
            [part[name] if name in part else like.new_zeros((count, *like.shape[1:])) for part, count in rows]
        )
    return joined
