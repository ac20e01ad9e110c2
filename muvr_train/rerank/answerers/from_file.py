"""Answers that were made elsewhere, or by an earlier run."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.rerank.answer_file import read_lines, refuse_wrong_kinds
from muvr_train.rerank.answerers.file_lines import Line, Source, fitting, newest, refuse_other_choices
from muvr_train.rerank.replies import NoAnswerError
from muvr_train.rerank.types import FAILED, Answerer, Question, Reply, Request

log = logging.getLogger(__name__)
OTHERWISE = (
    "the file's answers to it are to another prompt, other options or another length than here (`asked` in "
    "questions.jsonl): other settings of the benchmark"
)


class FileAnswers(Answerer):
    """Reads a file with an answer a line: `{"question": id, "text": "..."}`, and what else is known.

    A line may name the `setting` (without one it is the answer in every setting), the `choices` that were offered, the
    `tokens` (log-probabilities of the first token) and the `seconds` that it took; `answers.jsonl` of any run is such
    a file, and so is `questions.jsonl` with a text added to each line. These say what was `asked`: only what is asked
    here is taken from them. Of several lines for one question the last one with an answer counts; several answerers
    are told apart by `only`. No video or image is looked at.

    Args:
        path: the file.
        only: name of the answerer whose lines count, or the `by` of its lines; None: there is one.

    Raises:
        ConfigError: `only` is no text.
    """

    needs_visuals, measured = False, False

    def __init__(self, path: str | Path, only: str | None = None) -> None:
        if only is not None and (not isinstance(only, str) or not only):
            raise ConfigError(f"answerer.only must be the name of an answerer in quotes, got {only!r}")
        self.path, self.only = Path(path), only
        self.name = only or self.path.stem
        self._digest = ""
        self._chosen: dict[tuple[str, str], Line] = {}
        self._otherwise: set[tuple[str, str]] = set()

    def identity(self) -> Mapping[str, Any]:
        """Its content, and whose lines count."""
        return {"name": "file", "sha256": self._digest, "only": self.only}

    def asks_by_task(self, shared: Sequence[Question], single: Sequence[Question]) -> bool:
        """Whether the file has answers task by task, as references give them that know the truth.

        Raises:
            DataError: it has both.
        """
        there = {line.question for line in self._read()}
        by_pair, by_task = (any(question.id in there for question in asked) for asked in (shared, single))
        if by_pair and by_task:
            raise DataError(
                f"{self.path} has answers about pairs, and others task by task (of oracle or retriever): choose with "
                "answerer.only=NAME"
            )
        return by_task

    def begin(self, questions: Sequence[Question]) -> None:
        """Read the file, and find the line for every question.

        Raises:
            DataError: it is missing, a line is broken (file and line are named), it holds none of the questions, its
                answers are to other choices, or it has different answers to one question.
        """
        lines = self._read()
        by_question: dict[str, list[Line]] = {}
        for line in lines:
            by_question.setdefault(line.question, []).append(line)
        places = {(one.id, one.setting): one for one in questions}
        there = {place: [line for line in by_question.get(place[0], []) if line.is_in(place[1])] for place in places}
        fit = {place: fitting(places[place], kept, self.wants_logprobs) for place, kept in there.items()}
        self._otherwise = {place for place in places if there[place] and not fit[place]}
        if questions and not any(fit.values()):
            raise self._nothing(questions, there, lines)
        if len(self._otherwise) > len(places) / 2:
            self._refuse_other_orders(places, there)
        self._refuse_several(fit)
        self._chosen = {place: newest(kept, self.path) for place, kept in fit.items() if kept}
        for place, line in self._chosen.items():
            refuse_other_choices(places[place], line, self.path)
        self._tell_of_odd_lines(lines, fit)
        names = {line.answerer for line in self._chosen.values()}
        self.name = (names.pop() if len(names) == 1 else "") or self.path.stem
        unguarded = [line for place, line in self._chosen.items() if line.unguarded(places[place])]
        if unguarded:
            log.warning(
                "%s: %d of %d answers have no 'choices': whether their letters are those of the options here cannot be "
                "checked",
                self.path,
                len(unguarded),
                len(self._chosen),
            )

    def answer(self, request: Request) -> Reply:
        """Look it up."""
        place = request.question.id, request.question.setting
        line = self._chosen.get(place)
        if line is None:
            raise NoAnswerError(OTHERWISE if place in self._otherwise else "not in the file")
        if not line.answered:
            raise NoAnswerError(line.entry.get("reason") or "failed when it was asked", line.entry.get("seconds"))
        numbers = {name: line.entry.get(name) for name in ("prompt_tokens", "completion_tokens", "seconds")}
        return Reply(line.text, tokens=line.entry.get("tokens"), **numbers, finish=line.entry.get("finish") or "")

    def _read(self) -> list[Line]:
        lines = [_line(entry, where) for where, entry in read_lines(self.path)]
        self._digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        if self.only is None:
            return lines
        kept = [line for line in lines if self.only in line.source]
        if not kept:
            names = shorten(sorted({line.answerer or "nobody" for line in lines}), 5) or "nobody"
            raise DataError(f"answerer.only={self.only}: {self.path} has answers of {names}")
        return kept

    def _tell_of_odd_lines(self, lines: Sequence[Line], fit: Mapping[tuple[str, str], Sequence[Line]]) -> None:
        known = {question for question, _ in fit}
        if other := [line.question for line in lines if line.question not in known]:
            names = shorten(list(dict.fromkeys(other)), 3)
            log.warning("%s: %d of %d lines are about no question here: %s", self.path, len(other), len(lines), names)
        differing = [
            f"{question} ({setting})"
            for (question, setting), kept in fit.items()
            if len({line.outcome for line in kept if line.answered}) > 1
        ]
        if differing:
            names = shorten(differing, 3)
            log.warning(
                "%s: several answers to %d of the questions, the last counts: %s", self.path, len(differing), names
            )

    def _nothing(
        self, questions: Sequence[Question], there: Mapping[tuple[str, str], Sequence[Line]], lines: Sequence[Line]
    ) -> DataError:
        """No line is an answer to a question: say why."""
        for question in questions:
            for line in there[question.id, question.setting]:
                refuse_other_choices(question, line, self.path)
                return DataError(f"{self.path}: {question.id} ({question.setting}), as all others: {OTHERWISE}")
        ids = {one.id for one in questions}
        settings = sorted({line.setting for line in lines if line.question in ids})
        if settings:
            asked = ", ".join(dict.fromkeys(one.setting for one in questions))
            return DataError(
                f"{self.path}: its answers are for setting {', '.join(settings)}, this run asks {asked}. Ask so, or "
                "leave 'setting' out of the lines: then they count for every setting"
            )
        held = shorten(sorted({repr((line.question, line.setting)) for line in lines}), 3) or "nothing"
        return DataError(
            f"{self.path} has no answer to any of the {len(questions)} questions, such as {questions[0].id!r} "
            f"(setting {questions[0].setting}); it holds {held}. questions.jsonl in the results folder lists what "
            "is asked"
        )

    def _refuse_other_orders(
        self, places: Mapping[tuple[str, str], Question], there: Mapping[tuple[str, str], Sequence[Line]]
    ) -> None:
        """Refuse a file most of whose answers are to other choices, even if some happen to fit."""
        for place in self._otherwise:
            refuse_other_choices(places[place], there[place][-1], self.path)

    def _refuse_several(self, fit: Mapping[tuple[str, str], Sequence[Line]]) -> None:
        """Refuse different answers of several answerers to one question: which ones are meant?"""
        counts = Counter(line.source for kept in fit.values() for line in kept if line.answered)
        for place, kept in fit.items():
            lines = [line for line in kept if line.source in counts]
            if len({line.source for line in lines}) < 2 or len({line.outcome for line in lines}) < 2:
                continue
            names = Counter(source.answerer for source in counts)
            told = [_told(source, count, names[source.answerer] > 1) for source, count in counts.items()]
            raise DataError(
                f"{self.path} has different answers to {place[0]} ({place[1]}), by several answerers or settings of "
                f"one: {', '.join(told)}. Choose with answerer.only=NAME (or answerer.only=BY)"
            )


def _told(source: Source, count: int, with_by: bool) -> str:
    return f"{source.answerer or 'no name'}{f' (by {source.by})' if with_by else ''}: {count}"


def _line(entry: dict[str, Any], where: str) -> Line:
    if entry.get("text", "") is None and entry.get("status") != FAILED:
        entry = {**entry, "status": FAILED, "reason": "its text in the file is null"}
    refuse_wrong_kinds(entry, where)
    if not isinstance(entry.get("question"), str):
        raise DataError(f"{where} has no 'question', the id as in questions.jsonl")
    if entry.get("status") != FAILED and "text" not in entry and "key" not in entry:
        raise DataError(f"{where} has no 'text', the answer to {entry['question']}")  # ours leave an empty one out
    return Line(entry, where)
