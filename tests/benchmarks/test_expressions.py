"""Tag expressions: the official cuts, hyphens, words, known tags, and printing that reads back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.expressions import (
    And,
    Condition,
    Expression,
    Or,
    Reading,
    conditions_of,
    is_official,
    operator_of,
    parse,
    resolve,
    sign_of,
)
from muvr_train.errors import DataError

PLUS, MINUS = 1, -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+night", Condition(PLUS, "night")),
        ("-slow motion", Condition(MINUS, "slow motion")),
        ("+black-and-white", Condition(PLUS, "black-and-white")),
        ("-host's voice", Condition(MINUS, "host's voice")),
        ("+4:3 frame", Condition(PLUS, "4:3 frame")),
        ("+夜景", Condition(PLUS, "夜景")),
        ("+C++", Condition(PLUS, "C++")),
        ("+rock and roll OR pop", Condition(PLUS, "rock and roll OR pop")),
        ("AND +crowd -night", And((Condition(PLUS, "crowd"), Condition(MINUS, "night")))),
        ("OR +night +in-door", Or((Condition(PLUS, "night"), Condition(PLUS, "in-door")))),
        ("AND +crowd", And((Condition(PLUS, "crowd"),))),
        ("+crowd -night", And((Condition(PLUS, "crowd"), Condition(MINUS, "night")), word=False)),
        ("  AND   +crowd   -night ", And((Condition(PLUS, "crowd"), Condition(MINUS, "night")))),
        (
            "-high -rise buildings",
            And((Condition(MINUS, "high"), Condition(MINUS, "rise buildings")), word=False),
        ),
    ],
)
def test_the_official_cuts(text: str, expected: Expression) -> None:
    assert parse(text) == expected
    assert str(parse(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    "text", ["", "  ", "AND", "OR ", "night", "AND night", "ANDROID +x", "and +x", "+", "+a -", "+ "]
)
def test_what_is_no_expression_is_named(text: str) -> None:
    with pytest.raises(DataError, match="tag expression") as caught:
        parse(text)
    assert not text.strip() or repr(text) in str(caught.value)


def test_impossible_values_cannot_be_built() -> None:
    for sign, tag in [(0, "a"), (1, ""), (1, " a")]:
        with pytest.raises(ValueError, match="a sign 1 or -1"):
            Condition(sign, tag)
    with pytest.raises(ValueError, match="OR needs"):
        Or(())
    with pytest.raises(ValueError, match="two where the word"):
        And((Condition(1, "a"),), word=False)


def test_operator_and_sign() -> None:
    facts = {
        text: (operator_of(parse(text)), sign_of(parse(text))) for text in ("+a", "-a", "AND +a", "OR -a -b", "+a -b")
    }
    assert facts == {
        "+a": ("single", "+"),
        "-a": ("single", "-"),
        "AND +a": ("AND", "+"),
        "OR -a -b": ("OR", "-"),
        "+a -b": ("compound", "mixed"),
    }


def test_the_official_program_passes_over_words() -> None:
    assert [is_official(text) for text in ("+a", "+a -b", "AND +a", "OR +a -b")] == [True, True, False, False]


def test_known_tags_put_a_broken_tag_together() -> None:
    for spelling in ("high-rise buildings", "high -rise buildings", "High-Rise  buildings"):
        reading = resolve("-high -rise buildings", [spelling, "night"])
        assert reading == Reading(Condition(MINUS, spelling), merged=(spelling,))
    within = resolve("AND +night -high -rise buildings +crowd", ["night", "high-rise buildings", "crowd"])
    assert str(within.expression) == "AND +night -high-rise buildings +crowd"
    assert within.merged == ("high-rise buildings",)
    assert within.unknown == ()


def test_official_cuts_stand_where_their_tags_are_known() -> None:
    reading = resolve("-high -rise buildings", ["high", "rise buildings", "high-rise buildings"])
    assert [condition.tag for condition in conditions_of(reading.expression)] == ["high", "rise buildings"]
    assert reading.contested == ("high-rise buildings",)
    assert reading.merged == ()


def test_unknown_tags_are_named_and_do_not_hide_known_ones() -> None:
    reading = resolve("OR +fog -high -rise buildings", ["high-rise buildings"])
    assert reading == Reading(
        Or((Condition(PLUS, "fog"), Condition(MINUS, "high-rise buildings"))),
        merged=("high-rise buildings",),
        unknown=("fog",),
    )
    assert resolve("+fog", ["night"]).unknown == ("fog",)
    assert resolve("+fog", []).unknown == ()
    assert resolve("+Night", ["night"]) == Reading(Condition(PLUS, "Night"))


tags = (
    st.text(st.sampled_from("ab +-'3夜é"), min_size=1, max_size=8)
    .map(lambda text: " ".join(text.split()))
    .filter(lambda tag: tag and not re.search(r" [+-]", tag))
)
one = st.builds(Condition, st.sampled_from([PLUS, MINUS]), tags)
expressions = st.one_of(
    one,
    st.builds(Or, st.lists(one, min_size=1, max_size=5).map(tuple)),
    st.builds(And, st.lists(one, min_size=1, max_size=5).map(tuple)),
    st.builds(And, st.lists(one, min_size=2, max_size=5).map(tuple), word=st.just(False)),
)


@given(expressions)
def test_what_is_printed_reads_back(expression: Expression) -> None:
    assert parse(str(expression)) == expression
    assert str(parse(str(expression))) == str(expression)


@given(expressions)
def test_known_tags_change_nothing_that_is_known(expression: Expression) -> None:
    reading = resolve(str(expression), {condition.tag for condition in conditions_of(expression)})
    assert reading.expression == expression
    assert reading.unknown == reading.merged == ()


@given(
    st.lists(st.tuples(st.booleans(), st.text(st.sampled_from("ab "), min_size=1, max_size=4)), min_size=1, max_size=5)
)
def test_cuts_are_those_of_the_official_rule(parts: list[tuple[bool, str]]) -> None:
    wanted = [("+" if plus else "-") + " ".join(tag.split()) for plus, tag in parts if tag.strip()]
    text = " ".join(wanted)
    if wanted:
        assert [str(condition) for condition in conditions_of(parse(text))] == re.split(r" (?=[+-])", text)
