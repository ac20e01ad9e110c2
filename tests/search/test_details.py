"""The best-scored non-matches, the first missed match, and scores of one level."""

from __future__ import annotations

import numpy as np
import pytest

from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.metrics.ranks import rank_rows
from muvr_train.search.details import Missed, first_missed, top_false
from muvr_train.search.judged import judge
from muvr_train.search.levels import levels_of, positives_of_level, ranked_levels
from muvr_train.search.scores import ScoreMatrix

NONE: frozenset[str] = frozenset()


def judged_of(scores, positives, database="abcdefgh", ranked=None, divisor="listed", scored=None):
    """One query `q` against videos named by letters."""
    query = Query("q", "p", "p/t")
    ids = tuple(database)
    partition = Partition("p", (query,), (Judgement("q", positives, ranked=ranked),), ids, divisor=divisor)
    columns = ids if scored is None else tuple(scored)
    return partition, judge(partition, ScoreMatrix(("q",), columns, np.array([scores], dtype=np.float32)))


def test_best_scored_non_matches_are_ordered_and_leave_out_matches_and_the_query():
    _, judged = judged_of([0.5, 0.25, 0.75, 1.0], {"a": "match"}, database=("a", "b", "猫", "q"))
    assert top_false(judged, 0) == [("猫", 0.75), ("b", 0.25)]
    assert top_false(judged, 0, 1) == [("猫", 0.75)]


def test_equal_scores_go_by_id_whatever_the_order():
    _, judged = judged_of([0.5] * 8, {"c": "match"}, database="hgfedcba")
    assert [video for video, _ in top_false(judged, 0, 3)] == ["a", "b", "d"]


def test_only_matches_give_an_empty_list():
    _, judged = judged_of([0.5, 0.2], {"a": "match", "b": "match"}, database="ab")
    assert top_false(judged, 0) == []


def test_first_missed_is_the_best_ranked_outside_the_first_r_places():
    # ranking: a+ b- c+ d- e+ ...; R = 3: c is at 3, e at 5
    _, judged = judged_of(np.linspace(1, 0, 8), {"a": "match", "c": "match", "e": "match"})
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) == Missed("e", 5.0)


def test_nothing_is_missed_in_a_perfect_ranking():
    _, judged = judged_of(np.linspace(1, 0, 8), {"a": "match", "b": "match"})
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) is None
    _, judged = judged_of(np.linspace(1, 0, 8), {})
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) is None
    _, judged = judged_of([1.0, 0.5], {"a": "match", "b": "match"}, database="ab")
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) is None


def test_rank_is_the_middle_of_a_tie():
    # a and b share places 1 and 2, both matches within R = 2; with c there are 3 for R = 1
    _, judged = judged_of([0.9, 0.9, 0.9, 0.1], {"b": "match"}, database="abcd")
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) == Missed("b", 2.0)
    _, judged = judged_of([0.9, 0.9, 0.5, 0.1], {"a": "match", "b": "match"}, database="abcd")
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) is None


@pytest.mark.parametrize("seed", range(30))
def test_first_missed_equals_a_full_sort(seed):
    rng = np.random.default_rng(seed)
    database = [f"v{i}" for i in range(20)]
    scores = rng.integers(0, 8, 20) / 8
    matches = dict.fromkeys(rng.choice(database, rng.integers(0, 12), replace=False).tolist(), "match")
    _, judged = judged_of(scores, matches, database=database)
    ranks = {v: float(sum(scores > s) + (sum(scores == s) + 1) / 2) for v, s in zip(database, scores, strict=True)}
    late = sorted((ranks[video], video) for video in matches if ranks[video] > len(matches))
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), NONE) == (
        Missed(late[0][1], late[0][0]) if late else None
    )


def test_a_match_without_a_score_comes_last():
    positives = {"a": "match", "z": "match", "y": "match"}
    _, judged = judged_of([0.9, 0.5, 0.1], positives, database="abcyz", scored="abc")
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), frozenset("yz")) == Missed("y", None)
    _, judged = judged_of([0.1, 0.5, 0.9, 0.8, 0.7], positives, database="abcdeyz", scored="abcde")
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), frozenset("yz")) == Missed("a", 5.0)
    _, judged = judged_of([0.9, 0.5, 0.1], positives, database="abcyz", scored="abc", ranked=frozenset("abcz"))
    assert first_missed(judged, 0, rank_rows(judged.scores, judged.relevance), frozenset("yz")) == Missed("z", None)


def test_levels_of_ranked_positives():
    positives = {"a": "copy", "b": "event", "d": "copy", "y": "event", "z": "copy"}
    partition, judged = judged_of(np.linspace(1, 0, 4), positives, database="abcdyz", scored="abcd")
    assert levels_of(partition) == ("copy", "event")
    assert ranked_levels(judged).tolist() == ["copy", "event", "copy"]
    assert positives_of_level(partition, judged, "copy").tolist() == [3]
    assert positives_of_level(partition, judged, "event").tolist() == [2]


def test_levels_with_the_divisor_of_found_positives():
    positives = {"a": "copy", "b": "event", "z": "event"}
    partition, judged = judged_of([0.9, 0.5], positives, database="abz", scored="ab", divisor="found")
    assert positives_of_level(partition, judged, "event").tolist() == [1]
    partition, judged = judged_of([0.9], positives, database="abz", scored="a", divisor="found")
    assert positives_of_level(partition, judged, "event").tolist() == [0]


def test_levels_among_the_videos_that_are_ranked():
    partition, judged = judged_of([0.9, 0.5, 0.1], {"a": "copy", "b": "copy"}, database="abc", ranked=frozenset("bc"))
    assert ranked_levels(judged).tolist() == ["copy"]
    assert positives_of_level(partition, judged, "copy").tolist() == [1]


def test_the_query_itself_is_no_positive_of_a_level():
    partition, judged = judged_of([0.9, 0.5], {"a": "copy", "q": "match"}, database="aq")
    assert judged.n_positive.tolist() == [2]  # official: it counts, though it cannot be found
    assert levels_of(partition) == ("copy",)
    assert positives_of_level(partition, judged, "copy").tolist() == [1]


def test_matches_without_a_level_are_no_levels():
    assert levels_of(judged_of([0.9, 0.5], {"a": "match"}, database="ab")[0]) == ()
    assert levels_of(judged_of([0.9, 0.5], {}, database="ab")[0]) == ()
    assert levels_of(judged_of([0.9, 0.5], {"a": "match", "b": "copy"}, database="ab")[0]) == ("copy", "match")
