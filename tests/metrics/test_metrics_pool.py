"""The pooled ranking that is counted from the rows' own sorts equals the sort of everything."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from muvr_train.metrics.ranks import rank_pooled, rank_positives, rank_rows


@pytest.mark.parametrize(("share", "values"), [(0.02, 10**6), (0.02, 30), (0.6, 30), (0.0, 30)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_few_and_many_positives_with_and_without_ties(share: float, values: int, kind: type) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, values, (7, 301)).astype(kind)
    relevance = rng.choice([1, 0, -1], p=[share, 0.9 - share, 0.1], size=scores.shape).astype(np.int8)
    relevance[3] = -1
    relevance[5] = 0
    rows, every = rank_pooled(scores, relevance)
    for found, expected in (
        (rows, rank_rows(scores, relevance)),
        (every, rank_positives(scores.ravel(), relevance.ravel())),
    ):
        for left, right in zip(astuple(found), astuple(expected), strict=True):
            np.testing.assert_array_equal(left, right)
