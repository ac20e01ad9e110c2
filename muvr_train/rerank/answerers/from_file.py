"""Answers that were made elsewhere, or by an earlier run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.errors import DataError, shorten
from muvr_train.rerank.answer_file import read_lines, refuse_wrong_kinds
from muvr_train.rerank.one_question import options_of
from muvr_train.rerank.types import FAILED, Answerer, NoAnswerError, Question, Reply, Request


class FileAnswers(Answerer):
    """Reads a file with an answer a line: `{"question": id, "text": "..."}`, and what else is known.

    A line may name the `setting` (without one it is the answer in every setting), the `choices` that were offered, the
    `tokens` (log-probabilities of the first token) and the `seconds` that it took; `answers.jsonl` of any run is such
    a file, and so is `questions.jsonl` with a text added to each line. Of several lines for one question the last one
    with an answer counts. No video or image is looked at.

    Args:
        path: the file.
    """

    needs_visuals = False

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.stem
        self._lines: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._digest = ""

    def prepare(self) -> None:
        """Read the file.

        Raises:
            DataError: it is missing, or a line is broken (file and line are named).
        """
        self._lines.clear()
        names = set()
        for where, entry in read_lines(self.path):
            line = _checked(entry, where)
            place = (line["question"], line.get("setting") or "")
            before = self._lines.get(place)
            if before is None or line.get("status") != FAILED or before.get("status") == FAILED:
                self._lines[place] = line
            names.add(line.get("answerer"))
        self._digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        (name,) = names if len(names) == 1 else (None,)
        self.name = name or self.path.stem

    def identity(self) -> Mapping[str, Any]:
        """Its content."""
        return {"name": "file", "sha256": self._digest}

    def begin(self, questions: Sequence[Question]) -> None:
        """Check that the file is about these questions.

        Raises:
            DataError: it holds none of them, or its answers are to other choices, or to another order of them.
        """
        lines = [(question, line) for question in questions if (line := self._line(question)) is not None]
        if questions and not lines:
            there = shorten(sorted({repr(name) for name, _ in self._lines}), 3) or "nothing"
            raise DataError(
                f"{self.path} has no answer to any of the {len(questions)} questions, such as {questions[0].id!r} "
                f"(setting {questions[0].setting}); it holds {there}. questions.jsonl in the results folder lists what "
                "is asked"
            )
        for question, line in lines:
            _refuse_other_choices(question, line, self.path)

    def answer(self, request: Request) -> Reply:
        """Look it up."""
        line = self._line(request.question)
        if line is None:
            raise NoAnswerError("not in the file")
        if line.get("status") == FAILED:
            raise NoAnswerError(line.get("reason") or "failed when it was asked")
        numbers = {name: line.get(name) for name in ("prompt_tokens", "completion_tokens", "seconds")}
        return Reply(line["text"], tokens=line.get("tokens"), **numbers)

    def _line(self, question: Question) -> Mapping[str, Any] | None:
        return self._lines.get((question.id, question.setting)) or self._lines.get((question.id, ""))


def _checked(entry: dict[str, Any], where: str) -> dict[str, Any]:
    refuse_wrong_kinds(entry, where)
    if not isinstance(entry.get("question"), str):
        raise DataError(f"{where} has no 'question', the id as in questions.jsonl")
    if entry.get("status") != FAILED and not isinstance(entry.get("text"), str):
        if "key" not in entry:  # of ours, in which an empty text is left out
            raise DataError(f"{where} has no 'text', the answer to {entry['question']}")
        entry["text"] = ""
    return entry


def _refuse_other_choices(question: Question, line: Mapping[str, Any], path: Path) -> None:
    given, options = line.get("choices"), options_of(question)
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
