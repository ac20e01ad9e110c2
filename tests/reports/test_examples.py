"""Which queries are shown, and what they found."""

from __future__ import annotations

import numpy as np

from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.reports.examples import choose_rows, make_example
from muvr_train.results import Kept
from muvr_train.search.judged import judge
from muvr_train.search.scores import ScoreMatrix

DATABASE = ("p/a", "p/b", "p/c", "p/d", "p/e")


def kept_of(rows: list[list[float]], **more: object) -> Kept:
    judgements = tuple(
        Judgement(f"p/q{i}", {"p/b": "copy", "p/e": "event"}, frozenset({"p/a", "p/c"}), frozenset({"p/c"}))
        for i in range(len(rows))
    )
    queries = tuple(Query(row.query, "p", "p/t") for row in judgements)
    partition = Partition("p", queries, judgements, DATABASE)
    matrix = ScoreMatrix(partition.query_ids, DATABASE, np.array(rows))
    return Kept(partition, "v", judge(partition, matrix))


def test_an_example_lists_results_marks_and_the_best_missed_match() -> None:
    example = make_example(kept_of([[0.9, 0.1, 0.7, 0.8, 0.2]]), 0, "lowest AP", 0.25, 3)
    assert [(found.video, found.rank, found.hit, found.relation) for found in example.results] == [
        ("p/a", 1, False, "non-match"),
        ("p/d", 2, False, "not listed"),
        ("p/c", 3, False, "hard non-match"),
    ]
    assert example.missed is not None
    assert (example.missed.video, example.missed.rank, example.missed.relation) == ("p/e", 4, "event")
    assert example.positives == 2


def test_nothing_is_missed_where_all_matches_are_shown() -> None:
    example = make_example(kept_of([[0.1, 0.9, 0.2, 0.3, 0.8]]), 0, "highest AP", 1.0, 2)
    assert [found.video for found in example.results] == ["p/b", "p/e"]
    assert example.missed is None


def test_equal_scores_stand_in_the_order_of_the_database() -> None:
    example = make_example(kept_of([[0.5, 0.5, 0.5, 0.5, 0.5]]), 0, "", 0.0, 2)
    assert [found.video for found in example.results] == ["p/a", "p/b"]
    assert example.missed is not None
    assert example.missed.rank == 3


def test_more_results_than_videos() -> None:
    example = make_example(kept_of([[0.1, 0.2, 0.3, 0.4, 0.5]]), 0, "", 0.0, 50)
    assert [found.rank for found in example.results] == [1, 2, 3, 4, 5]
    assert [found.score for found in example.results] == [0.5, 0.4, 0.3, 0.2, 0.1]


def test_rows_are_chosen_from_both_ends_and_the_middle() -> None:
    kept = kept_of([[0.0] * 5] * 9)
    values = np.array([0.5, 0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6])
    chosen = choose_rows([kept], [values], 3)
    assert [(float(values[row]), choice) for _, row, choice in chosen] == [
        (0.1, "lowest AP"),
        (0.9, "highest AP"),
        (0.5, "middle AP"),
    ]
    assert sorted(row for _, row, _ in choose_rows([kept], [values], 100)) == list(range(9))
    assert choose_rows([kept], [values], 0) == []


def test_partitions_take_turns_and_uncounted_rows_are_passed_over() -> None:
    kept = [kept_of([[0.0] * 5] * 4), kept_of([[0.0] * 5] * 4)]
    kept[0].judged.counted[:] = False
    chosen = choose_rows(kept, [np.zeros(4), np.arange(4.0)], 2)
    assert [(part, row) for part, row, _ in chosen] == [(1, 0), (1, 3)]
