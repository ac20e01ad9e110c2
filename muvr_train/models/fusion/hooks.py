"""Mistakes in a fusion head of the user's own: named with the head and its hook while scores are made."""

from __future__ import annotations

from contextlib import AbstractContextManager

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.own_code import check_shape, is_own, named
from muvr_train.types import QueryBatch


def hook(head: FusionHead, name: str) -> AbstractContextManager[None]:
    """Name the head and the hook in what goes wrong inside a hook of the user's own; see `own_code.named`."""
    return named(f"fusion head {type(head).__name__} fails in {name}", is_own(getattr(type(head), name)))


def check_scores(head: FusionHead, name: str, scores: object, shape: tuple[int, ...]) -> None:
    """Check what a hook gives: scores [Q, N].

    Raises:
        ConfigError: it gives something else.
    """
    check_shape(f"fusion head {type(head).__name__}: {name}", "scores [Q, N]", scores, shape)


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
