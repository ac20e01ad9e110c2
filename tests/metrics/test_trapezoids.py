"""Average precision by trapezoids: hand-worked values, expected values over all orders of ties."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.metrics.trapezoids import trapezoid_average_precision
from tests.reference.video_similarity import trapezoids


def test_hand_worked_values() -> None:
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    # positives first and third: (1 + 1) / 2, (1/2 + 2/3) / 2
    assert trapezoid_average_precision(scores, np.array([1, 0, 1, 0]), 2) == pytest.approx((1 + 7 / 12) / 2, abs=1e-12)
    # a third positive that was not found
    assert trapezoid_average_precision(scores, np.array([1, 0, 1, 0]), 3) == pytest.approx((1 + 7 / 12) / 3, abs=1e-12)
    # the only positive at the end: (0 + 1/4) / 2
    assert trapezoid_average_precision(scores, np.array([0, 0, 0, 1]), 1) == pytest.approx(1 / 8, abs=1e-12)
    # second place, whose first item is not judged, is the first place: precision before the first item is 1
    assert trapezoid_average_precision(scores, np.array([-1, 1, 0, 0]), 1) == pytest.approx(1.0, abs=1e-12)
    assert trapezoid_average_precision(scores, np.array([0, 0, -1, 0]), 0) == 0.0


def test_a_tie_of_everything() -> None:
    """Two items, one positive: first (1 + 1) / 2 or second (0 + 1/2) / 2, on average 5/8."""
    tied = np.zeros(2), np.array([0, 1])
    assert trapezoid_average_precision(*tied, 1) == pytest.approx(5 / 8, abs=1e-12)
    assert trapezoid_average_precision(*tied, 1, ties="optimistic") == pytest.approx(1.0, abs=1e-12)
    assert trapezoid_average_precision(*tied, 1, ties="pessimistic") == pytest.approx(1 / 4, abs=1e-12)


rankings = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6)


@given(rankings)
def test_ties_count_by_their_expected_value_over_all_orders(items: list[tuple[int, int]]) -> None:
    scores, relevance = np.array([item[0] for item in items], dtype=float), np.array([item[1] for item in items])
    matches = {place for place, (_, right) in enumerate(items) if right}
    if not matches:
        assert trapezoid_average_precision(scores, relevance, 0) == 0.0
        return
    values = [
        trapezoids(sorted(order, key=lambda place: -items[place][0]), matches) / len(matches)
        for order in permutations(range(len(items)))
    ]
    expected = {"average": np.mean(values), "optimistic": max(values), "pessimistic": min(values)}
    for ties, value in expected.items():
        found = trapezoid_average_precision(scores, relevance, len(matches), ties=ties)  # type: ignore[arg-type]
        assert found == pytest.approx(value, abs=1e-12)
