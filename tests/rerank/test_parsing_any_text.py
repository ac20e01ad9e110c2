"""Whatever a model writes: nothing fails, nothing takes longer than linear time."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.rerank.parsing import final_part, parse_letter, parse_yes_no
from muvr_train.rerank.yes_no import YES_NO

texts = st.text() | st.lists(
    st.sampled_from(
        [
            *list("ABCabIiK()[]{}.,:;-/|?!\n\"'�́ßİ3是"),
            "yes",
            "no",
            "Yes",
            "NO",
            "not",
            "or",
            "and",
            "is",
            "the",
            "answer",
            "Answer:",
            "option",
            "**",
            "final",
            "so",
            "\\boxed{",
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "答案",
            "はい",
            "3.",
        ]
    )
).map(" ".join)


@given(texts, st.lists(st.sampled_from(string.ascii_uppercase), unique=True))
def test_any_text_gives_an_offered_letter_or_none(text: str, letters: list[str]) -> None:
    found = parse_letter(text, letters)
    assert found is None or found in letters
    assert found == parse_letter(text, letters)
    assert found == parse_letter(text, letters[::-1])


@given(texts, st.lists(st.sampled_from(list(YES_NO)), min_size=1, unique=True))
def test_any_text_gives_yes_no_or_none(text: str, languages: list[str]) -> None:
    found = parse_yes_no(text, languages)
    assert found in ("yes", "no", None)
    assert found == parse_yes_no(text, languages)
    assert isinstance(final_part(text), str)


@given(texts)
def test_a_text_without_the_words_says_nothing(text: str) -> None:
    without = text.lower().replace("yes", "").replace("no", "").replace("ye", "").replace("yep", "")
    if not any(word in without for word in ("yes", "no", "yeah", "yep")):
        assert parse_yes_no(without) is None


MILLION = 1_000_000
DENSE = [
    "no, B ",
    "wait B. ",
    "A: no. ",
    "not B but C ",
    "Overall: no ",
    "so, yes and no to ",
    "answer (one ",
    "a ",
    "yes ",
    "B ",
    "answer ",
    "answer: ",
    "final answer ",
    "a.",
    "a-",
    "no, ",
    "is ",
    "\\boxed{",
    "not ",
    "violates it ",
    "nicht verletzt bedingung ",
    "违反条件",
    "A (x) ",
    "<b>B</b> ",
    "n't match condition, ",
]
SPARSE = ["(", "<", "<think>", "1.", " ", "\n", "*", "x", "“", "１"]
PROSE = "The dog is left of the car, as in the query. "


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        *((unit, MILLION // 20) for unit in (*DENSE, "B or ", "A, ")),
        *((unit, MILLION) for unit in SPARSE),
        (PROSE, MILLION // 4),
    ],
)
def test_huge_texts_are_read_in_linear_time(unit: str, size: int) -> None:
    text = unit * (size // len(unit))
    assert parse_letter(f"{text}\n\nAnswer: D", "D") in ("D", None)
    assert parse_yes_no(text) in ("yes", "no", None)
    assert parse_yes_no(f"ja {text}", list(YES_NO)) in ("yes", "no", None)
    assert final_part(f"{text}</think>\nFinal answer: D") == "D"
