"""What answers of language models say, in the forms in which they come."""

from __future__ import annotations

import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError
from muvr_train.rerank.answer_words import after_thinking
from muvr_train.rerank.parsing import (
    final_part,
    letter_by_logprob,
    parse_letter,
    parse_yes_no,
    verdict,
    yes_probability,
)
from muvr_train.rerank.types import Answer, Question
from muvr_train.rerank.yes_no import YES_NO, check_languages

TEN = tuple("ABCDEFGHIJ")

YES_OR_NO = [
    # bare
    ("Yes", "yes"),
    ("no", "no"),
    ("YES", "yes"),
    ("No.", "no"),
    ("Yes!", "yes"),
    ("  \n yes \n", "yes"),
    ("**Yes**", "yes"),
    ("__No__", "no"),
    ("*no*.", "no"),
    ("`Yes`", "yes"),
    ("# Yes", "yes"),
    ("> No", "no"),
    ("- yes", "yes"),
    ('"Yes"', "yes"),
    ("'no'", "no"),
    ("“Yes.”", "yes"),
    ("(yes)", "yes"),
    ("[No]", "no"),
    ("Ｙｅｓ", "yes"),
    ("Ｎｏ。", "no"),
    ("✅ Yes", "yes"),
    ("Yes</s>", "yes"),
    ("No<|im_end|>", "no"),
    ("\u200bYes\ufeff", "yes"),
    ("Yes\nYes", "yes"),
    ("Yeah, it is the same dog.", "yes"),
    ("Nope.", "no"),
    # the first clause decides
    ("Yes, the target video shows the same event.", "yes"),
    ("No - they show different buildings.", "no"),
    ("No — they differ.", "no"),
    ("No, the text asks for a red car, here it is blue.", "no"),
    ("Yes, it is not night", "yes"),
    ("Yes, there is no difference.", "yes"),
    ("Yes. No other person is seen.", "yes"),
    ("No, not yes.", "no"),
    ("No the videos do not match", "no"),
    ("No they don't.", "no"),
    ("Yes they match.", "yes"),
    ("**No**\n\nThe scenes differ. Yes, one might think so of the roof", None),
    ("Yes. The sign says “no”, as in the query.", "yes"),
    ("No, the sign in the query says yes but here it is blank", "no"),
    ("No\nThe building differs.", "no"),
    ("No (different building)", "no"),
    ("I'm sorry, but no.", "no"),
    ("Well, yes.", "yes"),
    ("I would say yes.", "yes"),
    ("I'd say no, because the roofs differ.", "no"),
    ("So yes.", "yes"),
    ("Definitely yes", "yes"),
    ("It is a match, so yes.", "yes"),
    ("The two videos show the same event: yes", "yes"),
    ("The dogs differ in colour. Therefore, no.", "no"),
    ("The dogs differ.\n\nNo", "no"),
    ("Does it match? No, it does not.", "no"),
    ("The videos show the same event. Yes.", "yes"),
    ("Not a match. No.", "no"),
    ("It's a yes.", "yes"),
    ("When the video starts, the dog is left, so yes.", "yes"),
    ("Yes or No: Yes", "yes"),
    ("**Yes/No:** Yes", "yes"),
    ("Match (Yes/No): No", "no"),
    ("The answer is not no.", None),
    ("Match: yes.", "yes"),
    ("A: Yes", "yes"),
    ("Yes.No", None),
    ("Yes,no", None),
    ("Yes\n\nExplanation: there is no dog.", "yes"),
    ("yes✓", "yes"),
    # marks
    ("Answer:Yes", "yes"),
    ('Therefore, the answer is "No".', "no"),
    ("Answer: Yes", "yes"),
    ("**Answer:** No", "no"),
    ("**Answer**: **no**", "no"),
    ("Answer - yes", "yes"),
    ("Answer:\n\nNo", "no"),
    ("## Answer\nyes", "yes"),
    ("The answer is yes.", "yes"),
    ("The answer is: no", "no"),
    ("The final answer is **No**.", "no"),
    ("Final answer: yes", "yes"),
    ("The answer should be no", "no"),
    ("The answer is definitely yes", "yes"),
    ("My answer is no because the roofs differ.", "no"),
    (r"\boxed{Yes}", "yes"),
    (r"$\boxed{\text{No}}$", "no"),
    (r"The answer is \(\boxed{\textbf{yes}}\).", "yes"),
    ('{"answer": "Yes"}', "yes"),
    ("{'answer': 'no', 'confidence': 0.9}", "no"),
    ('```json\n{"reason": "No sign of a dog", "answer": "no"}\n```', "no"),
    ("<answer>Yes</answer>", "yes"),
    ("<answer> no </answer>", "no"),
    ("Do they match? Answer with yes or no. Answer: Yes", "yes"),
    ("Is the tag met? no. Answer: yes", "yes"),
    ("The tag: is it met? I think so. No person is seen, though. <answer>yes</answer>", "yes"),
    ("There is no dog in the first one. The answer is yes.", "yes"),
    # thinking
    ("<think>Yes? No, wait.</think>No", "no"),
    ("<think>\nanswer: no\n</think>\n\n**Yes**", "yes"),
    ("<thinking>no</thinking>Answer: yes", "yes"),
    ("no</think>yes", "yes"),
    ("◁think▷no◁/think▷yes", "yes"),
    ("<think>yes yes yes", None),
    ("Yes<think>no", "yes"),
    # ambiguous
    ("Yes and no", None),
    ("Yes or no", None),
    ("yes/no", None),
    ("Yes / No", None),
    ("Yes. No.", None),
    ("Yes\n\nNo", None),
    ("Yes, but no.", None),
    ("No, wait, yes.", None),
    ("Yes. Actually, the answer is no.", None),
    ("Answer: yes. Answer: no.", None),
    ("Answer: yes or no", None),
    ("I cannot answer with yes or no.", None),
    ("1. Same place: yes\n2. Tag: no", None),
    # absent
    ("", None),
    ("   \n\t", None),
    ("...", None),
    ("None", None),
    ("null", None),
    ("N/A", None),
    ("42", None),
    ("not yes", None),
    ("The answer is not yes", None),
    ("I don't think the answer is yes", None),
    ("I would not say yes.", None),
    ("I cannot say yes.", None),
    ("There is no match", None),
    ("No match", None),
    ("No doubt they are the same.", None),
    ("No problem!", None),
    ("No. 1 is the dog", None),
    ("No one is seen.", None),
    ("The answer is no one knows", None),
    ("Yes?", None),
    ("Is it yes?", None),
    ("If they match, say yes.", None),
    ("I cannot determine whether they match.", None),
    ("I'm sorry, I can't help with that.", None),
    ("As an AI, I am unable to view videos.", None),
    ("The eyes of yesterday know nothing", None),
    ("They are the same.", None),
    ("Sí", None),
    ("是", None),
    ("yes-man", None),
]


@pytest.mark.parametrize(("text", "expected"), YES_OR_NO)
def test_yes_or_no(text: str, expected: str | None) -> None:
    assert parse_yes_no(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "是", "yes"),
        ("zh", "是的，两个视频是同一事件。", "yes"),
        ("zh", "不是。", "no"),
        ("zh", "否", "no"),
        ("zh", "答案：是", "yes"),
        ("zh", "答案是“否”。", "no"),
        ("zh", "<answer>是</answer>", "yes"),
        ("zh", "是不是同一个人？", None),
        ("zh", "不知道", None),
        ("es", "Sí, es el mismo perro.", "yes"),
        ("es", "No.", "no"),
        ("es", "La respuesta es no.", "no"),
        ("es", "No hay ninguna coincidencia", None),
        ("es", "Yes", None),
        ("fr", "Oui.", "yes"),
        ("fr", "**Non**, ce n'est pas le même chien.", "no"),
        ("fr", "Réponse : oui", "yes"),
        ("de", "Ja, derselbe Hund", "yes"),
        ("de", "Die Antwort ist nein.", "no"),
        ("de", "Ja und nein", None),
        ("pt", "Não.", "no"),
        ("pt", "Sim", "yes"),
        ("it", "Sì.", "yes"),
        ("it", "No, non è lui", "no"),
        ("ru", "Да, это то же здание.", "yes"),
        ("ru", "Ответ: нет", "no"),
        ("ru", "Нет совпадений", None),
        ("ja", "はい。", "yes"),
        ("ja", "いいえ、違います。", "no"),
        ("ja", "答えは「はい」です", "yes"),
        ("ko", "예", "yes"),
        ("ko", "아니요.", "no"),
        ("ko", "정답은 네", "yes"),
        ("ar", "نعم، نفس المبنى", "yes"),
        ("ar", "لا.", "no"),
        ("hi", "हाँ, वही कुत्ता", "yes"),
        ("hi", "नहीं।", "no"),
        ("nl", "Nee.", "no"),
        ("pl", "Tak.", "yes"),
        ("tr", "Hayır", "no"),
        ("uk", "Ні.", "no"),
        ("vi", "Không.", "no"),
        ("id", "Tidak.", "no"),
    ],
)
def test_yes_or_no_of_other_languages(language: str, text: str, expected: str | None) -> None:
    assert parse_yes_no(text, [language]) == expected
    if language == "zh":
        assert parse_yes_no("Yes", ("en", language)) == "yes"
        assert parse_yes_no(text, ("en", language)) == expected


def test_every_language_has_both_words() -> None:
    for language in YES_NO:
        yes, no = ({parse_yes_no(word, [language]) for word in words.split()} for words in YES_NO[language])
        assert (yes, no) == ({"yes"}, {"no"})


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'esp'; did you mean es\? Known: en, zh"):
        parse_yes_no("yes", ["en", "esp"])
    with pytest.raises(ConfigError, match="must be a list such as"):
        check_languages([])
    with pytest.raises(ConfigError, match="must be a list such as"):
        check_languages("en")
    check_languages(tuple(YES_NO))


LETTERS = [
    # bare
    ("B", "B"),
    ("b", "B"),
    (" B \n", "B"),
    ("B.", "B"),
    ("B)", "B"),
    ("B:", "B"),
    ("(B)", "B"),
    ("(b)", "B"),
    ("[B]", "B"),
    ("{B}", "B"),
    ("<B>", "B"),
    ('"B"', "B"),
    ("'B'", "B"),
    ("**B**", "B"),
    ("**B.**", "B"),
    ("**(B)**", "B"),
    ("__B__", "B"),
    ("`B`", "B"),
    ("$B$", "B"),
    ("B\n", "B"),
    ("Ｂ", "B"),
    ("（Ｂ）", "B"),
    ("【B】", "B"),
    ("Ⓑ", "B"),
    ("B</s>", "B"),
    ("B<|im_end|>", "B"),
    ("a", "A"),
    ("A", "A"),
    ("a.", "A"),
    ("a)", "A"),
    ("(a)", "A"),
    ("**a**", "A"),
    ("I", "I"),
    ("I.", "I"),
    ("(I)", "I"),
    ("**I**", "I"),
    ("i", "I"),
    ("B\nB", "B"),
    # with the option's text
    ("B. Second from the right", "B"),
    ("B) second from the right", "B"),
    ("B: 05:52-05:55", "B"),
    ("B - 3", "B"),
    ("B, because the dog is left.", "B"),
    ("B because the dog is left.", "B"),
    ("B.second from the right", "B"),
    ("B\n\nThe dog is left of the car.", "B"),
    ("B Second from the right", "B"),
    ("b) second", "B"),
    ("b, because it is left", "B"),
    ("b\nIt is left", "B"),
    ("a\n\nThe dog is left", "A"),
    ("a, because", None),
    ("B A", None),
    ("B. A dog", "B"),
    ("B!!", "B"),
    ("B, I think", "B"),
    ("E. All appear", "E"),
    ("D. None of the above", "D"),
    ("b. second", "B"),
    ("(b) second", "B"),
    ("**G. some option text**", "G"),
    ("**G.** some option text", "G"),
    ("**G** some option text", "G"),
    ("A. A dog", "A"),
    ("A) a dog", "A"),
    ("I. I see a dog", "I"),
    ("I) a dog", "I"),
    ("I: A dog", "I"),
    ("B. The dog is in option C's place, not in C", "B"),
    ("Option F", "F"),
    ("Option F.", "F"),
    ("Option (F): left", "F"),
    ("option f", None),
    ("Letter F", "F"),
    # marks
    ("Answer: B", "B"),
    ("answer: b", "B"),
    ("ANSWER: B", "B"),
    ("Answer: (B)", "B"),
    ("Answer: a", "A"),
    ("**Answer:** B", "B"),
    ("**Answer: B**", "B"),
    ("Answer - B", "B"),
    ("Answer = B", "B"),
    ("Answer B", "B"),
    ("Answer:\nB", "B"),
    ("### Answer\n\nB. left", "B"),
    ("Answer：Ｂ", "B"),
    ("The answer is B", "B"),
    ("The answer is B.", "B"),
    ("The answer is (C).", "C"),
    ("The answer is b.", "B"),
    ("The answer is A", "A"),
    ("The answer is A.", "A"),
    ("The answer is A because it is first.", "A"),
    ("The answer is: **D**", "D"),
    ('The answer is "D".', "D"),
    ("The correct answer is option E.", "E"),
    ("The correct answer is B. Second from the right", "B"),
    ("The correct answer is B second from the right", "B"),
    ("The best choice would be H", "H"),
    ("Correct option: C", "C"),
    ("Final Answer: (J)", "J"),
    ("I choose B", "B"),
    ("I would choose option B because it is left", "B"),
    ("I'll go with C.", "C"),
    ("I pick (D)", "D"),
    ("The answer is B, not C.", "B"),
    ("The answer is I.", "I"),
    ("Answer: I", "I"),
    ("The answer, B, is plain.", "B"),
    (r"\boxed{D}", "D"),
    (r"$\boxed{\text{D}}$", "D"),
    (r"\boxed{\mathrm{(d)}}", "D"),
    (r"Thus \[\boxed{I}\]", "I"),
    ('{"answer": "B"}', "B"),
    ('{"answer": "b"}', "B"),
    ('```json\n{\n  "reason": "A is not seen",\n  "answer": "C"\n}\n```', "C"),
    ('{"answer": null}', None),
    ("<answer>B</answer>", "B"),
    ("<answer>\n(B) left\n</answer>", "B"),
    ("<Answer>b</Answer>", "B"),
    ('{"final_answer": "B", "confidence": 0.95}', "B"),
    ('{"choice": "B"}', "B"),
    ('{"letter": "b"}', "B"),
    ("B</answer>", "B"),
    (r"\boxed{Option B}", "B"),
    (r"\boxed{B. left}", "B"),
    ("Final Answer: The final answer is $\\boxed{B}$. I hope it is correct.", "B"),
    ("Answer: B (second from the right)", "B"),
    ("Answer: B and the reason is plain", "B"),
    ("answer: option c", "C"),
    ("the answer is c", "C"),
    ("Answer: B\n\nConfidence: 95 %", "B"),
    ("应该选择B选项。", "B"),
    ("故选:B", "B"),
    ("不选B", None),
    ("答案：B", "B"),
    ("答案是B。", "B"),
    ("正确答案是 C", "C"),
    ("正解はBです。", "B"),
    ("정답은 B입니다.", "B"),
    ("Antwort: B", "B"),
    ("La respuesta es B.", "B"),
    ("Ответ: B", "B"),
    # a sentence with the letter last, and letters that are judged
    ("The dog is left of the car, so the correct option is E", "E"),
    ("The man is second from the left, so it must be B.", "B"),
    ("I think it is B", "B"),
    ("So, B.", "B"),
    ("It's B.", "B"),
    ("Answer: (C) first, not (D)", "C"),
    ("Answer: (C) is not right", None),
    ("This corresponds to option D.", "D"),
    ("A B C D", None),
    ("B、C", None),
    ("It is either B or C; I choose C.", "C"),
    ("Probably B", "B"),
    ("B is the answer because it is left.", "B"),
    ("Among A, B and C, the right one is C.", "C"),
    ("It could be A or B.", None),
    ("It is A or B", None),
    ("Not A. B.", "B"),
    ("A is wrong; B is right", "B"),
    ("The dog is left. Therefore, B.", "B"),
    ("The dog is left.\n\nB", "B"),
    ("From the frames we see the dog, which makes it option C.", "C"),
    ("B is correct.", "B"),
    ("B is the correct answer.", "B"),
    ("A is the right answer", "A"),
    ("Option C seems the most accurate.", "C"),
    ("Option A shows a dog. Option B shows a cat. So the answer is B.", "B"),
    ("A) dog\nB) cat\nC) cow\n\nAnswer: C", "C"),
    ("<think>Maybe A. Or C?</think>B", "B"),
    ("<think>the answer is A</think>\n\nThe answer is **B**.", "B"),
    ("<think>A A A", None),
    # several
    ("A and C", None),
    ("A or B", None),
    ("A/B", None),
    ("A & B", None),
    ("A, C", None),
    ("B, C", None),
    ("B, C and D", None),
    ("B and I", None),
    ("B\nC", None),
    ("B. C.", None),
    ("(A) (B)", None),
    ("(b) and (c)", None),
    ("a or b", None),
    ("A-D", None),
    ("A – D", None),
    ("BC", None),
    ("Answer: A and C", None),
    ("Answer: A, C", None),
    ("The answer is A or B.", None),
    ("The answer is A and C", None),
    ("The answer is not A but B", None),
    ('{"answer": ["A", "C"]}', None),
    (r"\boxed{A, C}", None),
    ("Answer: B. Answer: C.", None),
    ("B. On second thought, the answer is C.", None),
    ("I choose B. Wait, I choose C.", None),
    ("A) dog\nB) cat\nC) cow", None),
    ("Either B or C", None),
    # articles, pronouns, words
    ("a dog is seen", None),
    ("A dog is seen.", None),
    ("It is a dog", None),
    ("It is a", None),
    ("The answer is a", None),
    ("The answer is a dog", None),
    ("Answer: a dog", None),
    ("Answer: A dog", None),
    ("I see a dog", None),
    ("I think so", None),
    ("I, as an AI, cannot answer.", None),
    ("I am not sure.", None),
    ("I'm sorry, I cannot help.", None),
    ("I cannot determine the answer.", None),
    ("Answer: I cannot determine", None),
    ("Answer: I think it is a dog", None),
    ("Answer: I think it's B", "B"),
    ("Vitamin C", None),
    ("The man in shirt (B) walks.", None),
    ("The U.S. flag, e.g. at 3 p.m.", None),
    ("Plan B works", None),
    ("Dog", None),
    ("Bear", None),
    ("3", None),
    # refuted, asked, absent, not offered
    ("It is not B.", None),
    ("The answer is not B", None),
    ("I don't think the answer is B.", None),
    ("I would not choose B.", None),
    ("B is wrong.", None),
    ("B isn't right", None),
    ("B is wrong, C is right.", "C"),
    ("Is it B?", None),
    ("B?", None),
    ("If it is day, the answer is B.", None),
    ("Neither A nor B", None),
    ("None of the above", None),
    ("N/A", None),
    ("None", None),
    ("", None),
    (" ", None),
    ("**", None),
    ("K", None),
    ("Answer: K", None),
    ("Z.", None),
    ("B or K", None),
    ("Б", None),
    ("ß", None),
    ("é", None),
    ("The answer is second from the left", None),
    ("Final answer:", None),
]


@pytest.mark.parametrize(("text", "expected"), LETTERS)
def test_letters(text: str, expected: str | None) -> None:
    assert parse_letter(text, TEN) == expected


def test_only_offered_letters_are_given() -> None:
    assert parse_letter("D", "ABC") is None
    assert parse_letter("I think it is B", "ABC") == "B"
    assert parse_letter("I", "ABC") is None
    assert parse_letter("z", string.ascii_uppercase) == "Z"
    assert parse_letter("b", ("a", "b")) == "b"
    assert parse_letter("B", ()) is None


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
DENSE = ["a ", "yes ", "B ", "answer ", "answer: ", "final answer ", "a.", "a-", "no, ", "is ", "\\boxed{", "not "]
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
    assert final_part(f"{text}</think>\nFinal answer: D") == "D"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final answer: B", "B"),
        ("The dog is left.\n\n**Final Answer:** (B)", "(B)"),
        ("**Final answer**: B", "B"),
        ("### Final Answer\nB. left", "B. left"),
        ("FINAL ANSWER - it is hard", ""),
        ("The final answer is B.", "B."),
        ("The final answer is: **B**", "B**"),
        ("Final answer: A? No. Final answer: C", "C"),
        ("I must end with 'Final answer: X'. The dog is left. Final answer: yes", "yes"),
        ("Final answer: ", ""),
        ("Final answer", ""),
        ("It is B", ""),
        ("", ""),
        (r"so $\boxed{D}$", "{D}$"),
        ("left <answer>B</answer>", "B</answer>"),
        (r"Final answer: \boxed{B}", "{B}"),
        ("<think>Final answer: A</think>It is B", ""),
        ("<think>A</think>Final answer: B", "B"),
        ("最终答案：B", "B"),
    ],
)
def test_final_part(text: str, expected: str) -> None:
    assert final_part(text) == expected


def test_after_thinking() -> None:
    assert after_thinking("no thinking") == "no thinking"
    assert after_thinking("<think>a</think>b<think>c</think>d") == "d"
    assert after_thinking("<think>a</think>b<think>c") == "b"
    assert after_thinking("<THINK>a</THINK>b") == "b"


def log(**shares: float) -> dict[str, float]:
    return {name: math.log(share) for name, share in shares.items()}


def test_yes_probability_is_a_share_of_mass() -> None:
    assert yes_probability({"Yes": math.log(0.6), "No": math.log(0.2), "The": math.log(0.2)}) == pytest.approx(0.75)
    forms = dict.fromkeys(["Yes", " yes", "YES", "▁Yes", "Ġyes", "**Yes", "Yes,", '"Yes'], math.log(0.1))
    assert yes_probability({**forms, " No": math.log(0.2)}) == pytest.approx(0.8)
    assert yes_probability({"Yes": -3.0}) == 1.0
    assert yes_probability({"no": -3.0, "Yes": -math.inf}) == 0.0
    assert yes_probability({"no": -3.0, "Yes": math.nan}) == 0.0
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
    assert verdict(said("Yes."), PAIR, reasoning=True) is None
    assert verdict(said("It is A. Final answer: **B**"), CHOICE, reasoning=True) == "B"
    with pytest.raises(ConfigError, match="decision must be text or logprob, got 'words'"):
        verdict(said("Yes"), PAIR, "words")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="decision=logprob reads the first token"):
        verdict(said("Yes"), PAIR, "logprob", True)
