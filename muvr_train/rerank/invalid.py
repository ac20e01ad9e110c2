"""Answers that could not be read: why, in few words, and what may help."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from muvr_train.rerank.parsing import final_part
from muvr_train.rerank.types import CUT_OFF, Answer, Place, Question
from muvr_train.rerank.yes_no import forms_of

NONE_NAMED, SEVERAL_NAMED = "no choice named", "several named"
CUT, NO_FINAL = "cut off", "no final answer"
NO_LOGPROBS = "no choice in the log-probabilities, or two equally likely"
LONGEST_EXAMPLE = 60
_WORD = re.compile(r"\w+")


def why_invalid(
    answer: Answer, question: Question, decision: str, reasoning: bool, languages: Sequence[str] = ("en",)
) -> str:
    """Say why an answer could not be read; it must be one that could not.

    Choices are looked for anywhere in its text, so "several named" may also be mere mentions.

    Args:
        answer: that came.
        question: that it is about.
        decision: see `parsing.verdict`, also for the others.
        reasoning: see there.
        languages: see there.
    """
    if decision == "logprob":
        return NO_LOGPROBS
    if answer.finish == CUT_OFF:
        return CUT
    text = final_part(answer.text) if reasoning else answer.text
    if reasoning and not text:
        return NO_FINAL
    words = set(_WORD.findall(text))
    if set(question.choices) == {"yes", "no"}:
        forms = forms_of(tuple(languages))
        named = {forms[word.casefold()] for word in words if word.casefold() in forms}
    else:
        named = words & set(question.choices)
    return SEVERAL_NAMED if len(named) > 1 else NONE_NAMED


def invalid_note(reasons: Mapping[Place, str], answers: Mapping[Place, Answer], with_languages: bool) -> list[str]:
    """One line about the answers that could not be read, with an example and hints; none where there are none.

    Args:
        reasons: (id, setting) -> why, of those that could not be read.
        answers: all that were answered or failed.
        with_languages: whether answers are read as words of `benchmark.languages`.
    """
    if not reasons:
        return []
    answered = sum(answer.answered for answer in answers.values())
    shown = " ".join(answers[next(iter(reasons))].text.split())
    shown = shown if len(shown) <= LONGEST_EXAMPLE else f"{shown[:LONGEST_EXAMPLE]}..."
    found = list(reasons.values())
    counts = ", ".join(f"{found.count(why):,} {why}" for why in dict.fromkeys(found))
    hints = ["Longer answers: answerer.max_tokens."] if CUT in found or NO_FINAL in found else []
    if with_languages and NONE_NAMED in found:
        hints.append("Answers in another language: benchmark.languages=[en,zh].")
    line = f'{len(found):,} of {answered:,} answers could not be read, e.g. "{shown}" ({counts}).'
    return [" ".join([line, *hints])]
