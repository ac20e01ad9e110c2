"""What tag prompts could give at best: for every row the combination that its labels like most. No method, a bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from muvr_train.benchmarks.expressions import Expression, conditions_of
from muvr_train.metrics.functional import ranking_metrics
from muvr_train.metrics.ranks import Ties
from muvr_train.search.filter import (
    RULES,
    Floats,
    TagPlaces,
    centred,
    merge,
    official_adjustment,
    reduce_conditions,
)
from muvr_train.search.judged import JudgedScores

WEIGHTS = (0.1, 0.3, 0.5, 1.0, 2.0)
TOP_KS = (10, 100)
"""The family of combinations, besides the tag modes that were asked for and ranking by the tags alone."""


def best_combination(
    judged: JudgedScores,
    expressions: Sequence[Expression],
    places: Sequence[TagPlaces],
    tags: Floats,
    tag_modes: Sequence[float] = (),
    ties: Ties = "average",
    block: int = 256,
    official: Sequence[tuple[Expression, TagPlaces] | None] = (),
) -> Floats:
    """Give every row the scores of that combination of query and tags that has the best average precision there.

    The family: the conditions (signed, centred cosines) reduced by sum, maximum or minimum; added to the base with
    `WEIGHTS`, alone, or as the order of the top K; with `tag_modes` also the rows by AND and OR and the `official`
    ones. So no expression's average precision is below that of its rows `tag_*` and `logic_*` of these modes; the mAP
    of `tag_*`, which are fewer expressions, may still be higher. It looks at the labels: the distance to it is what
    choosing a combination for each query could give, and what is above it needs better features. (The paper, arXiv
    2510.21406, speaks of an upper bound from combining tag prompts; this definition is ours.)

    Args:
        judged: R rows with the scores of their queries alone, and what is right.
        expressions: [R].
        places: [R] where each expression's tags stand in `tags`.
        tags: [P, N] cosines.
        tag_modes: further modes of `filter.merge`.
        ties: tie policy.
        block: rows treated at a time.
        official: [R] the expression as the official program cuts it, with its places; None where it evaluates none.
            Empty for no such rows.

    Returns:
        float32 [R, N].
    """
    base, uncentred, tags = judged.scores, tags, centred(tags)
    best = base.copy()
    for start in range(0, len(base), block):
        rows = np.arange(start, min(start + block, len(base)))
        found = _precision(judged, rows, best[rows], ties)
        families = (
            _family(base, expressions, places, tags, rows, tag_modes),
            _official(base, official, uncentred, rows, tag_modes),
        )
        for members, scores in chain(*families):
            value = _precision(judged, members, scores, ties)
            better = value > found[members - start]
            best[members[better]] = scores[better]
            found[members[better] - start] = value[better]
    return best


def _family(
    base: Floats,
    expressions: Sequence[Expression],
    places: Sequence[TagPlaces],
    tags: Floats,
    rows: np.ndarray,
    tag_modes: Sequence[float],
) -> Iterator[tuple[np.ndarray, Floats]]:
    """Rows and their scores under one combination; the rules differ only for rows with several conditions."""
    weights = sorted({*WEIGHTS, *(mode for mode in tag_modes if mode <= 1)} - {0.0})
    tops = sorted({*TOP_KS, *(mode for mode in tag_modes if mode > 1)})
    several = rows[[len(conditions_of(expressions[row])) > 1 for row in rows]]
    for name, rule in RULES.items():
        members = rows if name == "sum" else several
        if not len(members):
            continue
        chosen = [expressions[row] for row in members], [places[row] for row in members]
        adjustment = reduce_conditions(*chosen, tags, rule)
        yield members, adjustment
        for weight in weights:
            yield members, base[members] + np.float32(weight) * adjustment
        for top in tops:
            yield members, merge(base[members], adjustment, top)


def _official(
    base: Floats,
    official: Sequence[tuple[Expression, TagPlaces] | None],
    tags: Floats,
    rows: np.ndarray,
    tag_modes: Sequence[float],
) -> Iterator[tuple[np.ndarray, Floats]]:
    """Rows and their official scores: cosines as they are, so that a top K may fall among the other videos."""
    read = {row: pair for row in rows.tolist() if official and (pair := official[row]) is not None}
    if read:
        members = np.array(list(read))
        trees, places = zip(*read.values(), strict=True)
        adjustment = official_adjustment(trees, places, tags)
        for mode in tag_modes:
            yield members, merge(base[members], adjustment, mode)


def _precision(judged: JudgedScores, rows: np.ndarray, scores: Floats, ties: Ties) -> np.ndarray:
    return ranking_metrics(scores, judged.relevance[rows], judged.n_positive[rows], (), ties)["AP"]
