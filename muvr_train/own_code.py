"""Mistakes in networks, fusion heads and losses of the user's own: named where they are called, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from muvr_train.errors import ConfigError, MuvrTrainError
from muvr_train.faults import place_of


def is_own(thing: object) -> bool:
    """Whether a class or a function is not of this package."""
    return not str(getattr(thing, "__module__", "")).startswith("muvr_train.")


@contextmanager
def named(what: str, own: bool, kind: type[ConfigError] = ConfigError) -> Iterator[None]:
    """Name what fails in anything that is raised inside, but for errors of this package and a lack of memory.

    The cause stays chained.

    Args:
        what: such as "fusion head MyHead fails in combine".
        own: whether it is the user's own; faults of this package stay what they are.
        kind: of the error.

    Raises:
        ConfigError: with the last line of the user's code.
    """
    try:
        yield
    except (MuvrTrainError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if not own:
            raise
        raise kind(f"{what}: {place_of(error)}") from error


def check_shape(what: str, kind: str, value: object, shape: tuple[int, ...]) -> None:
    """Check that something gives a tensor of a shape.

    Args:
        what: begins the message, such as "fusion head MyHead: combine".
        kind: what it must give, such as "scores [Q, N]".
        value: what it gave.
        shape: that it must have.

    Raises:
        ConfigError: it gave something else.
    """
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        raise ConfigError(f"{what} must give {kind}, here {list(shape)}, and gave {described(value)}")


def described(value: object) -> str:
    """What something is, for messages."""
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
