"""Options that are named otherwise than by a capital: `option b`, or the text of the option itself."""

from __future__ import annotations

import pytest

from muvr_train.rerank.parsing import option_with_text, parse_letter, verdict
from muvr_train.rerank.types import Answer, Question

TEN = tuple("ABCDEFGHIJ")

SMALL = [
    ("option b", "B"),
    ("option b.", "B"),
    ("**option b**", "B"),
    ("option (b)", "B"),
    ('option "b"', "B"),
    ("Choice b", "B"),
    ("I choose option b.", "B"),
    ("The correct choice is option b", "B"),
    ("option b. Second from the right", "B"),
    ("option b)\nSecond from the right", "B"),
    ("option b\nIt is left.", "B"),
    ("option a", "A"),
    ("option i", "I"),
    ("Option a.", "A"),
    # near misses
    ("the option a", None),
    ("I choose option a", None),
    ("option a dog", None),
    ("option a. dog", None),
    ("option k", None),
    ("option bc", None),
    ("option b dog", None),
    ("option b, I think", None),
    ("option b, option c", None),
    ("option b or c", None),
    ("option b or option c", None),
    ("option b/c", None),
    ("option b. Option c.", None),
    ("option b. Or d.", None),
    ("option b) dog option c) cat", None),
    ("option a: dog\noption b: cat", None),
    ("option b: no", None),
    ("option b: dog", None),
    ("option b?", None),
    ("Is it option b?", None),
    ("If it is night, option b", None),
    ("not option b", None),
    ("I would not choose option b.", None),
    ("option b is wrong", None),
    ("option b isn't right", None),
    ("Unlike option b", None),
    ("The dog of option b", None),
    ("option b.mp4", None),
    ("option b++", None),
    ("option. b dog", None),
    ("option 1. b", None),
    ("option b. The answer is C.", "C"),
    ("option B. option c.", "B"),
]


@pytest.mark.parametrize(("text", "expected"), SMALL)
def test_small_letters_of_options(text: str, expected: str | None) -> None:
    assert parse_letter(text, TEN) == expected


OPTIONS = {
    "A": "The blue car",
    "B": "The red car",
    "C": "the red car and the dog",
    "D": "None of the above.",
    "E": "«Ёлка»",
    "F": "3",
    "G": "B, C",
    "H": "*",
    "I": "twice",
    "J": "Twice.",
}

TEXTS = [
    ("The red car", "B"),
    ("the red car.", "B"),
    ("THE RED CAR", "B"),
    ('"The red car"', "B"),
    ("“The red car.”", "B"),
    ("**The red car**\n", "B"),
    ("<think>The blue car?</think>The red car", "B"),
    ("The red car</s>", "B"),
    ("The red car and the dog", "C"),
    ("None of the above", "D"),
    ("ёлка", "E"),
    ("3.", "F"),
    ("３", "F"),
    # near misses
    ("red car", None),
    ("The red cars", None),
    ("The red car is left", None),
    ("The red car, not the blue car", None),
    ("The red car or the blue car", None),
    ("The red car\nThe blue car", None),
    ("It is the red car", None),
    ("The red car!", None),
    ("The red car?", None),
    ("not the red car", None),
    ("3 dogs", None),
    ("twice", None),
    ("*", None),
    ("", None),
    (".", None),
    ('""', None),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_the_text_of_one_option(text: str, expected: str | None) -> None:
    assert option_with_text(text, OPTIONS) == expected
    assert option_with_text(text, {}) is None


def test_letters_go_before_texts() -> None:
    question = Question("q", "s", (), TEN, "B", about={"options": OPTIONS})

    def said(text: str, reasoning: bool = False) -> str | None:
        return verdict(Answer("q", "s", "k", "answered", text), question, reasoning=reasoning)

    assert said("The red car") == "B"
    assert said("B. The blue car") == "B"
    assert said("B, C") == "G"
    assert said("A") == "A"
    assert said("The red car is seen.\nFinal answer: the red car.", reasoning=True) == "B"
    assert said("The red car", reasoning=True) is None, "reasoning that was cut off"
    letters = Question("q", "s", (), ("A", "B"), "A", about={"options": {"A": "B", "B": "C"}})
    assert verdict(Answer("q", "s", "k", "answered", "B"), letters) == "B"
    assert verdict(Answer("q", "s", "k", "answered", "The red car"), Question("q", "s", (), TEN, "B")) is None
