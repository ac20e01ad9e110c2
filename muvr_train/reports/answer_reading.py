"""What a card says about how an answer was read: why it is invalid, and how likely its first token makes a choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muvr_train.rerank.invalid import why_invalid
from muvr_train.rerank.parsing import letter_by_logprob, yes_probability
from muvr_train.rerank.types import Answer, Question

YES_NO = {"yes", "no"}


@dataclass(frozen=True)
class Reading:
    """How the answers of a page were read; as in `rerank.parsing.verdict`."""

    decision: Literal["text", "logprob"] = "text"
    reasoning: bool = False
    languages: tuple[str, ...] = ("en",)

    def why_invalid(self, answer: Answer, question: Question) -> str:
        """Say why no choice was read from an answer."""
        if self.decision == "logprob":
            return self._why_unlikely(answer, question)
        return why_invalid(answer, question, self.decision, self.reasoning, self.languages)

    def shares(self, answer: Answer, question: Question) -> str:
        """The share of yes, or of the likeliest letter, among the choices, and their mass; "" where text decides."""
        mass = masses(answer.tokens, question.choices, self.languages) if self.decision == "logprob" else {}
        total = math.fsum(mass.values())
        if total <= 0:
            return ""
        yes_no = set(question.choices) == YES_NO
        choice = "yes" if yes_no else max(mass, key=lambda name: mass[name])
        given = "yes or no" if yes_no else "any letter"
        return (
            f"p({choice} | {given}) {_percent(mass.get(choice, 0.0) / total)}, all choices together {_percent(total)} "
            "of the first token"
        )

    def _why_unlikely(self, answer: Answer, question: Question) -> str:
        if not answer.tokens:
            return "the answer came without log-probabilities"
        mass = masses(answer.tokens, question.choices, self.languages)
        best = max(mass.values(), default=0.0)
        if best <= 0:
            return "none of the likeliest first tokens is a choice"
        if sum(value == best for value in mass.values()) > 1:
            return "two choices are equally likely"
        return f"all choices together have only {_percent(math.fsum(mass.values()))} of the first token's probability"


def masses(
    tokens: Mapping[str, float] | None, choices: Sequence[str], languages: Sequence[str] = ("en",)
) -> dict[str, float]:
    """Probability of each choice as the first token; in [0, 1], choices without any are left out.

    Args:
        tokens: natural log-probabilities by token, as `Reply.tokens`.
        choices: yes and no, or letters.
        languages: whose words for yes and no count.
    """
    found: dict[str, float] = {}
    for token, value in (tokens or {}).items():
        alone = {token: 0.0}
        if set(choices) == YES_NO:
            share = yes_probability(alone, languages)
            said = None if share is None else "yes" if share > 0.5 else "no"
        else:
            said = letter_by_logprob(alone, choices)
        if said is not None:
            found[said] = found.get(said, 0.0) + math.exp(min(value, 0.0))
    return found


def _percent(share: float) -> str:
    return f"{100 * min(share, 1.0):.3g} %"
