"""What the scores of MUVR-QA and IV-Bench have in common: what each answer is worth, counts, times, standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muvr_train.rerank.types import Answer, Place, Question


@dataclass(frozen=True)
class Scored:
    """A question and what came of it.

    Attributes:
        question: as it was asked.
        said: one of its choices, None where the answer is invalid, failed or absent.
        answer: None where there is none; counted as failed.
    """

    question: Question
    said: str | None
    answer: Answer | None

    @property
    def right(self) -> bool:
        """Whether it is answered rightly; several choices may be right (`about["right"]`)."""
        return self.said is not None and self.said in right_choices(self.question)

    @property
    def answered(self) -> bool:
        """Whether there is an answer, whatever it says."""
        return self.answer is not None and self.answer.answered


def right_choices(question: Question) -> tuple[str, ...]:
    """The choices that are right: the truth, and with it options that say the same."""
    return tuple(question.about.get("right", ())) or (question.truth,)


def scored(
    questions: Iterable[Question], verdicts: Mapping[Place, str | None], answers: Mapping[Place, Answer]
) -> dict[str, list[Scored]]:
    """Put together what belongs to each question, by setting; none is left out.

    Raises:
        ValueError: a verdict is none of the choices of its question.
    """
    settings: dict[str, list[Scored]] = {}
    for question in questions:
        place = question.id, question.setting
        said = verdicts.get(place)
        if said is not None and said not in question.choices:
            raise ValueError(f"{question.id} ({question.setting}): {said!r} is none of {question.choices}")
        settings.setdefault(question.setting, []).append(Scored(question, said, answers.get(place)))
    return settings


def counts_of(items: Sequence[Scored]) -> dict[str, int]:
    """How many questions there are, were answered, have an invalid answer, and failed."""
    answered = sum(item.answered for item in items)
    invalid = sum(item.answered and item.said is None for item in items)
    return {"questions": len(items), "answered": answered, "invalid": invalid, "failed": len(items) - answered}


def rates_of(items: Sequence[Scored]) -> dict[str, float | None]:
    """`answered_rate`: answered / questions; `parse_rate`: answers that say something / answered, None without any."""
    answered = sum(item.answered for item in items)
    parsed = sum(item.answered and item.said is not None for item in items)
    return {"answered_rate": answered / len(items), "parse_rate": parsed / answered if answered else None}


def timing_of(items: Iterable[Scored]) -> dict[str, float | None]:
    """`seconds_per_item`: mean over the answered questions of which it is known, None without any."""
    known = [
        item.answer.seconds
        for item in items
        if item.answer is not None and item.answer.answered and item.answer.seconds is not None
    ]
    return {"seconds_per_item": sum(known) / len(known) if known else None}


def clustered_error(clusters: Iterable[Sequence[float]]) -> float | None:
    """Standard error of the mean of values that are independent between clusters, but not within them.

    sqrt(G / (G - 1) * sum over clusters of (sum of their deviations from the mean)^2) / n, for G clusters of n values
    in all: the cluster-robust variance of a mean (Liang and Zeger 1986). Clusters of one value give the usual
    s / sqrt(n), clusters of equal size the standard error of the mean of their means.

    Returns:
        None for fewer than two clusters.

    >>> clustered_error([[1.0], [0.0]])
    0.5
    """
    kept = [list(values) for values in clusters if values]
    if len(kept) < 2:
        return None
    size = sum(map(len, kept))
    mean = math.fsum(value for values in kept for value in values) / size
    squares = math.fsum(math.fsum(value - mean for value in values) ** 2 for values in kept)
    return math.sqrt(len(kept) / (len(kept) - 1) * squares) / size
