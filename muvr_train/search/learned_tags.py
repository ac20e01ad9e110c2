"""Mode tv+tag: what a model's own head makes of tag expressions, added to its scores in mode tv."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Partition
from muvr_train.errors import DataError
from muvr_train.search.expanding import Expanded, ExpandedRows, Expander, refuse_nan_tags
from muvr_train.search.filter import Floats
from muvr_train.search.protocols import LearnedTags
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import TAGGED


def score_beside(source: LearnedTags, partition: Partition, matrix: ScoreMatrix) -> Expanded | None:
    """Score the queries of a partition under all of their tag expressions that can be read and have vectors.

    Args:
        source: also gave the scores.
        partition: with `filters`.
        matrix: the scores of its queries in mode tv.

    Returns:
        None where there is no such expression.

    Raises:
        DataError: a score is not finite.
    """
    queries = frozenset(matrix.queries)
    rows = [row for row in filter_rows(partition) if row.judgement.query in queries]
    able = [row for row in rows if all(source.has_tag(*pair) for pair in row.pairs)]
    if not able:
        return None
    pairs = tuple(dict.fromkeys(pair for row in able for pair in row.pairs))
    tags = source.mean_tag_scores(partition, pairs)
    refuse_nan_tags(tags, pairs, matrix.database)
    lacking = {"expressions_without_tag_vectors": len(rows) - len(able)}
    return learned(source, Expander(partition, matrix, pairs).expand(able, lacking), tags)


def learned(source: LearnedTags, rows: ExpandedRows, tags: Floats) -> Expanded:
    """Add to the scores of queries what the head makes of their tag expressions.

    Args:
        source: of the scores.
        rows: with the scores of mode tv.
        tags: [P, N] cosines.

    Raises:
        DataError: the head's scores are not finite.
    """
    added = source.tag_adjustments(rows.rows, rows.places, tags)
    if not np.isfinite(added).all():
        raise DataError("the head's scores of tags are not finite: look at the checkpoint (tag_weight, tag_threshold)")
    return Expanded(TAGGED, replace(rows.judged, scores=rows.judged.scores + added), rows.counts)
