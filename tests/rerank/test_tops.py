"""The first videos of every query as questions; what answers are worth and cost."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from muvr_train.benchmarks.types import Judgement, Partition, Query
from muvr_train.errors import ConfigError
from muvr_train.rerank.pair_questions import PairSettings
from muvr_train.rerank.tops import costs_of, counts_of, find_tops, place_of, yes_value
from muvr_train.rerank.types import ANSWERED, FAILED, Answer
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept
from muvr_train.search.judged import judge
from muvr_train.search.scores import ScoreMatrix

QUERIES = (Query("news/a", "news", "news/1", "a fire"), Query("news/b", "news", "news/1", "ein Fest"))
VIDEOS = ("news/a", "news/x", "news/y", "news/äö")


def kept(name: str = "news") -> Kept:
    judgements = (Judgement("news/a", {"news/y": "copy"}), Judgement("news/b", {"news/äö": "match"}))
    partition = Partition(name, QUERIES, judgements, VIDEOS)
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


def test_partitions_that_share_queries_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"news/a, news/b: queries of several partitions"):
        find_tops([kept(), kept("other")], 2, Media(), PairSettings())


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
        ("c", "s"): replace(answer("c"), status=FAILED),
        ("d", "s"): answer("d"),
    }
    values = {("a", "s"): 1.0, ("b", "s"): 0.0, ("c", "s"): math.nan, ("d", "s"): math.nan}
    expected = {"pairs": 4, "calls": 3, "from_file": 1, "failed": 1, "invalid": 1, "used": 2}
    assert counts_of(answers, values, {"key-b", "key-other"}) == expected
    assert costs_of(answers, 2) == {
        "pairs_per_query": 2.0,
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
