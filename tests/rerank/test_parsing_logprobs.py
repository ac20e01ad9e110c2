"""Decisions by the probabilities of the first token, and verdicts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError
from muvr_train.rerank.parsing import LEAST_MASS, letter_by_logprob, verdict, yes_probability
from muvr_train.rerank.types import Answer, Question

TEN = tuple("ABCDEFGHIJ")


def log(**shares: float) -> dict[str, float]:
    return {name: math.log(share) for name, share in shares.items()}


def test_yes_probability_is_a_share_of_mass() -> None:
    assert yes_probability({"Yes": math.log(0.6), "No": math.log(0.2), "The": math.log(0.2)}) == pytest.approx(0.75)
    forms = dict.fromkeys(["Yes", " yes", "YES", "▁Yes", "Ġyes", "**Yes", "Yes,", '"Yes'], math.log(0.1))
    assert yes_probability({**forms, " No": math.log(0.2)}) == pytest.approx(0.8)
    assert yes_probability({"Yes": -2.0}) == 1.0
    assert yes_probability({"no": -2.0, "Yes": -math.inf}) == 0.0
    assert yes_probability({"no": -2.0, "Yes": math.nan}) == 0.0
    assert yes_probability({"No": -9999.0, "Yes": -9999.0}) is None
    assert yes_probability({"Not": -0.1, "Yesterday": -0.2, "": -1.0}) is None
    assert yes_probability({}) is None
    assert yes_probability(None) is None
    assert yes_probability({"是": math.log(0.3), "否": math.log(0.1)}) is None
    assert yes_probability({"是": math.log(0.3), "否": math.log(0.1)}, ["zh"]) == pytest.approx(0.75)


@given(st.dictionaries(st.sampled_from(["Yes", " yes", "No", "▁no", "x"]), st.floats(allow_nan=True)))
def test_yes_probability_is_in_its_range(tokens: dict[str, float]) -> None:
    found = yes_probability(tokens)
    assert found is None or 0 <= found <= 1


def test_letter_by_logprob() -> None:
    assert letter_by_logprob(log(A=0.1, B=0.5, C=0.4), "ABC") == "B"
    assert letter_by_logprob({"B": math.log(0.3), " C": math.log(0.2), "(C": math.log(0.2)}, "ABC") == "C"
    assert letter_by_logprob({"D": -0.1, "b": -2.0}, "ABC") == "B"
    assert letter_by_logprob({" a": -0.1, "i": -0.1}, TEN) is None
    assert letter_by_logprob({"A": -1.0, "B": -1.0}, "AB") is None
    assert letter_by_logprob({"A": -math.inf}, "AB") is None
    assert letter_by_logprob({"The": -1.0}, "AB") is None
    assert letter_by_logprob({}, "AB") is None
    assert letter_by_logprob(None, "AB") is None


def test_too_little_mass_decides_nothing() -> None:
    assert LEAST_MASS == 0.05
    assert yes_probability({"**": -0.0005, "Yes": -9.0, "No": -9.5}) is None
    assert yes_probability({"The": -0.01, "Yes": math.log(0.03), "No": math.log(0.019)}) is None
    assert yes_probability({"The": -0.1, "Yes": math.log(0.03), "No": math.log(0.021)}) == pytest.approx(30 / 51)
    assert yes_probability({"Yes": math.log(0.02), " yes": math.log(0.02), "YES": math.log(0.02)}) == 1.0
    assert letter_by_logprob({"The": -0.01, "A": -6.0, "Based": -7.0}, "ABC") is None
    assert letter_by_logprob(log(A=0.02, B=0.029, D=0.9), "ABC") is None
    assert letter_by_logprob(log(A=0.02, B=0.031, D=0.9), "ABC") == "B"


PAIR = Question("q", "s", (), ("yes", "no"), "yes")
CHOICE = Question("q", "s", (), tuple("ABC"), "B")


def said(text: str, tokens: dict[str, float] | None = None, status: str = "answered") -> Answer:
    return Answer("q", "s", "k", status, text, tokens=tokens)


def test_verdict() -> None:
    assert verdict(said("Yes."), PAIR) == "yes"
    assert verdict(said("Yes."), CHOICE) is None
    assert verdict(said("(b)"), CHOICE) == "B"
    assert verdict(said("D"), CHOICE) is None
    assert verdict(None, PAIR) is None
    assert verdict(said("Yes", status="failed"), PAIR) is None
    assert verdict(said("Sí"), PAIR) is None
    assert verdict(said("Sí"), PAIR, languages=["es"]) == "yes"
    tokens = {"No": math.log(0.7), "Yes": math.log(0.2)}
    assert verdict(said("Yes", tokens), PAIR, "logprob") == "no"
    assert verdict(said("Yes", {"Yes": -0.1}), PAIR, "logprob") == "yes"
    assert verdict(said("Yes", {"Yes": -1.0, "No": -1.0}), PAIR, "logprob") is None
    assert verdict(said("Yes"), PAIR, "logprob") is None
    assert verdict(said("x", {"B": -0.1}), CHOICE, "logprob") == "B"
    assert verdict(said("Yes. Final answer: no"), PAIR, reasoning=True) == "no"
    assert verdict(said("Yes."), PAIR, reasoning=True) == "yes"
    assert verdict(said("Yes, the dog"), PAIR, reasoning=True) is None, "reasoning that was cut off"
    assert verdict(said("<think>A?</think>\n\n**B**"), CHOICE, reasoning=True) == "B"
    assert verdict(said("It is A. Final answer: **B**"), CHOICE, reasoning=True) == "B"
    assert verdict(said("**No**", {"**": -0.0005, "Yes": -9.0, "No": -9.5}), PAIR, "logprob") is None
    assert verdict(said("The answer is C.", {"The": -0.01, "A": -6.0}), CHOICE, "logprob") is None
    with pytest.raises(ConfigError, match="decision must be text or logprob, got 'words'"):
        verdict(said("Yes"), PAIR, "words")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="decision=logprob reads the first token"):
        verdict(said("Yes"), PAIR, "logprob", True)
