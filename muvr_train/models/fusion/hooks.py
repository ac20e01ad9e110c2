"""Mistakes in a fusion head of the user's own: named with the head and its hook while scores are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from muvr_train.errors import ConfigError, MuvrTrainError
from muvr_train.faults import place_of
from muvr_train.models.fusion.base import FusionHead
from muvr_train.types import QueryBatch


def is_users_own(head: FusionHead, name: str) -> bool:
    """Whether a head has a hook that is not of this package."""
    return not getattr(type(head), name).__module__.startswith("muvr_train.")


@contextmanager
def hook(head: FusionHead, name: str) -> Iterator[None]:
    """Name the head and the hook in what goes wrong inside a hook of the user's own; the cause stays chained.

    Raises:
        ConfigError: the hook raised something that is neither an error of this package nor a lack of memory.
    """
    try:
        yield
    except (MuvrTrainError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if not is_users_own(head, name):
            raise
        raise ConfigError(f"fusion head {type(head).__name__} fails in {name}: {place_of(error)}") from error


def check_scores(head: FusionHead, name: str, scores: object, shape: tuple[int, ...]) -> None:
    """Check what a hook gives: scores [Q, N].

    Raises:
        ConfigError: it gives something else.
    """
    if isinstance(scores, Tensor) and tuple(scores.shape) == shape:
        return
    got = f"a tensor {list(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
    raise ConfigError(
        f"fusion head {type(head).__name__}: {name} must give scores [Q, N], here {list(shape)}, and gave {got}"
    )


def check_parts(head: FusionHead, parts: object, shape: tuple[int, int]) -> None:
    """Check what `compare` gives: scores [Q, N] of at least one part, by name.

    Raises:
        ConfigError: it gives something else.
    """
    if not isinstance(parts, dict) or not parts:
        got = "no part" if isinstance(parts, dict) else f"a {type(parts).__name__}"
        raise ConfigError(f"fusion head {type(head).__name__}: compare must give part scores by name, and gave {got}")
    for name, scores in parts.items():
        check_scores(head, f"compare, for {name!r},", scores, shape)


def check_query(head: FusionHead, query: object, given: QueryBatch) -> None:
    """Check what `prepare` gives: the batch's queries, in their order.

    Raises:
        ConfigError: it gives something else.
    """
    if not isinstance(query, QueryBatch):
        raise ConfigError(
            f"fusion head {type(head).__name__}: prepare must give a QueryBatch, and gave a {type(query).__name__}"
        )
    if query.ids != given.ids:
        raise ConfigError(f"fusion head {type(head).__name__}: prepare must give the same queries in the same order")
