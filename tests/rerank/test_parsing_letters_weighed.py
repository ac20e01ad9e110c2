"""Letters that are weighed against each other, and forms in which every letter must be read alike."""

from __future__ import annotations

import pytest

from muvr_train.rerank.parsing import option_with_text, parse_letter, verdict
from muvr_train.rerank.types import Answer, Question

TEN = tuple("ABCDEFGHIJ")

WEIGHED = [
    ("A (10%), B (90%)", None),
    ("A: 0.1, B: 0.9", None),
    ("A. (wrong) B. (right)", None),
    ("A) 10% B) 90%", None),
    ("(A) 0.1 (B) 0.9", None),
    ("A - 10%, B - 90%", None),
    ("A. dog B. cat", None),
    ("a: 0.1, b: 0.9", None),
    ("**A**: 10%, **B**: 90%", None),
    ("Answer: A (10%), B (90%)", None),
    ("Answer: A: 0.1, B: 0.9", None),
    ("C: 0.2; D: 0.8", None),
    ("C (E)", None),
    ("(A) 0.1 (B) right", None),
    ("E = mc2", None),
    ("A = 0.1, B = 0.9", None),
    # no other letter in the same place
    ("C => dog", "C"),
    ("B (90%)", "B"),
    ("B: 0.9", "B"),
    ("B (the dog left of C)", "B"),
    ("B. The text says vitamin C.", "B"),
    ("B. It shows gate D. The dog is left.", "B"),
    ("B: right (C is wrong)", "B"),
    ("(B) is right, (C) is wrong", "B"),
    ("(B) is right, (A) and (C) are not", "B"),
    ("B, because A, C and D are wrong", "B"),
    ("Answer: (C) first, not (D)", "C"),
    ("B: dog rather than C: cat", "B"),
    ("B: the dog\nIt is not the cat (C)", "B"),
    # refuted by another letter only
    ("Answer: B (not A)", "B"),
    ("The answer is B (not A).", "B"),
    ("Answer: B (not right)", None),
    ("B fits best", "B"),
    ("Option B fits best.", "B"),
    ("A matches best", "A"),
    ("It could be B, but C fits better.", None),
    ("B fits best if it is night", None),
    ("B does not fit best", None),
    ("La respuesta correcta es B", "B"),
    ("La réponse correcte est B.", "B"),
    ("La risposta corretta è B", "B"),
    ("A resposta correta é B", "B"),
    ("La respuesta correcta no es B", None),
    ("B是正确的", "B"),
    ("B是正确的。", "B"),
    ("B选项", "B"),
    ("B选项是正确的", "B"),
    ("B不是正确的", None),
    ("B选项不正确", None),
    ("不是B选项", None),
    ("B选项和C选项", None),
    ("<strong>B</strong>", "B"),
    ("<b>B</b>", "B"),
    ("<i>C</i>", "C"),
    ("<em>B</em>. the dog", "B"),
    ("Answer: <strong>B</strong>", "B"),
    ("<b>", "B"),
    ("<strong>A</strong> <strong>B</strong>", None),
    ("B \ufffd", "B"),
    ("I \ufffd", "I"),
    ("A\ufffd dog is seen", None),
    ("B \ud83d", "B"),
    # the letter I, and the pronoun
    ("I, the dog", "I"),
    ("I - the dog", "I"),
    ("I – the dog", "I"),
    ("I — the dog", "I"),
    ("Answer: I, the dog", "I"),
    ("Answer: I - the dog", "I"),
    ("I (the dog)", "I"),
    ("I; the dog", "I"),
    ("I!", "I"),
    ("I, A dog", "I"),
    ("I, Model tree", "I"),
    ("I, the model, cannot see videos", None),
    ("I, because the dog is left", "I"),
    ("I, as an AI, cannot answer.", None),
    ("I, however, see a dog", None),
    ("I, a language model, see no videos", None),
    ("I, too, think so", None),
    ("I - as an AI - cannot answer", None),
    ("I (as an AI) cannot answer", None),
    ("I - I see a dog", None),
    ("I, the assistant, am unable to say", None),
    ("As I, the dog", None),
]


@pytest.mark.parametrize(("text", "expected"), WEIGHED)
def test_weighed_letters(text: str, expected: str | None) -> None:
    assert parse_letter(text, TEN) == expected


FORMS = [
    "{}",
    "{}.",
    "({})",
    "{}!",
    "{} �",
    "{} - the dog",
    "{} – the dog",
    "{} — the dog",
    "{}, the dog",
    "{}; the dog",
    "{} (the dog)",
]
FORMS += [
    "{}: the dog",
    "{}. the dog",
    "{}) the dog",
    "**{}** the dog",
    "Answer: {}, the dog",
    "<strong>{}</strong>",
    "{}选项",
]
FORMS += ["{} fits best", "Answer: {} (not K)", "The answer is {}.", "{} is the correct answer", "Answer: {} - the dog"]


@pytest.mark.parametrize("form", FORMS)
def test_every_letter_is_read_alike(form: str) -> None:
    assert [parse_letter(form.format(letter), TEN) for letter in TEN] == list(TEN)


def test_a_text_with_its_letter_behind_it() -> None:
    options = {"A": "a cat", "B": "the cat", "C": "the dog", "D": "the dog (C)"}
    assert option_with_text("The dog (C).", {**options, "D": "a cow"}) == "C"
    assert option_with_text("The dog (B)", options) is None
    assert option_with_text("the dog (C)", options) is None, "C by its letter, D by its text"
    assert option_with_text("dog (C)", options) is None
    question = Question(
        "q",
        "s",
        (),
        tuple("ABC"),
        "C",
        about={"options": dict(zip("ABC", ["a cat", "the cat", "the dog"], strict=True))},
    )
    assert verdict(Answer("q", "s", "k", "answered", "the dog (C)"), question) == "C"
    assert verdict(Answer("q", "s", "k", "answered", "the dog (A)"), question) is None
