"""Hard cases worked by hand: which queries, which pairs, in which order."""

from __future__ import annotations

from typing import Any

import numpy as np

from muvr_train.benchmarks.muvr_qa import QaRow
from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.reports.hard_cases import Mined, mine, questions
from muvr_train.search.judged import judge, judge_rows
from muvr_train.search.scores import ScoreMatrix

DATABASE = tuple(f"news/v{place:03}" for place in range(100))
NAMES = [f"news/q{row}" for row in range(6)]
QUERIES = tuple(
    Query(
        name,
        "news",
        "news/t",
        text=None if name == NAMES[5] else f"text {name}",
        video="news/shown" if name == NAMES[0] else None,
    )
    for name in NAMES
)
JUDGEMENTS = (
    Judgement(NAMES[0], {"news/v099": "copy", "news/v098": "event"}, negatives=frozenset({"news/v000"})),
    Judgement(NAMES[1], {"news/v050": "copy"}),
    Judgement(NAMES[2], {"news/v001": "copy"}),
    Judgement(NAMES[3], {}),
    Judgement(NAMES[4], {"news/v050": "copy"}, counted=False),
    Judgement(NAMES[5], {"news/gone": "copy"}),
)
PART = Partition("news", QUERIES, JUDGEMENTS, (*DATABASE, "news/gone"))
DOWN = -np.arange(100, dtype=np.float64)
"""v000 first, v099 last."""


def mined(**settings: Any) -> Mined:
    return mine(PART, judge(PART, ScoreMatrix(tuple(NAMES), DATABASE, np.tile(DOWN, (6, 1)))), **settings)


def test_queries_below_the_threshold_hardest_first() -> None:
    found = mined()
    # q0: v098 at rank 99, v099 at rank 100: (1/99 + 2/100) / 2 = 0.0151; q1: 1/51 = 0.0196; q2: 1/2
    assert [case.judgement.query for case in found.cases] == NAMES[:2]
    np.testing.assert_allclose([case.average_precision for case in found.cases], [(1 / 99 + 2 / 100) / 2, 1 / 51])
    assert [(case.true, case.false) for case in found.cases] == [
        ("news/v098", "news/v000"),
        ("news/v050", "news/v000"),
    ]
    assert [case.listed for case in found.cases] == [True, False]
    assert found.counts == {"queries": 6, "no_positive": 2, "not_scored": 1, "no_false": 0, "below": 2}


def test_the_threshold_is_not_below_itself() -> None:
    assert len(mined(threshold=1 / 51).cases) == 1
    assert len(mined(threshold=0.6).cases) == 3
    assert not mined(threshold=0).cases


def test_the_hardest_pairs() -> None:
    found = mined(threshold=1, most=1)
    assert [case.judgement.query for case in found.cases] == NAMES[:1]
    assert found.counts["below"] == 3


def test_equal_scores_and_equal_precisions_go_by_id() -> None:
    order = np.random.default_rng(0).permutation(100)
    database = tuple(DATABASE[place] for place in order)
    part = Partition(
        "news", QUERIES[:3], tuple(Judgement(n, {"news/v07": "m", "news/v050": "m"}) for n in NAMES[:3]), database
    )
    found = mine(
        part, judge(part, ScoreMatrix((NAMES[2], NAMES[0], NAMES[1]), database, np.zeros((3, 100)))), threshold=0.5
    )
    assert [(case.judgement.query, case.true, case.false) for case in found.cases] == [
        (name, "news/v050", "news/v000") for name in NAMES[:3]
    ]


def test_a_query_against_itself_and_what_is_not_ranked_are_no_false_ones() -> None:
    part = Partition(
        "news",
        QUERIES[1:2],
        (Judgement(NAMES[1], {"news/v000": "copy"}, ranked=frozenset({"news/v000", "news/v002"})),),
        (NAMES[1], *DATABASE[:3]),
    )
    scores = np.array([[9.0, 0.0, 8.0, 1.0]])
    found = mine(part, judge(part, ScoreMatrix((NAMES[1],), part.database, scores)), threshold=1)
    assert [(case.true, case.false) for case in found.cases] == [("news/v000", "news/v002")]
    alone = mine(part, judge(part, ScoreMatrix((NAMES[1],), part.database[:2], scores[:, :2])), threshold=2)
    assert alone.counts["no_false"] == 1
    assert not alone.cases


def test_questions_are_adjacent_rows_with_bare_ids_the_true_one_first() -> None:
    assert questions(PART, mined(most=1)) == [
        QaRow("shown", "v098", 1, "text news/q0"),
        QaRow("shown", "v000", 0, "text news/q0"),
    ]


def test_a_tag_expression_is_the_tag() -> None:
    rows = [Judgement(NAMES[5], {"news/v090": "m"}, expression=text) for text in ("-b", "+a")]
    judged = judge_rows(PART, rows, DATABASE, np.tile(DOWN, (2, 1)))
    assert [(row.tag, row.target, row.text) for row in questions(PART, mine(PART, judged))] == [
        ("+a", "v090", ""),
        ("+a", "v000", ""),
        ("-b", "v090", ""),
        ("-b", "v000", ""),
    ]
    assert not any(case.listed for case in mine(PART, judged).cases)
    first = [Judgement(NAMES[0], {"news/v090": "m"}, expression="+a")]
    found = mine(PART, judge_rows(PART, first, DATABASE, DOWN[None]))
    assert [case.listed for case in found.cases] == [True]  # v000 is in a list of the query
