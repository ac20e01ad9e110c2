"""Hard cases of a model, as MUVR-QA's were chosen (arXiv 2510.21406): best true match against best false one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_qa import QaRow
from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.metrics.functional import ranking_metrics
from muvr_train.metrics.ranks import Ties
from muvr_train.search.judged import JudgedScores

THRESHOLD = 0.05


@dataclass(frozen=True)
class HardCase:
    """A query that a model fails on, with the two videos to tell apart.

    Attributes:
        judgement: The query, with its tag expression where it has one.
        average_precision: Of its ranking.
        true: The highest-scoring match.
        false: The highest-scoring other video.
        listed: Whether the annotation lists `false` for this query (else it counts as no match because nobody listed
            it, as in the official evaluation: look at the pair).
    """

    judgement: Judgement
    average_precision: float
    true: str
    false: str
    listed: bool


@dataclass(frozen=True)
class Mined:
    """The hard cases of one partition, hardest first, and the number of queries of each kind that was looked at."""

    cases: tuple[HardCase, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


def mine(
    partition: Partition,
    judged: JudgedScores,
    threshold: float = THRESHOLD,
    most: int | None = None,
    ties: Ties = "average",
) -> Mined:
    """Find the queries below a threshold and pair their best true match with their best false one.

    Args:
        partition: with the lists of its queries.
        judged: its scores and judgements.
        threshold: average precision below which a query is a hard case.
        most: keep so many, hardest first; None for all.
        ties: tie policy of the average precision. Which video is best among equal scores, and which query comes first
            among equally hard ones, goes by id.

    Returns:
        The cases, and counts: `queries` (rows), `no_positive` (nothing is annotated, or the query is left out of mAP),
        `not_scored` (none of its matches has a score), `no_false` (nothing but matches is ranked), `below` (of the
        rest, under the threshold).
    """
    precision = ranking_metrics(judged.scores, judged.relevance, judged.n_positive, ks=(), ties=ties)["AP"]
    counts = Counter(queries=len(judged.judgements), no_positive=0, not_scored=0, no_false=0, below=0)
    lists = {judgement.query: judgement.listed for judgement in partition.judgements}
    cases = []
    for row, judgement in enumerate(judged.judgements):
        relevance = judged.relevance[row]
        if not judged.n_positive[row] or not judged.counted[row]:
            counts["no_positive"] += 1
        elif not (relevance == 1).any():
            counts["not_scored"] += 1
        elif not (relevance == 0).any():
            counts["no_false"] += 1
        elif precision[row] < threshold:
            counts["below"] += 1
            true, false = (_best(judged, row, relevance == label) for label in (1, 0))
            listed = false in lists[judgement.query]
            cases.append(HardCase(judgement, float(precision[row]), true, false, listed))
    cases.sort(key=lambda case: (case.average_precision, case.judgement.query, case.judgement.expression or ""))
    return Mined(tuple(cases[:most]), counts)


def questions(partition: Partition, mined: Mined) -> list[QaRow]:
    """Two adjacent questions a case, the true one first; ids without their partition."""
    queries = {query.id: query for query in partition.queries}
    return [
        _question(partition.name, queries[case.judgement.query], case.judgement, target, label)
        for case in mined.cases
        for target, label in ((case.true, 1), (case.false, 0))
    ]


def _question(partition: str, query: Query, judgement: Judgement, target: str, label: int) -> QaRow:
    video, target = (name.removeprefix(f"{partition}/") for name in (query.video_id, target))
    return QaRow(video, target, label, query.text or "", judgement.expression or "")


def _best(judged: JudgedScores, row: int, among: NDArray[Any]) -> str:
    scores = judged.scores[row]
    return min(judged.database[place] for place in np.flatnonzero(among & (scores == scores[among].max())))
