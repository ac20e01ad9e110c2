r"""What an answer says: yes or no, or a letter. What is absent or ambiguous is None, never a guess.

Two kinds of places count: behind a mark (`Answer: B`, `the answer is no`, `\boxed{C}`, JSON, `<answer>`), and where the
answer stands by itself, at the start of a sentence or behind nothing but fillers (`So I would say yes.`). Marks go
first. Where two places that count say different things, the answer is ambiguous; a mere mention (`it is not night`,
`unlike option C`) is no such place. Blocks of thinking are left out.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from muvr_train.errors import ConfigError
from muvr_train.rerank.answer_words import SOFT, Words, after_thinking, cleaned
from muvr_train.rerank.asked_digest import options_of
from muvr_train.rerank.letters import said_letter
from muvr_train.rerank.types import Answer, Question
from muvr_train.rerank.yes_no import YesNo, forms_of, said_yes_or_no

_SIGN = (
    r"(?:\s{0,4}\([^()\n]{2,40}\))?[\s*_`#\"']{0,20}"
    r"(?:is\b|(?:would|should|must|will)\s{1,4}be\b|[:=\n–—→;：是は]|->|-\s|\*\*)"
)
_VALUE = (
    r"[\s*_`#]{0,20}(?=[(\[{\"'“][A-Za-z][)\]}\"'”]"
    r"|(?:(?-i:[B-HJ-Z])|(?-i:[AI])(?=[\s.*)]{0,20}\Z)|yes|no)(?![\w'’]))"
)
_FINAL = re.compile(
    rf"(?:final[\s_-]{{1,9}}(?:answer|choice|option|verdict|decision)|最终答案|最終的?な?答え)(?:{_SIGN}|{_VALUE})"
    r"|\\boxed(?=\s?\{)|<answer>",
    re.IGNORECASE,
)
_ANSWER = re.compile(rf"(?:\banswer|\bcorrect\s{{1,4}}(?:option|choice)|答案|正解|정답){_SIGN}", re.IGNORECASE)
_ONLY_ANSWER = re.compile(r"\W{0,20}(?:the\s)?(?:correct\s)?answer\W{0,20}", re.IGNORECASE)
_REVERSED = re.compile(
    r"(?<![\w'’])[(\[*_\"]{0,4}[A-Z][)\]*_.\"]{0,4} is (?:the|my) (?:final|correct|right|best) "
    r"(?:answer|option|choice)\b"
)
_NOTE = re.compile(r"\W{0,20}confidence\b[^\n]{0,60}", re.IGNORECASE)
_ALONE = re.compile(r"\W{0,20}(?:option\s)?\w{1,20}\W{0,20}", re.IGNORECASE)
_AROUND = f"{SOFT}\"'“”‘’„«»"
_SENTENCE_ENDS = (". ", "! ", "? ", "。")
LEAST_MASS = 0.05
"""Least probability of a first token that says one of the choices; below it, log-probabilities decide nothing."""


def parse_yes_no(text: str, languages: Sequence[str] = ("en",)) -> YesNo | None:
    """Read yes or no.

    An answer that starts with one of them is that (`Yes, it is not night`), unless the other one is asserted as an
    answer elsewhere (`Yes. Wait, no.`) or it is taken back (`Yes, but the condition is violated`; `No, I was wrong:
    it's a match`). `No` in front of a noun answers nothing (`There is no match`), but for `No match` alone.

    Args:
        text: the answer of a model, of any length.
        languages: whose words for yes and no count, see `YES_NO`.

    Returns:
        "yes" or "no", None where the answer is absent or ambiguous.

    Raises:
        ConfigError: an unknown language.
    """
    return said_yes_or_no(Words.of(text), tuple(languages))


def parse_letter(text: str, letters: Sequence[str]) -> str | None:
    """Read the letter of an option.

    Lower case counts alone, in brackets, with a sign behind it at the start, or behind a mark; the article `a` and the
    pronoun `I` never do.

    Args:
        text: the answer of a model, of any length.
        letters: those that are offered, such as A to J; another one is no answer.

    Returns:
        One of `letters`, None where the answer is absent or ambiguous.
    """
    chosen = said_letter(Words.of(text))
    return next((letter for letter in letters if letter.upper() == chosen), None)


def option_with_text(text: str, options: Mapping[str, str]) -> str | None:
    """Give the letter of the only option whose text is the whole answer; case, quotes and a final full stop aside.

    Its own letter may stand in brackets behind it: `the dog (C)`.

    Args:
        text: the answer of a model.
        options: texts by letter.
    """
    said = _bare(cleaned(text))
    found = [
        letter
        for letter, option in options.items()
        if said and said in ((bare := _bare(option)), f"{bare} ({letter.casefold()})")
    ]
    return found[0] if len(found) == 1 else None


def _bare(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip(_AROUND).removesuffix(".").strip(_AROUND)


def final_part(text: str) -> str:
    r"""Give what stands behind the last mark of a final answer, for models that reason first.

    Marks are `final answer` with a sign, `is` or the value itself behind it, in any case and with markdown, `\boxed`
    and `<answer>`. Where there is none, the last line counts if it has a mark of an answer (`The answer is B.`),
    from the sentence with that mark on; a note of confidence behind it is passed over. A text that is one word or
    letter is an answer itself. Otherwise it is the empty text: reasoning that was cut short has no answer.

    >>> final_part("The dog is left. **Final Answer:** (B)")
    '(B)'
    """
    text = after_thinking(text)
    end = -1
    for mark in _FINAL.finditer(text):
        end = mark.end()
    return text[end:].lstrip(f"{SOFT}:=").strip() if end >= 0 else _last_line(text)


def _last_line(text: str) -> str:
    if _ALONE.fullmatch(text):
        return text.strip()
    lines = (line for line in reversed(text.splitlines()) if any(map(str.isalnum, line)) and not _NOTE.fullmatch(line))
    last = next(lines, "")
    marks = [*_ANSWER.finditer(last)] or [*_REVERSED.finditer(last)]
    place = marks[-1].start() if marks else -1
    if place < 0:
        return last.strip() if _ONLY_ANSWER.fullmatch(next(lines, "")) else ""
    return last[max(last.rfind(end, 0, place) for end in _SENTENCE_ENDS) + 1 :].strip()


def yes_probability(tokens: Mapping[str, float] | None, languages: Sequence[str] = ("en",)) -> float | None:
    """Share of the first token's probability that says yes, of all that says yes or no.

    Args:
        tokens: natural log-probabilities by token, as `Reply.tokens`; `Yes`, ` yes`, `YES`, `▁Yes` and `**Yes` are all
            yes.
        languages: whose words count.

    Returns:
        In [0, 1]; None where less than `LEAST_MASS` of the probability says yes or no.

    Raises:
        ConfigError: an unknown language.
    """
    forms = forms_of(tuple(languages))
    mass = _mass(tokens, lambda token: forms.get(token.casefold()))
    total = sum(mass.values())
    return mass.get("yes", 0.0) / total if total >= LEAST_MASS else None


def letter_by_logprob(tokens: Mapping[str, float] | None, letters: Sequence[str]) -> str | None:
    """Give the offered letter with the highest probability of being the first token.

    Args:
        tokens: natural log-probabilities by token; `B`, ` B`, `(B` and `b` are all B. Lower-case `a` and `i` are words.
        letters: those that are offered.

    Returns:
        One of `letters`; None where less than `LEAST_MASS` of the probability says one, or the two likeliest are equal.
    """
    offered = {letter.upper(): letter for letter in letters}
    mass = _mass(tokens, lambda token: None if token in ("a", "i") else offered.get(token.upper()))
    best = max(mass.values(), default=0.0)
    likeliest = [letter for letter, value in mass.items() if value == best]
    return likeliest[0] if len(likeliest) == 1 and sum(mass.values()) >= LEAST_MASS else None


def verdict(
    answer: Answer | None,
    question: Question,
    decision: Literal["text", "logprob"] = "text",
    reasoning: bool = False,
    languages: Sequence[str] = ("en",),
) -> str | None:
    """Decide what an answer says to its question.

    Args:
        answer: None or a failed one says nothing.
        question: its choices are yes and no, or letters.
        decision: "text" parses what is written; "logprob" takes the likelier choice of the first token's
            probabilities, where a tie, less than `LEAST_MASS` or an answer without them says nothing.
        reasoning: the model was asked to reason first: only the final part counts, see `final_part`.
        languages: whose words for yes and no count.

    Returns:
        One of `question.choices`, None where the answer is invalid or failed.

    Raises:
        ConfigError: an unknown decision, or log-probabilities of the first token of a reasoning.
    """
    if decision not in ("text", "logprob"):
        raise ConfigError(f"decision must be text or logprob, got {decision!r}")
    if decision == "logprob" and reasoning:
        raise ConfigError("decision=logprob reads the first token, which is no answer with reasoning=true: pass text")
    if answer is None or not answer.answered:
        return None
    yes_no = set(question.choices) == {"yes", "no"}
    if decision == "logprob":
        if not yes_no:
            return letter_by_logprob(answer.tokens, question.choices)
        probability = yes_probability(answer.tokens, languages)
        return None if probability in (None, 0.5) else "yes" if probability > 0.5 else "no"
    text = final_part(answer.text) if reasoning else answer.text
    if yes_no:
        return parse_yes_no(text, languages)
    return parse_letter(text, question.choices) or option_with_text(text, options_of(question) or {})


def _mass(tokens: Mapping[str, float] | None, read: Callable[[str], str | None]) -> dict[str, float]:
    """Probability by what tokens say."""
    mass: dict[str, float] = {}
    for token, logprob in (tokens or {}).items():
        said = read(unicodedata.normalize("NFKC", token).strip("▁ĠĊ \t\r\n*_`\"'“”([{<)]}>.,:;!?-"))
        if said is not None and not math.isnan(logprob):
            mass[said] = mass.get(said, 0.0) + math.exp(min(logprob, 0.0))
    return mass
