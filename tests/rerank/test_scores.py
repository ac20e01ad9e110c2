"""Scores of MUVR-QA and IV-Bench, by hand-worked values, exact expectations and slow twins."""

from __future__ import annotations

import itertools
import math
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.muvr_qa import pair_rows, question_id, read_questions
from muvr_train.errors import DataError
from muvr_train.rerank.answerers.references import AlwaysNo, AlwaysYes, Coin, Oracle
from muvr_train.rerank.iv_scores import score_iv
from muvr_train.rerank.parsing import verdict
from muvr_train.rerank.qa_scores import score_qa
from muvr_train.rerank.scoring import clustered_error
from muvr_train.rerank.types import Answer, Answerer, Place, Question, Request

Row = dict[str, Any]
SAID = ("yes", "no", None)


def qa(pair: str, truth: str, partition: str = "news", tag: str = "", setting: str = "s") -> Question:
    about = {"partition": partition, "tag": tag, "pair": pair}
    return Question(f"{pair}-{truth}", setting, (), ("yes", "no"), truth, about=about)


def pairs(count: int, **more: str) -> list[Question]:
    return [qa(f"p{number}", truth, **more) for number in range(count) for truth in ("yes", "no")]


def answered(questions: list[Question], said: list[str | None], failed: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Verdicts and answers, by (id, setting)."""
    verdicts: dict[Place, str | None] = {}
    answers: dict[Place, Answer] = {}
    for number, (question, word) in enumerate(zip(questions, said, strict=True)):
        place = question.id, question.setting
        gone = question.id in failed
        verdicts[place] = None if gone else word
        status = "failed" if gone else "answered"
        answers[place] = Answer(*place, "k", status, word or "hm", seconds=None if gone else float(number))
    return verdicts, answers


def rows_of(questions: list[Question], said: list[str | None], failed: tuple[str, ...] = ()) -> dict[str, Row]:
    return {row["partition"]: row for row in score_qa(questions, *answered(questions, said, failed))}


def released(shared: Path) -> list[Question]:
    return [
        Question(
            question_id(name, row),
            "s",
            (),
            ("yes", "no"),
            "yes" if row.label else "no",
            about={"partition": name, "tag": row.tag, "pair": pair.id, "query": row.query, "target": row.target},
        )
        for name, rows in read_questions(shared / "data" / "muvr_qa").items()
        for pair in pair_rows(rows, name)
        for row in (pair.true, pair.false)
    ]


def asked(answerer: Answerer, questions: list[Question]) -> dict[str, Row]:
    answerer.begin(questions)
    answers = {}
    for question in questions:
        reply = answerer.answer(Request((), question))
        answers[question.id, question.setting] = Answer(question.id, question.setting, "k", "answered", reply.text)
    verdicts = {
        (question.id, question.setting): verdict(answers[question.id, question.setting], question)
        for question in questions
    }
    return {row["partition"]: row for row in score_qa(questions, verdicts, answers)}


@pytest.mark.parametrize(
    ("answerer", "accuracy", "score"), [(AlwaysYes(), 0.5, 0.0), (AlwaysNo(), 0.5, -1.0), (Oracle(), 1.0, 1.0)]
)
def test_references_on_the_released_questions(shared: Path, answerer: Answerer, accuracy: float, score: float) -> None:
    rows = asked(answerer, released(shared))
    assert list(rows) == ["all", "tagged", "untagged", "news", "others", "instance", "region", "dance"]
    assert [row["counts"]["pairs"] for row in rows.values()] == [100, 49, 51, 20, 20, 20, 20, 20]
    for row in rows.values():
        assert row["metrics"]["accuracy"] == accuracy
        assert row["metrics"]["reranking_score"] == score
        assert row["metrics"]["reranking_score_se"] == row["metrics"]["accuracy_se"] == 0.0
        assert row["metrics"]["parse_rate"] == row["metrics"]["answered_rate"] == 1.0
    assert rows["all"]["counts"] == {"questions": 200, "answered": 200, "invalid": 0, "failed": 0, "pairs": 100}


def test_a_coin_has_the_expectation_of_the_paper(shared: Path) -> None:
    outcomes = list(itertools.product(("yes", "no"), repeat=2))
    found = [rows_of(pairs(1), list(outcome))["all"]["metrics"] for outcome in outcomes]
    assert sum(Fraction(row["reranking_score"]) for row in found) / 4 == Fraction(-1, 2)
    assert sum(Fraction(row["accuracy"]) for row in found) / 4 == Fraction(1, 2)
    questions = released(shared)
    tosses = [asked(Coin(seed), questions)["all"]["metrics"] for seed in range(40)]
    for name, expected, spread in (("accuracy", 0.5, math.sqrt(0.25 / 200)), ("reranking_score", -0.5, 0.1118)):
        values = [toss[name] for toss in tosses]
        assert statistics.mean(values) == pytest.approx(expected, abs=4 * spread / math.sqrt(40))
        assert statistics.stdev(values) == pytest.approx(spread, rel=0.4)
        errors = [toss[f"{name}_se"] for toss in tosses]
        assert statistics.mean(errors) == pytest.approx(spread, rel=0.1)


def test_by_hand() -> None:
    questions = pairs(4)
    said = ["yes", "no", "yes", "yes", "no", "no", "no", "yes"]  # +1, 0, -1, -2
    row = rows_of(questions, said)["all"]
    metrics = row["metrics"]
    assert metrics["reranking_score"] == -0.5
    assert metrics["accuracy"] == 0.5
    assert metrics["reranking_score_se"] == pytest.approx(statistics.stdev([1, 0, -1, -2]) / 2)
    assert metrics["accuracy_se"] == pytest.approx(statistics.stdev([1, 0.5, 0.5, 0]) / 2)
    assert [metrics[name] for name in ("yes_no", "yes_yes", "no_no", "no_yes")] == [0.25] * 4
    assert (metrics["true_positive_rate"], metrics["false_positive_rate"]) == (0.5, 0.5)
    assert (metrics["invalid_pairs"], metrics["parse_rate"], metrics["answered_rate"]) == (0.0, 1.0, 1.0)
    assert row["counts"] == {"questions": 8, "answered": 8, "invalid": 0, "failed": 0, "pairs": 4}
    assert row["timing"] == {"seconds_per_item": 3.5}
    assert (row["benchmark"], row["mode"]) == ("muvr_qa", "s")


def test_invalid_and_failed_answers_are_wrong_ones() -> None:
    questions = pairs(4)
    said: list[str | None] = [None, "no", "yes", None, "yes", "no", "yes", "no"]
    row = rows_of(questions, said, failed=("p2-yes", "p2-no"))["all"]
    metrics = row["metrics"]
    # (no, no) -1, (yes, yes) 0, failed both: (no, yes) -2, (yes, no) +1
    assert metrics["reranking_score"] == -0.5
    assert metrics["accuracy"] == 0.5
    assert [metrics[name] for name in ("yes_no", "yes_yes", "no_no", "no_yes")] == [0.25] * 4
    assert metrics["invalid_pairs"] == 0.75
    assert metrics["parse_rate"] == pytest.approx(4 / 6)
    assert metrics["answered_rate"] == 0.75
    assert row["counts"] == {"questions": 8, "answered": 6, "invalid": 2, "failed": 2, "pairs": 4}
    assert row["timing"] == {"seconds_per_item": pytest.approx((0 + 1 + 2 + 3 + 6 + 7) / 6)}


def test_nothing_is_answered() -> None:
    questions = pairs(2)
    for row in (
        score_qa(questions, {}, {})[0],
        rows_of(questions, [None] * 4, ("p0-yes", "p0-no", "p1-yes", "p1-no"))["all"],
    ):
        assert row["counts"]["failed"] == row["counts"]["questions"] == 4
        assert row["metrics"]["reranking_score"] == -2.0
        assert row["metrics"]["accuracy"] == row["metrics"]["answered_rate"] == 0.0
        assert row["metrics"]["parse_rate"] is None
        assert row["timing"] == {"seconds_per_item": None}
    assert score_qa([], {}, {}) == []


def test_one_pair_has_no_standard_error() -> None:
    metrics = rows_of(pairs(1), ["yes", "no"])["all"]["metrics"]
    assert metrics["accuracy_se"] is None
    assert metrics["reranking_score_se"] is None


def test_rows_of_settings_tags_and_own_partitions() -> None:
    questions = [
        *(qa("a", truth, "zoo", "+x") for truth in ("yes", "no")),
        *(qa("b", truth, "dance", setting="t") for truth in ("no", "yes")),
        *(qa("c", truth, "news", "-x") for truth in ("yes", "no")),
        *(qa("d", truth, "été") for truth in ("yes", "no")),
    ]
    found = score_qa(questions, *answered(questions, ["yes"] * 8))
    assert [(row["mode"], row["partition"], row["counts"]["pairs"]) for row in found] == [
        ("s", "all", 3),
        ("s", "tagged", 2),
        ("s", "untagged", 1),
        ("s", "news", 1),
        ("s", "zoo", 1),
        ("s", "été", 1),
        ("t", "all", 1),
        ("t", "untagged", 1),
        ("t", "dance", 1),
    ]


def test_pairs_must_be_whole() -> None:
    questions = pairs(2)[:3]
    with pytest.raises(DataError, match="pair p1 has 1 true and 0 false questions"):
        score_qa(questions, *answered(questions, ["yes"] * 3))
    with pytest.raises(ValueError, match="'maybe' is none of"):
        score_qa(pairs(1), {("p0-yes", "s"): "maybe"}, {})


def slow_qa(said: list[tuple[str | None, str | None]]) -> tuple[float, float, float]:
    """Reranking Score and rates as the paper has them, pair by pair."""
    total = 0
    for true, false in said:
        yes_true, yes_false = true == "yes", false != "no"
        if yes_true and not yes_false:
            total += 1
        elif not yes_true and not yes_false:
            total -= 1
        elif not yes_true:
            total -= 2
    count = len(said)
    return total / count, sum(one == "yes" for one, _ in said) / count, sum(one != "no" for _, one in said) / count


@given(st.lists(st.tuples(st.sampled_from(SAID), st.sampled_from(SAID)), min_size=1, max_size=40), st.randoms())
def test_the_reranking_score_follows_from_the_rates(said: list[tuple[str | None, str | None]], rng: Any) -> None:
    questions = pairs(len(said))
    flat = [word for pair in said for word in pair]
    metrics = rows_of(questions, flat)["all"]["metrics"]
    score, true, false = slow_qa(said)
    assert metrics["reranking_score"] == pytest.approx(score)
    assert (metrics["true_positive_rate"], metrics["false_positive_rate"]) == (true, false)
    assert score == pytest.approx(2 * true - false - 1)
    assert metrics["accuracy"] == pytest.approx((true + 1 - false) / 2)
    assert sum(metrics[name] for name in ("yes_no", "yes_yes", "no_no", "no_yes")) == pytest.approx(1)
    order = list(range(len(questions)))
    rng.shuffle(order)
    again = rows_of([questions[place] for place in order], [flat[place] for place in order])["all"]["metrics"]
    assert again == pytest.approx(metrics, nan_ok=True) if len(said) > 1 else again == metrics


# IV-Bench


def iv(name: str, video: str, task: str = "NLI", group: str = "perception", granularity: str = "Video Clip",
       choices: str = "ABCD", right: str = "B", setting: str = "s") -> Question:  # fmt: skip
    about = {"task": task, "group": group, "granularity": granularity, "video": video, "right": tuple(right)}
    return Question(name, setting, (), tuple(choices), right[0], about=about)


def test_iv_by_hand() -> None:
    questions = [
        iv("1", "v"),
        iv("2", "v", "Counting", "reasoning", "Whole Video", "AB", "A"),
        iv("3", "w", "Counting", "reasoning", "A Minute"),
        iv("4", "x", choices="ABCDE", right="CD"),
        iv("5", "x"),
    ]
    verdicts, answers = answered(questions, ["B", "B", None, "D", "B"], failed=("5",))
    rows = {row["partition"]: row for row in score_iv(questions, verdicts, answers)}
    assert list(rows) == [
        "overall",
        "perception",
        "reasoning",
        "NLI",
        "Counting",
        "granularity: Video Clip",
        "granularity: Whole Video",
        "granularity: A Minute",
    ]
    whole = rows["overall"]
    assert whole["metrics"]["accuracy"] == 0.4  # 1 and 4; 2 is wrong, 3 invalid, 5 failed
    assert whole["metrics"]["chance"] == pytest.approx((1 / 4 + 1 / 2 + 1 / 4 + 2 / 5 + 1 / 4) / 5)
    assert whole["metrics"]["parse_rate"] == 0.75
    assert whole["metrics"]["answered_rate"] == 0.8
    # deviations by video: v 0.6 - 0.4, w -0.4, x 0.6 - 0.4
    assert whole["metrics"]["accuracy_se"] == pytest.approx(math.sqrt(3 / 2 * (0.04 + 0.16 + 0.04)) / 5)
    assert whole["counts"] == {"questions": 5, "answered": 4, "invalid": 1, "failed": 1, "videos": 3}
    assert whole["timing"] == {"seconds_per_item": 1.5}
    assert rows["reasoning"]["metrics"]["accuracy"] == 0.0
    assert rows["perception"]["metrics"]["accuracy"] == pytest.approx(2 / 3)
    assert rows["granularity: Whole Video"]["metrics"]["accuracy_se"] is None
    assert score_iv([], {}, {}) == []


def test_iv_by_category() -> None:
    questions = [iv("1", "v"), iv("2", "w"), iv("3", "x")]
    for question, category in zip(questions, ("Sports", "(none)", "Sports"), strict=True):
        question.about["category"] = category  # type: ignore[index]
    verdicts, answers = answered(questions, ["B", "B", "A"])
    rows = {row["partition"]: row for row in score_iv(questions, verdicts, answers)}
    assert list(rows)[-2:] == ["category: (none)", "category: Sports"]
    assert rows["category: Sports"]["metrics"]["accuracy"] == 0.5
    assert rows["category: (none)"]["counts"]["questions"] == 1


def test_iv_settings_and_failures() -> None:
    questions = [iv("1", "v"), iv("1", "v", setting="t")]
    first, *_, last = score_iv(questions, {("1", "s"): "B"}, {("1", "s"): Answer("1", "s", "k", "answered", "B")})
    assert (first["mode"], first["metrics"]["accuracy"]) == ("s", 1.0)
    assert (last["mode"], last["metrics"]["accuracy"], last["metrics"]["parse_rate"]) == ("t", 0.0, None)
    with pytest.raises(ValueError, match="'E' is none of"):
        score_iv(questions, {("1", "s"): "E"}, {})


def test_clustered_errors() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.0]
    assert clustered_error([[value] for value in values]) == pytest.approx(statistics.stdev(values) / math.sqrt(5))
    assert clustered_error([[1.0, 1.0], [0.0, 0.0]]) == pytest.approx(0.5)  # two clusters of equals: as two values
    assert clustered_error([[1.0, 0.0]]) is None
    assert clustered_error([]) is None
    assert clustered_error([[], [1.0], [1.0]]) == 0.0


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2), min_size=2, max_size=30))
def test_clusters_of_equal_size_give_the_error_of_their_means(clusters: list[list[float]]) -> None:
    means = [sum(values) / 2 for values in clusters]
    expected = statistics.stdev(means) / math.sqrt(len(means))
    assert clustered_error(clusters) == pytest.approx(expected, abs=1e-12)
