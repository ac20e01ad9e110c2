"""Two kinds of batches in one run: a fixed schedule that leaves no batch of either kind out."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.data.joint import JointBatches


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, n: int) -> tuple[str, int]:
        return self.name, n


def kinds(share: float, seed: int, count: int) -> list[tuple[str, int]]:
    joint = JointBatches(cast(Any, Named("labels")), cast(Any, Named("views")), share, seed)
    return [cast(Any, joint[n]) for n in range(count)]


@given(share=st.floats(0.01, 0.99), seed=st.integers(0, 50))
def test_each_kind_comes_in_its_own_order_and_as_often_as_asked(share: float, seed: int) -> None:
    found = kinds(share, seed, 60)
    for name in ("labels", "views"):
        numbers = [n for kind, n in found if kind == name]
        assert numbers == list(range(len(numbers)))
    for count in range(1, 61):
        views = sum(kind == "views" for kind, _ in found[:count])
        assert abs(views - share * count) <= 1


def test_half_and_half_is_in_turn() -> None:
    names = [kind for kind, _ in kinds(0.5, 0, 10)]
    assert names[:2] * 5 == names
    assert set(names) == {"labels", "views"}


def test_the_seed_says_where_it_starts() -> None:
    assert kinds(0.3, 1, 20) == kinds(0.3, 1, 20)
    assert len({tuple(kinds(0.3, seed, 20)) for seed in range(10)}) > 1


@pytest.mark.parametrize("n", [10**6, 10**7])
def test_far_away_no_batch_is_lost(n: int) -> None:
    joint = JointBatches(cast(Any, Named("labels")), cast(Any, Named("views")), 0.3, 4)
    found = [cast(Any, joint[n + i]) for i in range(40)]
    for name in ("labels", "views"):
        numbers = [number for kind, number in found if kind == name]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
