"""Answerers that look at nothing: what a benchmark gives to a constant, a coin, and somebody who knows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from muvr_train.errors import ConfigError
from muvr_train.rerank.answerers.retrieval_scores import find_scores, leave_one_out, query_of
from muvr_train.rerank.types import Answerer, Question, Reply, Request
from muvr_train.search.score_files import ScoreFile, read_scores


def _unfit(name: str, says: str, first: Question) -> ConfigError:
    offered = ", ".join(first.choices)
    return ConfigError(
        f"answerer {name} {says}, but the questions ask for one of {offered} (the first is {first.id}); choose "
        "another answerer: coin and oracle fit every question"
    )


def _spoken(said: str, question: Question) -> str:
    """Answer in the form that is asked for: behind `Final answer:` where one may reason first."""
    return f"Final answer: {said}" if question.about.get("reasoning") else said


class _Constant(Answerer):
    """Always says the same."""

    needs_visuals = False
    said: str

    def begin(self, questions: Sequence[Question]) -> None:
        """Refuse questions of which none offers what is said.

        Raises:
            ConfigError: with what is offered instead.
        """
        if questions and not any(self.said in question.choices for question in questions):
            raise _unfit(self.name, f"always says {self.said}", questions[0])

    def answer(self, request: Request) -> Reply:
        """Say it."""
        return Reply(_spoken(self.said, request.question))


class AlwaysYes(_Constant):
    """Says yes: on MUVR-QA an accuracy of 50 % and a Reranking Score of 0."""

    name, said = "always_yes", "yes"


class AlwaysNo(_Constant):
    """Says no: on MUVR-QA an accuracy of 50 % and a Reranking Score of -1."""

    name, said = "always_no", "no"


class FixedLetter(_Constant):
    """Says the same letter, also where a question has fewer options (then it is invalid): about chance on IV-Bench.

    Args:
        letter: A to Z.

    Raises:
        ConfigError: it is no such letter.
    """

    def __init__(self, letter: str = "A") -> None:
        if not isinstance(letter, str) or letter.upper() not in tuple(ascii_uppercase):
            raise ConfigError(f"answerer.letter must be one letter, A to Z, got {letter!r}")
        self.said = letter.upper()
        self.name = f"fixed_letter_{self.said}"


class Coin(Answerer):
    """Says one of the choices, each with the same probability.

    It depends on the seed and the question's id alone, so on no order, thread or setting. In expectation 50 % and a
    Reranking Score of -0.5 on MUVR-QA, and chance on IV-Bench.

    Args:
        seed: another one gives other answers.

    Raises:
        ConfigError: it is no whole number.
    """

    name, needs_visuals = "coin", False

    def __init__(self, seed: int = 0) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ConfigError(f"answerer.seed must be a whole number, got {seed!r}")
        self.seed = seed

    def identity(self) -> Mapping[str, Any]:
        """Name and seed."""
        return {"name": self.name, "seed": self.seed}

    def answer(self, request: Request) -> Reply:
        """Toss it."""
        question = request.question
        digest = hashlib.sha256(json.dumps([self.seed, question.id]).encode()).digest()
        return Reply(_spoken(question.choices[int.from_bytes(digest[:8], "big") % len(question.choices)], question))


class Oracle(Answerer):
    """Says what is right: 100 %, and a Reranking Score of 1."""

    name, needs_visuals, knows_truth = "oracle", False, True

    def answer(self, request: Request) -> Reply:
        """Say it."""
        return Reply(_spoken(request.question.truth, request.question))


class Retriever(Answerer):
    """Says yes where a retriever's score is above a threshold that is learned on the questions about all other queries.

    No query has a part in its own threshold (`retrieval_scores.leave_one_out`).

    Args:
        scores: a score file as `evaluate.py save_scores=true` writes it.
    """

    name, needs_visuals, knows_truth = "retriever", False, True

    def __init__(self, scores: str | Path) -> None:
        self.path = Path(scores)
        self._file: ScoreFile | None = None
        self._says: dict[str, bool] = {}

    def begin(self, questions: Sequence[Question]) -> None:
        """Read the scores, look up those of all questions and learn the thresholds.

        Raises:
            ConfigError: the questions are not about a query and a target.
            DataError: it is no score file, or broken; a score is missing or not finite, or there is only one query.
        """
        self._file = self._file or read_scores(self.path)
        asked = list({question.id: question for question in questions}.values())
        unfit = next((question for question in asked if set(question.choices) != {"yes", "no"}), None)
        if unfit is not None:
            raise _unfit(self.name, "says yes or no", unfit)
        if not asked:
            return
        scores = np.array(find_scores(self._file, asked))
        truth = np.array([question.truth == "yes" for question in asked])
        says = leave_one_out(scores, truth, [query_of(question) for question in asked])
        self._says = {question.id: yes for question, yes in zip(asked, says, strict=True)}

    def identity(self) -> Mapping[str, Any]:
        """Name and all that it says, which depends on the scores and on every question."""
        says = json.dumps(sorted(self._says.items()))
        return {"name": self.name, "says": hashlib.sha256(says.encode()).hexdigest()}

    def answer(self, request: Request) -> Reply:
        """Say it."""
        return Reply("yes" if self._says[request.question.id] else "no")
