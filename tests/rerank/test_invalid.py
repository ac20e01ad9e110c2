"""Why answers could not be read."""

from __future__ import annotations

import pytest

from muvr_train.rerank.invalid import invalid_note, why_invalid
from muvr_train.rerank.parsing import verdict
from muvr_train.rerank.types import Answer, Question


def answer(text: str, finish: str = "stop") -> Answer:
    return Answer("q", "s", "k", "answered", text, finish=finish)


def question(*choices: str) -> Question:
    return Question("q", "s", ("?",), choices, choices[0])


@pytest.mark.parametrize(
    ("text", "finish", "choices", "why"),
    [
        ("Ich weiß nicht", "stop", ("yes", "no"), "no choice named"),
        ("", "stop", ("yes", "no"), "no choice named"),
        ("It could be yes or no.", "stop", ("yes", "no"), "several named"),
        ("Let me look at the first frame", "length", ("yes", "no"), "cut off"),
        ("Either B or C.", "stop", ("A", "B", "C"), "several named"),
        ("The red car", "stop", ("A", "B", "C"), "no choice named"),
    ],
)
def test_why_an_answer_could_not_be_read(text: str, finish: str, choices: tuple[str, ...], why: str) -> None:
    said = answer(text, finish)
    assert verdict(said, question(*choices)) is None
    assert why_invalid(said, question(*choices), "text", False) == why


def test_a_reasoning_without_a_final_answer() -> None:
    assert why_invalid(answer("I think B."), question("A", "B"), "text", True) == "no final answer"
    assert why_invalid(answer("I think", "length"), question("A", "B"), "text", True) == "cut off"
    assert why_invalid(answer("Final answer: A or B"), question("A", "B"), "text", True) == "several named"


def test_log_probabilities_that_say_nothing_are_not_called_cut_off() -> None:
    assert "log-probabilities" in why_invalid(answer("Hm", "length"), question("A", "B"), "logprob", False)


def test_one_line_with_an_example_counts_and_hints() -> None:
    answers = {(str(n), "s"): answer("Tja,\n  wer weiß " + "x" * 100) for n in range(20)}
    reasons = dict.fromkeys(answers, "no choice named")
    (line,) = invalid_note(reasons, answers, True)
    assert line.startswith('20 of 20 answers could not be read, e.g. "Tja, wer weiß xxx')
    assert line.endswith('x..." (20 no choice named). Answers in another language: benchmark.languages=[en,zh].')
    reasons["3", "s"] = "cut off"
    assert (
        "19 no choice named, 1 cut off). Longer answers: answerer.max_tokens."
        in invalid_note(reasons, answers, False)[0]
    )
    assert invalid_note({}, answers, True) == []
