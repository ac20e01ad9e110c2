"""The first videos of every query as questions; what answers are worth and cost."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.rerank.pair_questions import PairSettings
from muvr_train.rerank.tops import costs_of, counts_of, distinct, find_tops, one_by_one, place_of, queries_of, yes_value
from muvr_train.rerank.types import ANSWERED, FAILED, Answer
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept
from muvr_train.search.judged import judge
from muvr_train.search.scores import ScoreMatrix

QUERIES = (Query("news/a", "news", "news/1", "a fire"), Query("news/b", "news", "news/1", "ein Fest"))
VIDEOS = ("news/a", "news/x", "news/y", "news/äö")


JUDGEMENTS = (Judgement("news/a", {"news/y": "copy"}), Judgement("news/b", {"news/äö": "match"}))


def kept(name: str = "news") -> Kept:
    partition = Partition(name, QUERIES, JUDGEMENTS, VIDEOS)
    scores = np.array([[1.0, 0.5, 0.7, 0.1], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    return Kept(partition, "tv", judge(partition, ScoreMatrix(("news/a", "news/b"), VIDEOS, scores)))


def test_questions_stand_in_the_order_of_the_retrieval_with_their_truth() -> None:
    (top,) = find_tops([kept()], 2, Media(), PairSettings())
    asked = [
        [(one.about["video"], one.about["rank"], one.truth, one.about["level"]) for one in row] for row in top.questions
    ]
    assert asked == [
        [("news/y", 1, "yes", "copy"), ("news/x", 2, "no", None)],
        [("news/äö", 1, "yes", "match"), ("news/y", 2, "no", None)],
    ]
    assert top.questions[0][0].about["score"] == pytest.approx(0.7)
    assert len({place_of(one) for row in top.questions for one in row}) == 4
    values = {place_of(one): float(one.about["rank"]) for row in top.questions for one in row}
    assert [array.tolist() for array in top.values(values)] == [[1.0, 2.0], [1.0, 2.0]]


def two_tasks() -> list[Kept]:
    """The same queries and scores; `loose` takes two more videos as matches of news/a."""
    strict, loose = kept("strict"), kept("loose")
    judgements = (replace(JUDGEMENTS[0], positives={"news/y": "copy", "news/x": "event"}), JUDGEMENTS[1])
    partition = replace(loose.partition, judgements=judgements)
    scores = ScoreMatrix(("news/a", "news/b"), VIDEOS, loose.judged.scores)
    return [strict, Kept(partition, "tv", judge(partition, scores))]


def test_tasks_that_share_queries_ask_about_a_pair_once() -> None:
    tops = find_tops(two_tasks(), 2, Media(), PairSettings())
    asked = {question.id: question for question in distinct(tops)}
    assert list(asked) == [f"news/{pair}|" for pair in ("a|news/y", "a|news/x", "b|news/äö", "b|news/y")]
    facts = {name: (one.truth, one.about["level"], one.about["tasks"]) for name, one in asked.items()}
    assert facts == {
        "news/a|news/y|": ("yes", "copy", "strict yes, loose yes"),
        "news/a|news/x|": ("yes", "event", "strict no, loose yes"),
        "news/b|news/äö|": ("yes", "match", "strict yes, loose yes"),
        "news/b|news/y|": ("no", None, "strict no, loose no"),
    }
    values = {place_of(one): float(place) for place, one in enumerate(asked.values())}
    for top in tops:  # each task takes the same answers
        assert [array.tolist() for array in top.values(values)] == [[0.0, 1.0], [2.0, 3.0]]
    assert queries_of(tops) == (2, "query")


def test_who_knows_the_truth_is_asked_task_by_task() -> None:
    tops = one_by_one(find_tops(two_tasks(), 2, Media(), PairSettings()))
    truths = {question.id: question.truth for question in distinct(tops)}
    assert len(truths) == 8
    assert truths["news/a|news/x||strict"] == "no"
    assert truths["news/a|news/x||loose"] == "yes"
    (alone,) = one_by_one(find_tops([kept()], 2, Media(), PairSettings()))
    assert [question.id for question in distinct([alone])][:2] == ["news/a|news/y|", "news/a|news/x|"]


def test_a_query_with_expressions_counts_with_each() -> None:
    one = kept()
    rows = (replace(JUDGEMENTS[0], expression="+night"), replace(JUDGEMENTS[0], expression="-night"))
    partition = replace(one.partition, judgements=rows)
    tagged = Kept(partition, "tag_0.3", replace(one.judged, judgements=rows))
    tops = find_tops([tagged], 1, Media(), PairSettings())
    assert queries_of(tops) == (2, "query with a tag expression")


def answer(name: str, **more: object) -> Answer:
    return Answer(name, "s", f"key-{name}", ANSWERED, **more)  # type: ignore[arg-type]


def test_what_an_answer_is_worth() -> None:
    sure = answer("a", text="no", tokens={"Yes": math.log(0.6), " no": math.log(0.2)})
    assert yes_value(sure, "no", by_probability=False) == 0.0
    assert yes_value(sure, "yes", by_probability=False) == 1.0
    assert yes_value(sure, "yes", by_probability=True) == pytest.approx(0.75)
    assert math.isnan(yes_value(sure, None, by_probability=False))
    assert math.isnan(yes_value(answer("a", text="yes"), "yes", by_probability=True))
    assert math.isnan(yes_value(replace(sure, status=FAILED), None, by_probability=True))
    german = answer("a", text="Ja", tokens={"Ja": math.log(0.3), "Nein": math.log(0.1)})
    assert yes_value(german, "yes", True, ("de",)) == pytest.approx(0.75)


def test_counts_and_costs() -> None:
    answers = {
        ("a", "s"): answer("a", seconds=2.0, prompt_tokens=100),
        ("b", "s"): answer("b", seconds=1.0),
        ("c", "s"): replace(answer("c"), status=FAILED),  # its video could not be read
        ("d", "s"): answer("d"),
        ("e", "s"): replace(answer("e"), status=FAILED, seconds=0.0),  # it was asked
    }
    values = {("a", "s"): 1.0, ("b", "s"): 0.0, **dict.fromkeys([("c", "s"), ("d", "s"), ("e", "s")], math.nan)}
    expected = {"pairs": 5, "calls": 3, "from_file": 1, "failed": 2, "invalid": 1, "used": 2}
    assert counts_of(answers, values, {"key-b", "key-other"}) == expected
    assert costs_of(answers, 2) == {
        "pairs_per_query": 2.5,
        "seconds_per_query": 1.5,
        "prompt_tokens_per_query": 50.0,
        "completion_tokens_per_query": None,
    }


def test_reranking_needs_neither_torch_nor_a_model() -> None:
    code = (
        "import sys, muvr_train.rerank.tops, muvr_train.reports.rerank_tables; "
        "print([name for name in ('torch', 'transformers', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
