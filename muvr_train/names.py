"""Names that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def nearest_names(name: str, known: Iterable[str], limit: int = 1, least: float = 0.6) -> list[str]:
    """Give the most similar names, best first.

    >>> nearest_names("s2vs_evaclp", ["zero_shot", "s2vs_evaclip"])
    ['s2vs_evaclip']
    """
    rated = sorted(((_likeness(name, other), other) for other in known), key=lambda pair: (-pair[0], pair[1]))
    return [other for rate, other in rated if rate >= least][:limit]


def nearest_keys(key: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Give the dotted keys that may be meant: a slip in the last part, a wrong place, or a slip anywhere.

    >>> nearest_keys("model.lrr", ["model.chunk", "optimizer.lr", "trainer.precision"])
    ['optimizer.lr']
    """
    parent, _, last = key.rpartition(".")
    known = {other for other in known if not key.startswith(f"{other}.")}
    known = {other for other in known if other.rpartition(".")[0] == parent or not _is_everywhere(other, last)}

    def rate(other: str) -> float:
        other_parent, _, other_last = other.rpartition(".")
        last_rate = _likeness(last, other_last)
        if other_parent == parent:
            return last_rate + 0.1
        whole = _likeness(key, other) if key.count(".") == other.count(".") else 0.0
        return max(last_rate - 0.05, whole)

    rated = sorted(((rate(other), other) for other in known), key=lambda pair: (-pair[0], pair[1]))
    best = rated[0][0] if rated else 0.0
    return [other for score, other in rated if score >= max(0.6, best - 0.1)][:limit]


def _is_everywhere(other: str, last: str) -> bool:
    """Whether a key ends as one in every group does: it is meant elsewhere only where it is written out."""
    ending = other.rpartition(".")[2]
    return ending in ("name", "kind") and ending != last


def hint(names: list[str]) -> str:
    """Write the suggestion, if there is one.

    >>> "there is no 'lrr'" + hint(["lr"])
    "there is no 'lrr'; did you mean 'lr'?"
    """
    return f"; did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


def _likeness(a: str, b: str) -> float:
    """Rate from 0 to 1; a beginning of three letters or more counts as much as a slip."""
    a, b = a.lower(), b.lower()
    start = 0.7 if len(a) > 2 and b.startswith(a) else 0.0
    return max(start, SequenceMatcher(None, a, b).ratio())
