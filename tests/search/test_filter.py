"""Scores of tag expressions against slow twins, at the edges of the official rule, and the upper bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.expressions import conditions_of, parse
from muvr_train.benchmarks.types import Judgement
from muvr_train.metrics.functional import average_precision, ranking_metrics
from muvr_train.search.filter import logic_adjustment, merge, mode_suffix, official_adjustment
from muvr_train.search.judged import JudgedScores
from muvr_train.search.upper_bound import best_combination
from tests.reference.tags import logic_score, official_conditions, official_scores

TAGS = ("a", "b", "c")
TEXTS = ("+a", "-b", "+a -b", "-a -b -c", "AND +a -b", "OR +a +c", "OR -a +b -c", "AND -c")
PLACES = {tag: row for row, tag in enumerate(TAGS)}


def random_scores(seed: int, videos: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(-1, 1, (len(TEXTS), videos)).astype(np.float32),
        rng.uniform(-1, 1, (len(TAGS), videos)).astype(np.float32),
    )


@given(st.integers(0, 10**6), st.sampled_from([0, 0.0, 0.05, 0.3, 1, 1.0, 1.5, 2, 3, 11, 12, 13, 1000]))
def test_official_scores_are_those_of_the_slow_twin(seed: int, tag_mode: float) -> None:
    base, tags = random_scores(seed)
    if seed % 3 == 0:
        base = np.round(base, 1)  # ties at the K-th place
    chosen = [text for text in TEXTS if official_conditions(text) is not None]
    trees = [parse(text) for text in chosen]
    adjustment = official_adjustment(trees, [PLACES] * len(trees), tags)
    found = merge(base[: len(trees)], adjustment, tag_mode)
    assert found.dtype == np.float32
    for row, text in enumerate(chosen):
        conditions = [(sign, tags[PLACES[tag]].tolist()) for sign, tag in official_conditions(text)]
        slow = official_scores(base[row].tolist(), tag_mode, conditions)
        np.testing.assert_allclose(found[row], slow, atol=1e-6)


def test_the_top_k_holds_every_tie_at_the_last_place() -> None:
    base = np.array([[0.9, 0.5, 0.5, 0.5, 0.1]], dtype=np.float32)
    adjustment = np.array([[-0.9, 0.1, 0.2, 0.3, 0.9]], dtype=np.float32)
    second = merge(base, adjustment, 2)[0]
    np.testing.assert_allclose(second, [-0.9, 0.1, 0.2, 0.3, 0.1 - 2], atol=1e-6)
    for k in (1, 1.5, 1.999):
        np.testing.assert_allclose(merge(base, adjustment, k)[0][:2], [-0.9, 0.5 - 2] if k > 1 else [0, 0.6], atol=1e-6)
    np.testing.assert_array_equal(merge(base, adjustment, 5), adjustment)
    np.testing.assert_array_equal(merge(base, adjustment, 10**6), adjustment)
    np.testing.assert_array_equal(merge(base, adjustment, 0), base)


@given(st.integers(0, 10**6))
def test_logic_scores_are_those_of_the_slow_twin(seed: int) -> None:
    _, tags = random_scores(seed)
    found = logic_adjustment([parse(text) for text in TEXTS], [PLACES] * len(TEXTS), tags)
    means = {tag: float(tags[row].astype(np.float64).mean()) for tag, row in PLACES.items()}
    for row, text in enumerate(TEXTS):
        slow = [
            logic_score(text, {tag: float(tags[place, video]) for tag, place in PLACES.items()}, means)
            for video in range(tags.shape[1])
        ]
        np.testing.assert_allclose(found[row], slow, atol=1e-6)


def test_logic_ranks_plain_expressions_as_the_official_sum() -> None:
    _, tags = random_scores(3)
    for text in ("+a", "-b", "+a -b", "AND +a -b"):
        plain = parse(text.removeprefix("AND "))
        official = official_adjustment([plain], [PLACES], tags)
        logic = logic_adjustment([parse(text)], [PLACES], tags)
        np.testing.assert_allclose(np.ptp(official - logic), 0, atol=1e-6)


def test_no_expression_gives_no_row() -> None:
    _, tags = random_scores(0)
    assert official_adjustment([], [], tags).shape == logic_adjustment([], [], tags).shape == (0, 12)


def judged_rows(seed: int) -> tuple[JudgedScores, np.ndarray]:
    base, tags = random_scores(seed)
    relevance = (np.random.default_rng(seed + 1).random(base.shape) < 0.3).astype(np.int8)
    relevance[:, 0] = -1
    relevance[-1] = 0
    n_positive = (relevance == 1).sum(axis=1) + 1
    names = tuple(f"v{column}" for column in range(base.shape[1]))
    rows = tuple(Judgement("q", {}, expression=text) for text in TEXTS)
    return JudgedScores(rows, names, base, relevance, n_positive, np.ones(len(rows), dtype=bool)), tags


@given(
    st.integers(0, 10**6),
    st.lists(st.sampled_from([0.0, 0.05, 0.37, 1.0, 1.5, 2, 4, 11, 1000]), max_size=3).map(tuple),
    st.floats(0.2, 30),
    st.sampled_from([1, 3, 100]),
)
def test_the_upper_bound_is_above_every_row_of_its_modes(
    seed: int, modes: tuple[float, ...], scale: float, block: int
) -> None:
    """For any cuts and scales: official tag scores may fall below all that follows the top K, centred ones not."""
    judged, tags = judged_rows(seed)
    tags *= np.float32(scale)
    trees, places = [parse(text) for text in TEXTS], [PLACES] * len(TEXTS)
    # the official program cuts at blanks, so it may read another expression than the one that is meant
    cuts = [parse(text) for text in ("+a", "+c", "-a", "-a -b", "AND +a -b", "OR +a +c", "OR -a +b -c", "AND -c")]
    official = [(cut, PLACES) if official_conditions(text) else None for cut, text in zip(cuts, TEXTS, strict=True)]
    best = best_combination(judged, trees, places, tags, modes, block=block, official=official)
    assert best.dtype == np.float32
    bound = ranking_metrics(best, judged.relevance, judged.n_positive, ())["AP"]
    for mode in (0, *modes):
        logic = merge(judged.scores, logic_adjustment(trees, places, tags), mode)
        assert (bound >= ranking_metrics(logic, judged.relevance, judged.n_positive, ())["AP"] - 1e-12).all()
        tag = merge(judged.scores, official_adjustment(cuts, places, tags), mode)
        values = ranking_metrics(tag, judged.relevance, judged.n_positive, ())["AP"]
        assert (bound[:4] >= values[:4] - 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_upper_bound_is_above_the_base(seed: int) -> None:
    judged, tags = judged_rows(seed)
    best = best_combination(judged, [parse(text) for text in TEXTS], [PLACES] * len(TEXTS), tags, (0.37, 1.0, 4))
    bound = ranking_metrics(best, judged.relevance, judged.n_positive, ())["AP"]
    assert (bound[:-1] > ranking_metrics(judged.scores, judged.relevance, judged.n_positive, ())["AP"][:-1]).any()
    assert bound[-1] == 0
    np.testing.assert_array_equal(best[-1], judged.scores[-1])


@pytest.mark.parametrize("block", [1, 3, 100])
def test_the_upper_bound_does_not_depend_on_blocks(block: int) -> None:
    judged, tags = judged_rows(7)
    trees, places = [parse(text) for text in TEXTS], [PLACES] * len(TEXTS)
    whole = best_combination(judged, trees, places, tags)
    np.testing.assert_array_equal(best_combination(judged, trees, places, tags, block=block), whole)


def test_the_upper_bound_by_hand() -> None:
    """One positive that only the minimum puts first: sum and maximum are misled by one strong condition."""
    tags = np.array([[0.0, 0.2, 0.9, -0.8], [0.0, 0.2, -0.7, 0.8]], dtype=np.float32)
    relevance = np.array([[0, 1, 0, 0]], dtype=np.int8)
    base = np.zeros((1, 4), dtype=np.float32)
    judged = JudgedScores((Judgement("q", {}),), ("v", "w", "x", "y"), base, relevance, np.array([1]), np.array([True]))
    tree = parse("AND +a +b")
    best = best_combination(judged, [tree], [PLACES], tags)
    assert average_precision(best[0], relevance[0]) == 1.0
    assert len(conditions_of(tree)) == 2


def test_names_of_modes() -> None:
    assert [mode_suffix(mode) for mode in (0, 0.0, 0.3, 1, 1.0, 1.5, 2, 10, 100.0)] == [
        "0.0",
        "0.0",
        "0.3",
        "1.0",
        "1.0",
        "1.5",
        "2",
        "10",
        "100",
    ]
