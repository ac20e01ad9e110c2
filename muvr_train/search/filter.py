"""Scores of MUVR-Filter: a query's score merged with that of a tag expression, officially and by AND and OR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.expressions import Expression, Or, conditions_of

Floats = NDArray[np.float32]
TagPlaces = dict[str, int]
"""Tag -> row among the tag scores, for the query of one expression."""
Rule = Callable[[Expression, Floats], Floats]
"""Reduces the signed scores [conditions, N] of an expression to [N]."""
RULES: dict[str, Rule] = {
    "sum": lambda _, signed: np.asarray(signed.sum(axis=0)),
    "max": lambda _, signed: np.asarray(signed.max(axis=0)),
    "min": lambda _, signed: np.asarray(signed.min(axis=0)),
}


def mode_suffix(tag_mode: float) -> str:
    """How a tag mode is written in the name of a row: a weight as 0.3 or 1.0, a K as 10.

    >>> [mode_suffix(value) for value in (0, 0.3, 1, 1.5, 10)]
    ['0.0', '0.3', '1.0', '1.5', '10']
    """
    value = float(tag_mode)
    return str(int(value)) if value > 1 and value.is_integer() else str(value)


def merge(base: Floats, adjustment: Floats, tag_mode: float) -> Floats:
    """Merge the score of a query and that of an expression, by MUVR's official rule.

    Args:
        base: [R, N] score of each row's query (officially tv), its own video included.
        adjustment: [R, N] score of each row's expression.
        tag_mode: 0 ignores the tags; up to 1 it is the weight p of `base + p * adjustment`; above 1, with K its whole
            part, the videos whose base is at least the K-th largest of the row (ties included) are ranked by
            `adjustment` alone, and all others below them by `base - 2`. A K beyond N takes all.

    Returns:
        float32 [R, N].
    """
    if tag_mode == 0:
        return base
    if tag_mode <= 1:
        return base + np.float32(tag_mode) * adjustment
    count = base.shape[1]
    k = min(int(tag_mode), count)
    threshold = np.partition(base, count - k, axis=1)[:, count - k, None]
    return np.where(base >= threshold, adjustment, base - np.float32(2))


def official_adjustment(expressions: Sequence[Expression], places: Sequence[TagPlaces], tags: Floats) -> Floats:
    """The official score of expressions: the sum of the cosines of `+` tags minus those of `-` tags.

    Args:
        expressions: [R].
        places: [R] where each expression's tags stand in `tags`.
        tags: [P, N] cosines.

    Returns:
        float32 [R, N].
    """
    return reduce_conditions(expressions, places, tags, RULES["sum"])


def logic_adjustment(expressions: Sequence[Expression], places: Sequence[TagPlaces], tags: Floats) -> Floats:
    """The score of expressions by their tree: AND, written or not, adds its conditions, OR takes the best of them.

    A condition is the signed cosine minus its mean over the database (`centred`). The mean is what "no evidence" looks
    like for this tag; without it, the tag that has the higher cosines with everything would decide an OR, and a
    negative condition, whose values lie below all positive ones, never would.

    AND: with cosines as log-odds, a sum is the product of independent probabilities, so every condition counts for
    every video. The minimum, the other common reading, sees one condition per video, and as cosines are noisy it ranks
    worse: on the golden data (synthetic, p = 0.3) AND has 60.9 mAP by sum, 44.6 by minimum and 30.4 without tags; OR
    has 63.6 by maximum and 57.0 by sum. Other expressions are ranked as by the official sum.

    Args:
        expressions: [R].
        places: [R] where each expression's tags stand in `tags`.
        tags: [P, N] cosines.

    Returns:
        float32 [R, N].
    """

    def by_tree(expression: Expression, signed: Floats) -> Floats:
        return RULES["max" if isinstance(expression, Or) else "sum"](expression, signed)

    return reduce_conditions(expressions, places, centred(tags), by_tree)


def centred(tags: Floats) -> Floats:
    """Subtract from each tag's cosines [P, N] their mean over the database."""
    return np.asarray(tags - tags.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32))


def reduce_conditions(
    expressions: Sequence[Expression], places: Sequence[TagPlaces], tags: Floats, rule: Rule
) -> Floats:
    """Reduce the signed scores of each expression's conditions to one row: float32 [R, N]."""
    reduced = np.empty((len(expressions), tags.shape[1]), dtype=np.float32)
    for row, (expression, place) in enumerate(zip(expressions, places, strict=True)):
        conditions = conditions_of(expression)
        signs = np.array([condition.sign for condition in conditions], dtype=np.float32)
        chosen = [place[condition.tag] for condition in conditions]
        reduced[row] = rule(expression, tags[chosen] * signs[:, None])
    return reduced
