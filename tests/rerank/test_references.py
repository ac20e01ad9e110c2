"""Reference answerers: constants, a coin, an oracle, and a retriever with thresholds learned on other queries."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answerers.references import AlwaysNo, AlwaysYes, Coin, FixedLetter, Oracle, Retriever
from muvr_train.rerank.answerers.retrieval_scores import leave_one_out
from muvr_train.rerank.types import Answerer, Question, Request
from muvr_train.search.score_files import ScoreBlock, write_scores

TEN = tuple("ABCDEFGHIJ")


def pair(query: str, target: str, truth: str, partition: str = "news", tag: str = "", **about: Any) -> Question:
    facts = {"benchmark": "muvr_qa", "partition": partition, "query": query, "target": target, "tag": tag, **about}
    return Question(f"{partition}/{query}{tag} > {target}", "s", (), ("yes", "no"), truth, about=facts)


def letters(name: str, choices: tuple[str, ...] = TEN, truth: str = "B") -> Question:
    return Question(name, "s", (), choices, truth)


def says(answerer: Answerer, question: Question) -> str:
    return answerer.answer(Request((), question)).text


def test_constants_and_the_oracle() -> None:
    yes_no = [pair("q", "a", "yes"), pair("q", "b", "no")]
    for answerer, expected in ((AlwaysYes(), ["yes", "yes"]), (AlwaysNo(), ["no", "no"]), (Oracle(), ["yes", "no"])):
        answerer.begin(yes_no)
        assert [says(answerer, question) for question in yes_no] == expected
        assert not answerer.needs_visuals
    fixed = FixedLetter("c")
    fixed.begin([letters("1", tuple("AB")), letters("2")])
    assert says(fixed, letters("1", tuple("AB"))) == "C"
    assert fixed.identity()["name"] == "fixed_letter_C"
    assert says(FixedLetter(), letters("1")) == "A"
    assert says(Oracle(), letters("1")) == "B"
    AlwaysYes().begin([])


def test_questions_that_do_not_offer_the_answer_are_refused() -> None:
    for answerer in (AlwaysYes(), AlwaysNo()):
        with pytest.raises(
            ConfigError, match=r"always says (yes|no), but the questions ask for one of A, B, .*first is 1"
        ):
            answerer.begin([letters("1")])
    with pytest.raises(ConfigError, match="fixed_letter_A always says A, but the questions ask for one of yes"):
        FixedLetter().begin([pair("q", "a", "yes")])
    with pytest.raises(ConfigError, match="always says Z"):
        FixedLetter("Z").begin([letters("1")])
    for letter in ("", "AB", "3", "é", None, 1):
        with pytest.raises(ConfigError, match=r"answerer\.letter must be one letter, A to Z"):
            FixedLetter(letter)  # type: ignore[arg-type]


def test_a_coin_depends_on_seed_and_id_alone() -> None:
    questions = [letters(f"é{number}") for number in range(2000)]
    coin = Coin(3)
    tossed = [says(coin, question) for question in questions]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda question: says(Coin(3), question), reversed(questions))) == tossed[::-1]
    assert tossed != [says(Coin(4), question) for question in questions]
    assert min(Counter(tossed)[letter] for letter in TEN) > 140
    heads = Counter(says(coin, pair(str(number), "t", "yes")) for number in range(2000))
    assert 900 < heads["yes"] < 1100
    assert [says(Coin(0), letters(name)) for name in "abcdef"] == ["C", "H", "B", "C", "C", "J"]  # on every machine
    assert coin.identity() == {"name": "coin", "seed": 3}
    for seed in ("3", 1.5, None, True):
        with pytest.raises(ConfigError, match=r"answerer\.seed must be a whole number"):
            Coin(seed)  # type: ignore[arg-type]


# The retriever


def slow_leave_one_out(scores: list[float], truth: list[bool], groups: list[str]) -> list[bool]:
    """Try every threshold on the others, one query after another."""
    answers = []
    for score, own in zip(scores, groups, strict=True):
        others = [(s, t) for s, t, group in zip(scores, truth, groups, strict=True) if group != own]
        best, chosen = -1, 0.0
        for cut in [-np.inf, *sorted(s for s, _ in others)]:
            right = sum((s > cut) == t for s, t in others)
            if right > best:
                above = [s for s, _ in others if s > cut]
                best, chosen = right, (cut + min(above)) / 2 if above else cut
        answers.append(score > chosen)
    return answers


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.sampled_from("abcd")), min_size=2, max_size=25).filter(
        lambda rows: len({group for _, _, group in rows}) > 1
    )
)
def test_thresholds_are_learned_on_the_others(rows: list[tuple[int, bool, str]]) -> None:
    scores, truth, groups = [float(row[0]) for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    assert leave_one_out(np.array(scores), np.array(truth), groups) == slow_leave_one_out(scores, truth, groups)


def test_one_query_has_no_others() -> None:
    with pytest.raises(DataError, match="about one query, q: there are no others"):
        leave_one_out(np.array([0.1, 0.2]), np.array([True, False]), ["q", "q"])


QUERIES = ("q1", "q2", "q3")
TARGETS = ("a", "b")
QUESTIONS = [pair(query, target, "yes" if target == "a" else "no") for query in QUERIES for target in TARGETS]
SCORES = np.array([[0.9, 0.2], [0.8, 0.3], [0.1, 0.7]], np.float32)  # q3 the wrong way round


def retriever(path: Path, blocks: dict[str, ScoreBlock]) -> Retriever:
    write_scores(path / "scores.npz", "tv", blocks)
    return Retriever(path / "scores.npz")


@pytest.mark.parametrize("start", ["news/", ""])
@pytest.mark.parametrize("block", ["", "news", "whatever"])
def test_a_retriever_by_hand(tmp_path: Path, start: str, block: str) -> None:
    names = [tuple(f"{start}{name}" for name in part[::-1]) for part in (QUERIES, TARGETS)]
    made = retriever(tmp_path, {block: ScoreBlock(*names, SCORES[::-1, ::-1])})
    made.begin(QUESTIONS)
    # q1 learns on 0.8 yes, 0.7 no, 0.3 no, 0.1 yes: best between 0.7 and 0.8; q3 on 0.9, 0.8 yes, 0.3, 0.2 no: at 0.55
    assert [says(made, question) for question in QUESTIONS] == ["yes", "no", "yes", "no", "no", "yes"]
    first = made.identity()
    made.begin(QUESTIONS[::-1])
    assert made.identity() == first
    made.begin([*QUESTIONS, *(Question(q.id, "t", (), q.choices, q.truth, about=q.about) for q in QUESTIONS)])
    assert made.identity() == first
    made.begin(QUESTIONS[:4])
    assert made.identity() != first
    made.begin([])


def test_a_retriever_with_partitions_and_tags(tmp_path: Path) -> None:
    questions = [
        pair(query, target, "yes" if target == "a" else "no", partition, tag)
        for partition, tag in itertools.product(("news", "others"), ("", "+x"))
        for query in QUERIES[:2]
        for target in TARGETS
    ]
    block = ScoreBlock(
        ("q1", "q2", "q1", "q2"), TARGETS, np.array([[3, 1], [3, 1], [1, 3], [1, 3]], np.float32), ("", "", "+x", "+x")
    )
    plain = ScoreBlock(("geng/q1", "geng/q2"), ("others/a", "b"), np.array([[3, 1], [3, 1]], np.float32))
    made = retriever(tmp_path, {"news": block, "geng": plain})
    made.begin(questions)
    heard = {question.id: says(made, question) for question in questions}
    assert heard["news/q1 > a"] == heard["others/q1 > a"] == heard["others/q1+x > a"] == "yes"
    assert heard["news/q1+x > a"] == "no"
    assert heard["news/q1+x > b"] == "yes"
    with pytest.raises(DataError, match=r"scores.npz has no score for 1 of 17 questions: news/q1-y > a"):
        made.begin([*questions, pair("q1", "a", "yes", tag="-y")])


def test_reranking_asks_with_full_ids(tmp_path: Path) -> None:
    questions = [
        pair(query, f"news/{target}", truth, benchmark="rerank", tag="", expression="")
        for query in ("news/q1", "news/q2")
        for target, truth in (("a", "yes"), ("b", "no"))
    ]
    made = retriever(tmp_path, {"": ScoreBlock(("q1", "news/q2"), ("news/a", "b"), SCORES[:2])})
    made.begin(questions)
    assert [says(made, question) for question in questions] == ["yes", "no", "yes", "no"]


def test_scores_that_do_not_fit(tmp_path: Path) -> None:
    made = retriever(tmp_path, {"": ScoreBlock(QUERIES, TARGETS, SCORES)})
    with pytest.raises(DataError, match=r"no score for 1 of 7 questions: news/q1 > z"):
        made.begin([*QUESTIONS, pair("q1", "z", "no")])
    with pytest.raises(ConfigError, match="retriever says yes or no, but the questions ask for one of A, B"):
        made.begin([letters("1")])
    with pytest.raises(DataError, match="about one query, news/q1"):
        made.begin(QUESTIONS[:2])
    broken = SCORES.copy()
    broken[1, 1] = np.nan
    with pytest.raises(DataError, match=r"scores of 1 questions are not finite: news/q2 > b"):
        retriever(tmp_path, {"": ScoreBlock(QUERIES, TARGETS, broken)}).begin(QUESTIONS)
    with pytest.raises(DataError, match="there is no such score file"):
        Retriever(tmp_path / "nowhere.npz").begin(QUESTIONS)
