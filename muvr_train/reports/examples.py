"""Which queries a report shows, and what each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muvr_train.benchmarks.types import Judgement, Query
from muvr_train.metrics.ranks import Floats
from muvr_train.results import Kept

CHOICES = ("lowest AP", "highest AP", "middle AP")


@dataclass(frozen=True)
class Found:
    """A database video in a ranking: its place from 1 on, its score, and whether it matches.

    `relation` is the annotation's word for it: the level of a match, "hard non-match", "non-match", "not listed".
    """

    video: str
    rank: int
    score: float
    hit: bool
    relation: str


@dataclass(frozen=True)
class Example:
    """A query with its first results and the best-ranked match that is not among them.

    `choice` says why it is shown, `positives` the number that AP is divided by.
    """

    partition: str
    mode: str
    choice: str
    query: Query
    expression: str | None
    precision: float
    positives: int
    results: tuple[Found, ...]
    missed: Found | None


def choose_rows(kept: Sequence[Kept], precisions: Sequence[Floats], most: int) -> list[tuple[int, int, str]]:
    """Choose rows with low, high and middle average precision, evenly over partitions.

    Args:
        kept: the scores of the partitions, in one mode or several.
        precisions: the average precision of each of their rows.
        most: how many in all.

    Returns:
        (index of the partition, row, why), sorted by partition and then as in `CHOICES`.
    """
    orders = []
    for part, values in zip(kept, precisions, strict=True):
        able = np.flatnonzero(part.judged.counted & (part.judged.n_positive > 0))
        orders.append(able[np.argsort(values[able], kind="stable")])
    chosen: dict[tuple[int, int], str] = {}
    longest = max((len(order) for order in orders), default=0)
    for turn in range(longest):
        for choice in CHOICES:
            for index, order in enumerate(orders):
                if turn < len(order) and len(chosen) < most:
                    place = {"lowest AP": turn, "highest AP": -1 - turn}.get(
                        choice, (len(order) // 2 + turn) % len(order)
                    )
                    chosen.setdefault((index, int(order[place])), choice)
    found = [(index, row, choice) for (index, row), choice in chosen.items()]
    return sorted(found, key=lambda entry: (entry[0], CHOICES.index(entry[2])))


def make_example(part: Kept, row: int, choice: str, precision: float, most: int) -> Example:
    """Look up what a query found.

    Args:
        part: the scores.
        row: which judgement.
        choice: why it is shown.
        precision: its average precision.
        most: results to show; equal scores stand in the order of the database.
    """
    judged = part.judged
    judgement, scores = judged.judgements[row], judged.scores[row]
    ranked = np.flatnonzero(judged.relevance[row] >= 0)
    values = scores[ranked]
    first = (
        np.arange(len(ranked)) if len(ranked) <= most else np.flatnonzero(values >= np.partition(values, -most)[-most])
    )
    order = ranked[first[np.argsort(-values[first], kind="stable")][:most]]
    results = tuple(_found(judgement, judged.database[c], place, scores[c]) for place, c in enumerate(order, 1))
    left = np.setdiff1d(np.flatnonzero(judged.relevance[row] == 1), order)
    missed = None
    if len(left):
        best = left[np.argmax(scores[left])]
        rank = int((values > scores[best]).sum()) + 1
        missed = _found(judgement, judged.database[best], max(rank, len(order) + 1), scores[best])
    query = next(query for query in part.partition.queries if query.id == judgement.query)
    positives = int(judged.n_positive[row])
    where = part.partition.name, part.mode
    return Example(*where, choice, query, judgement.expression, precision, positives, results, missed)


def _found(judgement: Judgement, video: str, rank: int, score: float) -> Found:
    if video in judgement.positives:
        return Found(video, rank, float(score), True, judgement.positives[video])
    hard = "hard non-match" if video in judgement.hard_negatives else None
    relation = hard or ("non-match" if video in judgement.negatives else "not listed")
    return Found(video, rank, float(score), False, relation)
