"""Placeholders in query texts: worked examples, real texts, and what may never happen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.placeholders import RULES, plain_texts, replace_placeholders, rule_manifest

EXAMPLES = [  # text, dropped, named
    ("the man [<region>] in red", "the man in red", "the man (the marked object) in red"),
    ("like steps [<region>],", "like steps,", "like steps (the marked object),"),
    ("in query [<region>]", "in query", "in query (the marked object)"),
    ("is upward. [<region>]", "is upward.", "is upward. (the marked object)"),
    ("two white pillars <mask1>", "two white pillars", "two white pillars the marked object"),
    (
        "very chaotic. <mask1> soon said so.",
        "very chaotic. soon said so.",
        "very chaotic. the marked object soon said so.",
    ),
    ("in query [<region>]. The screen", "in query. The screen", "in query (the marked object). The screen"),
    ("<region> jumps", "jumps", "the marked object jumps"),
    ("<Mask_0001>, a dog, runs", "a dog, runs", "the marked object, a dog, runs"),
    ("see the <mask 2>", "see the", "see the marked object"),
    ("A, <mask1>, and B", "A, and B", "A, the marked object, and B"),
    ("to the left. <mask8>.", "to the left.", "to the left. the marked object."),
    ("man[<region>]in red", "man in red", "man (the marked object) in red"),
    ("man<region>in red", "man in red", "man the marked object in red"),
    ("the men [<mask1>, <mask2>] run", "the men run", "the men [the marked object, the marked object] run"),
    ("the men ([<mask1>] and <mask2>) run", "the men run", "the men ((the marked object) and the marked object) run"),
    ("(left <mask-3>)", "(left)", "(left the marked object)"),
    ("<mask1>'s hat", "hat", "the marked object's hat"),
    ("猫<region>，狗", "猫，狗", "猫 the marked object，狗"),
]


@pytest.mark.parametrize(("text", "dropped", "named"), EXAMPLES)
def test_worked_examples(text: str, dropped: str, named: str) -> None:
    assert replace_placeholders(text) == dropped
    assert replace_placeholders(text, "name") == named
    assert replace_placeholders(text, "keep") == text


@pytest.mark.parametrize(
    "text", ["", "  two  spaces ,", "[ ] () a < b > c", "<regional>", "<mask", "a mask 1", "<maskx>"]
)
def test_texts_without_placeholders_stay_letter_by_letter(text: str) -> None:
    assert {replace_placeholders(text, rule) for rule in RULES} == {text}


@given(
    st.lists(
        st.sampled_from(["[<region>]", "<mask1>", "a", "Ünï", " ", ",", ".", "(", ")", "[", "]", "'s"]), max_size=12
    )
)
def test_a_rule_applied_twice_changes_nothing_and_keeps_all_words(parts: list[str]) -> None:
    text = "".join(parts)
    dropped = replace_placeholders(text)
    assert "<" not in dropped
    assert replace_placeholders(dropped) == dropped
    words = re.sub(r"\[<region>\]|<mask1>", " ", text)
    assert re.findall(r"a|Ünï", dropped) == re.findall(r"a|Ünï", words)
    named = replace_placeholders(text, "name")
    assert named.count("the marked object") == text.count("<region>") + text.count("<mask1>")


def test_real_texts_read_as_sentences(shared: Path) -> None:
    lines = [line for file in sorted((shared / "data" / "muvr_qa").glob("*.jsonl")) for line in file.open()]
    texts = {json.loads(line)["prompt_en"] for line in lines}
    assert len(texts) >= 90
    for text in texts:
        found = replace_placeholders(text)
        assert not re.search(r"[<>\[\]]| [,.;]|,\.|\s$", found), found
        assert len(found.split()) <= len(text.split())


def test_faults() -> None:
    with pytest.raises(ConfigError, match="placeholders=rename is not possible: choose from drop, name, keep"):
        replace_placeholders("x", "rename")
    with pytest.raises(DataError, match=r"1 queries .*: news/ü \('\[<region>\]\.'\).*placeholders=name"):
        plain_texts({"news/ü": "[<region>].", "b": "a cat <mask1>", "c": "..."})
    assert plain_texts({"q": "[<region>]"}, "name") == {"q": "(the marked object)"}
    assert plain_texts({"q": "<mask1>"}, "keep") == {"q": "<mask1>"}


def test_only_other_rules_than_the_default_are_recorded() -> None:
    assert [rule_manifest(rule) for rule in RULES] == [{}, {"placeholders": "name"}, {"placeholders": "keep"}]
