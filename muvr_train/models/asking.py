"""Calls of similarity networks: what a network of the user's own raises is named, what any gives is checked."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.own_code import check_shape, described, is_own, named
from muvr_train.types import Tokens


class NetworkError(ConfigError):
    """A network of the user's own has raised something."""


def index_of(network: SimilarityNetwork, video: Tokens) -> Tokens:
    """The network's own tokens of videos.

    Raises:
        ConfigError: it gives no tokens of these videos; of a network of the user's own also, it fails.
    """
    with _named(network, "index"):
        found: object = network.index(video)
    if not isinstance(found, Tokens):
        raise ConfigError(f"{_name(network)}: _index must give Tokens, and gave {described(found)}")
    if len(found) != len(video):
        raise ConfigError(f"{_name(network)}: _index must give the {len(video)} videos it got, and gave {len(found)}")
    return found


def similarity_of(
    network: SimilarityNetwork, q: Tokens, n: Tokens, wanted: frozenset[str] = frozenset(), maps: Tensor | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Scores [Q, N] of indexed videos, and the extras that are wanted.

    Raises:
        ConfigError: it gives something of another shape; of a network of the user's own also, it fails.
    """
    extras: dict[str, Tensor] = {}
    if not wanted:
        with _named(network, "similarity"):
            scores = network.similarity(q, n, maps)
    else:
        with _named(network, "similarity_with_extras"):
            scores, extras = network.similarity_with_extras(q, n, wanted, maps)
    shape = len(q), len(n)
    check_shape(f"{_name(network)}: similarity", "scores [Q, N]", scores, shape)
    for name, value in extras.items():
        kind, own = ("[Q]", shape[:1]) if name == "self" else ("[Q, N]", shape)
        check_shape(f"{_name(network)}: similarity_with_extras, for {name!r},", kind, value, own)
    return scores, extras


def map_of(network: SimilarityNetwork, q: Tokens, n: Tokens) -> Tensor:
    """The map behind the score of one pair: [T1', T2'].

    Raises:
        ConfigError: it gives something else; of a network of the user's own also, it fails.
    """
    with _named(network, "similarity_map"):
        found: object = network.similarity_map(q, n)
    if not isinstance(found, Tensor) or found.ndim != 4 or found.shape[:2] != (1, 1):
        raise ConfigError(
            f"{_name(network)}: similarity_map must give [Q, N, T1, T2], here [1, 1, T1, T2], and gave "
            f"{described(found)}"
        )
    return found[0, 0]


def _name(network: SimilarityNetwork) -> str:
    return f"similarity network {type(network).__name__}"


def _named(network: SimilarityNetwork, method: str) -> AbstractContextManager[None]:
    return named(f"{_name(network)} fails in {method}", is_own(type(network)), NetworkError)
