"""Lines of a file of answers: which of them answer a question as it is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from muvr_train.errors import DataError
from muvr_train.rerank.asked_digest import asked_digest, options_of
from muvr_train.rerank.types import FAILED, Question


class Source(NamedTuple):
    """Who answered: name, and digest of what determines its answers."""

    answerer: str
    by: str


@dataclass(frozen=True)
class Line:
    """A line of a file of answers; `entry` is checked, `where` is file and line."""

    entry: Mapping[str, Any]
    where: str

    @property
    def question(self) -> str:
        """Id of the question."""
        return str(self.entry["question"])

    @property
    def setting(self) -> str:
        """Its setting, "" for all."""
        return self.entry.get("setting") or ""

    @property
    def answerer(self) -> str:
        """Name of the answerer, "" where it is not said."""
        return self.entry.get("answerer") or ""

    @property
    def source(self) -> Source:
        """Who answered."""
        return Source(self.answerer, self.entry.get("by") or "")

    @property
    def asked(self) -> str:
        """Digest of the question as it was asked, "" where it is not said."""
        return self.entry.get("asked") or ""

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return self.entry.get("status") != FAILED

    @property
    def text(self) -> str:
        """The answer."""
        return self.entry.get("text") or ""

    @property
    def outcome(self) -> str:
        """All that scoring sees of it, as one text."""
        return json.dumps([self.answered, self.text, self.entry.get("tokens")], sort_keys=True)

    def is_in(self, setting: str) -> bool:
        """Whether it is about a setting."""
        return self.setting in ("", setting)

    def unguarded(self, question: Question) -> bool:
        """Whether its letter may stand for another option than here."""
        return self.answered and not self.asked and not self.entry.get("choices") and options_of(question) is not None


def fitting(question: Question, lines: Sequence[Line], logprobs: bool) -> list[Line]:
    """Give the lines that answer a question as it is asked, of the best kind that has an answer.

    First those that say so (`asked`); then those that were asked the same with log-probabilities where none are wanted,
    or have them where they are; then those that do not say what was asked, which are made elsewhere. Of these, lines
    that name the setting come before those for all settings. What failed in the first kind is there in the second, too.
    """
    same, other = asked_digest(question, logprobs), asked_digest(question, not logprobs)
    ours = [line for line in lines if line.asked == same]
    kinds = (
        ours,
        [*ours, *(line for line in lines if line.asked == other and (not logprobs or line.entry.get("tokens")))],
        [line for line in lines if not line.asked and line.setting],
        [line for line in lines if not line.asked and not line.setting],
    )
    answered = (kind for kind in kinds if any(line.answered for line in kind))
    return next(answered, next(filter(None, kinds), []))


def newest(lines: Sequence[Line], path: Path) -> Line:
    """Choose among lines of one answerer: the last answer; the last failure where there is none.

    A failure does not take an answer away.

    Raises:
        DataError: there are different answers of one answerer, about other pixels (`key`).
    """
    answers = {str(line.entry.get("key") or ""): line for line in lines if line.answered}
    if len({line.outcome for line in answers.values()}) > 1:
        first, second = list(answers.values())[-2:]
        raise DataError(
            f"{path} has different answers of {first.answerer or 'one answerer'} to {first.question} "
            f"({first.setting}), which was shown other files (videos, images, masks) or asked for other "
            f"log-probabilities: {first.where} and {second.where}. Remove the lines that are not meant"
        )
    return [line for line in lines if line.answered or not answers][-1]


def refuse_other_choices(question: Question, line: Line, path: Path) -> None:
    """Refuse an answer to other choices, or to another order of them.

    Raises:
        DataError: naming both.
    """
    given, options = line.entry.get("choices"), options_of(question)
    ours: Any = list(question.choices)
    if isinstance(given, dict):
        ours = dict(options) if options else dict(zip(ours, ours, strict=True))
    if given is not None and given != ours:
        raise DataError(
            f"{path}: the answer to {question.id} is to the choices {_short(given)}, here they are {_short(ours)}. "
            "Options are in another order with another benchmark.seed or benchmark.duplicates: give those of the file"
        )


def _short(choices: Any) -> str:
    text = str(choices)
    return text if len(text) <= 160 else f"{text[:160]}..."
