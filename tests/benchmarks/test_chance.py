"""What a random ranking reaches: against all orders of small databases."""

from __future__ import annotations

from itertools import permutations

import pytest

from muvr_train.benchmarks.chance import Chance, chance_of
from muvr_train.benchmarks.copies import plan_copies
from muvr_train.benchmarks.types import Judgement
from muvr_train.errors import DataError


def judgement(query: str, positives: int, negatives: int, counted: bool = True) -> Judgement:
    listed = [f"v{number}" for number in range(positives + negatives)]
    return Judgement(query, dict.fromkeys(listed[:positives], "copy"), frozenset(listed[positives:]), counted=counted)


def precision(order: tuple[bool, ...]) -> float:
    hits, total = 0, 0.0
    for place, match in enumerate(order, 1):
        hits += match
        total += match * hits / place
    return total / hits


@pytest.mark.parametrize(("positives", "negatives"), [(1, 0), (1, 1), (1, 4), (2, 3), (4, 0), (3, 4), (5, 1)])
def test_it_is_the_mean_over_all_orders(positives: int, negatives: int) -> None:
    orders = list(permutations([True] * positives + [False] * negatives))
    found = chance_of([judgement("q", positives, negatives)])
    assert found is not None
    assert found.mean_precision == pytest.approx(sum(map(precision, orders)) / len(orders))
    assert found.share == positives / (positives + negatives)
    assert found.best_first == 1 / positives


def test_queries_count_alike_and_pairs_by_number() -> None:
    found = chance_of([judgement("a", 1, 0), judgement("b", 1, 2), judgement("c", 2, 1, counted=False)])
    assert found == Chance(2, 4, pytest.approx((1 + (1 + 1 / 2 + 1 / 3) / 3) / 2), 1.0)  # type: ignore[arg-type]
    assert found.share == 0.5


def test_without_a_match_there_is_none() -> None:
    assert chance_of([]) is None
    assert chance_of([judgement("q", 0, 3)]) is None


def test_a_small_folder_says_its_chance_level() -> None:
    small = plan_copies([f"v{number}" for number in range(15)]).benchmark()
    (warning,) = small.warnings
    assert warning == (
        "test: 87 of 189 pairs of a query and a database video match (46.0 %); a random ranking would reach a mAP of "
        "53.2 and a uAP of 47.4, and recall@1 is at most 10.4. With about 25 test videos (125 in all) "
        "fewer than 10 % do"
    )
    assert small.select("test").warnings == (warning,)
    assert plan_copies([f"v{number}" for number in range(150)]).benchmark().warnings == ()


def test_levels_are_explained() -> None:
    (note,) = plan_copies(list("abcdef"), 0, (0.34, 0.33, 0.33)).benchmark().notes
    assert "copy" in note
    assert "event" in note
    assert "@distractor" in note


def test_folds_and_empty_test_splits_say_what_they_can() -> None:
    folds = plan_copies([f"v{number}" for number in range(15)], folds=3, fold=1).benchmark()
    assert "(75 in all)" in folds.warnings[0]
    val = plan_copies(list("abcd"), 0, (0.5, 0.5, 0.0)).benchmark()
    assert val.warnings[0].startswith("val: ")


@pytest.mark.parametrize(
    ("names", "fractions", "told"),
    [
        (
            ["a"],
            (0.6, 0.2, 0.2),
            r"1 usable video gives 1 for train, 0 for val .*\. Add videos: it takes at least 6$",
        ),
        (list("abc"), (0.5, 0.0, 0.5), r"3 usable videos give .* it takes at least 4$"),
        (list("abcdef"), (0.6, 0.2, 0.2), r"Add videos, or change data\.fractions=\[0\.6, 0\.2, 0\.2\]$"),
    ],
)
def test_advice_that_can_help(names: list[str], fractions: tuple[float, ...], told: str) -> None:
    with pytest.raises(DataError, match=told):
        plan_copies(names, 0, fractions)


def test_fewer_folds_are_advised_where_they_help() -> None:
    with pytest.raises(DataError, match=r"Add videos, or take fewer folds than 5$"):
        plan_copies(list("abcdef"), folds=5, fold=0)
