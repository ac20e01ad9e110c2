"""Mined negatives: the best-scored videos with relevance 0, drawn besides what a batch holds anyway."""

from __future__ import annotations

import numpy as np
import pytest

from muvr_train.data.mining import MinedNegatives, hardest
from muvr_train.data.one_to_many import OneToManyPlan
from tests.data.test_batches import make_benchmark

DATABASE = ("p/m00", "p/m01", "p/m10", "p/hard0", "p/easy", "p/q00", "p/q01", "p/m11")


def scores(**values: float) -> np.ndarray:
    return np.array([values.get(video[2:], 0.0) for video in DATABASE], dtype=np.float32)


def test_only_known_non_matches_come_the_best_scored_first() -> None:
    """Of query p/q01: p/m00 matches, p/m01 is not judged (its topic), p/q00 is of its topic, p/q01 is its own video."""
    asked = scores(m00=9, m01=8, q00=7, q01=6, m11=0.5, hard0=0.4, m10=0.9)
    found = list(hardest(make_benchmark(), "p/q01", DATABASE, asked, 20))
    assert [video for video, _ in found] == ["p/m10", "p/m11", "p/hard0", "p/easy"]
    assert [score for _, score in found] == pytest.approx([0.9, 0.5, 0.4, 0.0])
    assert [video for video, _ in hardest(make_benchmark(), "p/q01", DATABASE, asked, 2)] == ["p/m10", "p/m11"]
    assert list(hardest(make_benchmark(), "p/q01", DATABASE, asked, 0)) == []
    assert list(hardest(make_benchmark(), "p/q01", (), np.zeros(0), 5)) == []


def test_of_equal_scores_the_first_comes_first() -> None:
    found = list(hardest(make_benchmark(), "p/q00", DATABASE, scores(), 3))
    assert [video for video, _ in found] == ["p/m10", "p/hard0", "p/easy"]
    low = list(hardest(make_benchmark(), "p/q00", DATABASE, scores() - np.float32(np.inf), 2))
    assert [video for video, _ in low] == ["p/m10", "p/hard0"]


def plan(mined: MinedNegatives | None) -> OneToManyPlan:
    return OneToManyPlan(make_benchmark(), topics=3, queries_per_topic=2, positives=1, hard_negatives=1, mined=mined)


def test_without_lists_batches_are_what_they_were() -> None:
    empty = MinedNegatives(3)
    for n in range(8):
        one, other = plan(None)(n), plan(empty)(n)
        assert (one.queries, one.database) == (other.queries, other.database)
        assert np.array_equal(one.relevance, other.relevance)


def test_mined_videos_come_besides_and_change_nothing_else() -> None:
    mined = MinedNegatives(2)
    everything = {f"p/q{t}{i}": [f"p/m{(t + k) % 6}2" for k in range(1, 6)] for t in range(6) for i in range(2)}
    mined.replace(everything)
    seen = set()
    for n in range(12):
        one, other = plan(None)(n), plan(mined)(n)
        assert other.queries == one.queries
        assert other.database[: len(one.database)] == one.database  # random edits go by the place in the batch
        assert np.array_equal(other.relevance[:, : len(one.database)], one.relevance)
        assert len(set(other.database)) == len(other.database)
        for query in other.queries:
            row = other.relevance[other.queries.index(query)]
            drawn = [video for video in everything[query.id] if video in other.database]
            assert len(drawn) >= 2
            assert [row[other.database.index(video)] for video in drawn] == [0.0] * len(drawn)
            seen |= set(drawn)
        assert plan(mined)(n).database == other.database
    assert len(seen) == 6  # not always the first ones


def test_a_query_without_a_list_draws_nothing_and_short_lists_are_drawn_whole() -> None:
    mined = MinedNegatives(5)
    assert mined.draw("p/q00", np.random.default_rng(0)) == []
    mined.replace({"p/q00": ("a", "b")})
    assert mined.version == 1
    assert sorted(mined.draw("p/q00", np.random.default_rng(0))) == ["a", "b"]
    assert mined.draw("p/q01", np.random.default_rng(0)) == []
