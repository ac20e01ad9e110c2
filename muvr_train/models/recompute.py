"""Scores in bounded memory: work in pieces, of which the backward pass does each one again.

Losses see all scores at once, and get the gradient of the whole batch: the first pass keeps nothing but the scores of
each piece, and when dL/dscores arrives, a piece is computed again, with the same random numbers (dropout), and sends
it on. This is GradCache (arXiv 2101.06983) at the level of scores instead of embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from muvr_train.errors import ConfigError
from muvr_train.memory import show_bytes

R = TypeVar("R")
SHORTEN = ", or shorten the videos (data.augment.max_frames)"
"""What else helps where a training step is too large."""


def run_piece(work: Callable[..., R], *arguments: Any, again: bool = True) -> R:
    """`work(*arguments)`; with `again` nothing of it is kept but the result, and the backward pass calls it again.

    Random numbers are then the same on all devices of the arguments. Under autocast each piece casts the weights for
    itself, so that the gradients of pieces are summed in the type of the weights: of a cast that pieces share they
    would be summed in half precision, which loses more the more pieces there are.

    The first call with `again` in a process imports torch._dynamo (seconds, 160 MB), as any optimizer does before.
    """
    devices = devices_of(arguments)
    with _own_casts({device.type for device in devices}):
        if not again:
            return work(*arguments)
        seen = [torch.empty(0, device=device) for device in devices]  # checkpoint looks into no dataclass
        result: R = checkpoint(lambda _, *values: work(*values), seen, *arguments, use_reentrant=False)
        return result


def devices_of(value: object) -> set[torch.device]:
    """Devices of all tensors in a value: in dataclasses and containers too."""
    if isinstance(value, Tensor):
        return {value.device}
    parts: list[object] = []
    if is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, (list, tuple)):
        parts = [*value]
    elif isinstance(value, dict):
        parts = [*value.values()]
    return set[torch.device]().union(*map(devices_of, parts))


def _own_casts(kinds: set[str]) -> ExitStack:
    """Autocast as it is, but for the cache of weights."""
    stack = ExitStack()
    for kind in kinds:
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(kind, torch.get_autocast_dtype(kind), cache_enabled=False))
    return stack


def pieces_at_once(
    fast: int, budget: int | None, fixed: int, each: int, what: str, share: int = 1, advice: str = ""
) -> int:
    """How many pieces of work to do at once: `fast`, or as many as a budget has room for.

    Args:
        fast: without a budget.
        budget: bytes, None for as many as are fast.
        fixed: bytes needed anyway.
        each: bytes of a piece.
        what: takes `fixed` and one piece, for the message.
        share: one part in so many of the budget is there for it.
        advice: what else helps, for the message.

    Raises:
        ConfigError: there is no room for a single one.
    """
    if budget is None:
        return fast
    count = (budget // share - fixed) // max(1, each)
    if count < 1:
        raise ConfigError(
            f"memory_budget={show_bytes(budget)} is too small for {what}: "
            f"give at least {show_bytes(int(1.06 * share * (fixed + max(1, each))))}{advice}"
        )
    return min(fast, count)
