"""Scores in bounded memory: work in pieces, of which the backward pass does each one again.

Losses see all scores at once, and get the gradient of the whole batch: the first pass keeps nothing but the scores of
each piece, and when dL/dscores arrives, a piece is computed again, with the same random numbers (dropout), and sends
it on. This is GradCache (arXiv 2101.06983) at the level of scores instead of embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils.checkpoint import checkpoint

from muvr_train.errors import ConfigError
from muvr_train.memory import show_bytes

R = TypeVar("R")


def run_piece(work: Callable[..., R], *arguments: Any, again: bool = True) -> R:
    """`work(*arguments)`; with `again` nothing of it is kept but the result, and the backward pass calls it again."""
    if not again:
        return work(*arguments)
    result: R = checkpoint(work, *arguments, use_reentrant=False)
    return result


def pieces_at_once(fast: int, budget: int | None, fixed: int, each: int, what: str) -> int:
    """How many pieces of work to do at once: `fast`, or as many as a budget has room for.

    Args:
        fast: without a budget.
        budget: bytes, None for as many as are fast.
        fixed: bytes needed anyway.
        each: bytes of a piece.
        what: takes `fixed` and one piece, for the message.

    Raises:
        ConfigError: there is no room for a single one.
    """
    if budget is None:
        return fast
    count = (budget - fixed) // max(1, each)
    if count < 1:
        raise ConfigError(
            f"memory_budget is too small: {what} takes {show_bytes(fixed + each)} of it, and {show_bytes(budget)} are "
            "there for that. Give more, or shorten the videos (data.augment.max_frames)"
        )
    return min(fast, count)
