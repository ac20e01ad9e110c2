"""What to look at first in one ranking: the best-scored non-matches and the first missed match."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muvr_train.metrics.ranks import TieGroups
from muvr_train.search.judged import JudgedScores


class Missed(NamedTuple):
    """A match that the ranking does not have where it should be.

    Attributes:
        video: database id.
        rank: from 1, the middle of its tie where scores are equal; None where the video has no score.
    """

    video: str
    rank: float | None


def top_false(judged: JudgedScores, row: int, count: int = 5) -> list[tuple[str, float]]:
    """The best-scored non-matches of a row: (database id, score), best first, equal scores by id."""
    columns = np.flatnonzero(judged.relevance[row] == 0)
    scores = judged.scores[row, columns]
    if len(columns) > count:
        near = scores >= np.partition(scores, -count)[-count]
        columns, scores = columns[near], scores[near]
    found = [(judged.database[column], float(score)) for column, score in zip(columns, scores, strict=True)]
    return sorted(found, key=lambda item: (-item[1], item[0]))[:count]


def first_missed(judged: JudgedScores, row: int, groups: TieGroups, unscored: frozenset[str]) -> Missed | None:
    """The best-ranked match outside the first R places, R = number of positives; else one without a score.

    Args:
        judged: the scores.
        row: of a judgement.
        groups: where the positives of all rows stand.
        unscored: videos of the partition's database that have no score, without the query's own.

    Returns:
        None where every match is in its place. Equal scores, and matches without a score, go by id.
    """
    first, last = np.searchsorted(groups.row, [row, row + 1])
    ranks = groups.start[first:last] + (groups.size[first:last] + 1) / 2
    late = np.flatnonzero(ranks > judged.n_positive[row])
    if len(late):
        columns = np.flatnonzero(judged.relevance[row] == 1)
        scores = judged.scores[row, columns]
        value = np.unique(scores)[::-1][late[0]]
        return Missed(min(judged.database[column] for column in columns[scores == value]), float(ranks[late[0]]))
    judgement = judged.judgements[row]
    lost = unscored & judgement.positives.keys()
    if judgement.ranked is not None:
        lost &= judgement.ranked
    return Missed(min(lost), None) if lost else None
