"""One question: its key, its pixels, its answer."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from muvr_train.errors import AnswererError, DataError, MuvrTrainError
from muvr_train.faults import place_of
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.asked_digest import asked_digest, options_of, short_digest
from muvr_train.rerank.replies import NoAnswerError, fault_of, plain
from muvr_train.rerank.types import ANSWERED, FAILED, Answer, Answerer, AnswerError, Part, Question, Request, Visual

LONGEST_REASON = 500
IMPOSSIBLE = -9999.0
"""What stands for a log-probability of minus infinity, which JSON has no number for."""


@dataclass
class Ready:
    """A question on its way.

    Attributes:
        question: what it is.
        key: of its answer, "" where a file that it depends on cannot be read.
        known: its answer, where the file has it.
        failure: why it cannot be asked: a file is missing or broken.
        parts: what the answerer is given; let go of once it is asked.
        seconds: that decoding took.
        refusal: the answerer's error, once it was asked.
    """

    question: Question
    key: str = ""
    known: Answer | None = None
    failure: str = ""
    parts: tuple[Part, ...] = ()
    seconds: float = 0.0
    refusal: AnswerError | None = None


class Asker:
    """Asks one answerer; may be used by several threads.

    Args:
        answerer: prepared.
        logprobs: whether log-probabilities of the first token are wanted.

    Raises:
        DataError: `answerer.identity()` holds something other than plain values.
    """

    def __init__(self, answerer: Answerer, logprobs: bool) -> None:
        self.answerer = answerer
        self.logprobs = logprobs
        self._kind = type(answerer).__name__
        try:
            self._identity = json.dumps(called(answerer, "identity"), sort_keys=True, allow_nan=False)
            candidates = [answerer.top_logprobs] if logprobs and answerer.top_logprobs else []
            self._by = f"id{short_digest(json.dumps([self._identity, *candidates]))}"
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{self._kind}.identity() must give texts, numbers, lists and dicts of them: {error}"
            ) from error

    def look(self, question: Question, file: AnswerFile) -> Ready:
        """Find the answer in the file, or load what the answerer needs to see.

        Raises:
            DataError: loading fails in another way than by a file that is missing or broken.
        """
        ready = Ready(question)
        try:
            ready.key = self.key_of(question, self.logprobs)
            ready.known = self.known(question, file)
            if ready.known is None:
                self._load(ready)
        except DataError as error:
            ready.failure = str(error)
        except MuvrTrainError:
            raise
        except Exception as error:
            raise DataError(f"question {_name(question)} cannot be shown: {place_of(error)}") from error
        return ready

    def known(self, question: Question, file: AnswerFile) -> Answer | None:
        """Give the answer that the file has; one that came with log-probabilities does as well where none are wanted.

        Raises:
            DataError: a file that it depends on cannot be read.
        """
        for logprobs in dict.fromkeys((self.logprobs, True)):
            found = file.find(self.key_of(question, logprobs))
            if found is not None and found.answered:
                return replace(found, question=question.id, setting=question.setting)  # a file cannot hold every id
        return None

    def kept(self, questions: Iterable[Question], file: AnswerFile) -> set[tuple[str, str]]:
        """(id, setting) of the questions that the file seems to have an answer to: no pixels are compared."""
        there = {(one.question, one.setting, one.asked, one.by) for one in file.answers() if one.answered}
        return {
            (one.id, one.setting)
            for one in questions
            if any((one.id, one.setting, asked_digest(one, flag), self._by) in there for flag in (self.logprobs, True))
        }

    def key_of(self, question: Question, logprobs: bool) -> str:
        """Hash all that determines the answer: the answerer, the question, its texts and pixels, choices and length.

        Raises:
            DataError: a file that it depends on cannot be read.
        """
        parts = [part if isinstance(part, str) else [part.kind, self._visual(part)] for part in question.parts]
        wanted = logprobs and (self.answerer.top_logprobs or True)
        facts = [question.id, question.setting, parts, question.choices, question.max_tokens, wanted]
        if not self.answerer.needs_visuals:  # references may know the truth, and it may be corrected
            facts.append(question.truth)
        return hashlib.sha256(f"{self._identity}\n{json.dumps(facts)}".encode()).hexdigest()

    def answer(self, ready: Ready) -> Answer:
        """Ask it.

        Raises:
            AnswererError: no other question can be answered either.
            DataError: the answerer's class has a fault.
        """
        if ready.failure:
            return self._failed(ready, ready.failure)
        started = time.perf_counter()
        try:
            reply = self.answerer.answer(_request(ready, self.logprobs))
        except AnswerError as error:
            if error.fatal:
                raise AnswererError(f"{self.answerer.name} can answer nothing: {error}") from error
            ready.refusal = error
            measured = self._measured(_passed(ready, started))
            took = error.seconds if isinstance(error, NoAnswerError) else measured
            return self._failed(ready, str(error), took)
        except MuvrTrainError:
            raise
        except Exception as error:
            raise DataError(f"{self._kind} fails at question {_name(ready.question)}: {place_of(error)}") from error
        return self._answered(ready, reply, _passed(ready, started))

    def _visual(self, part: Any) -> str:
        return str(part.key() if self.answerer.needs_visuals else part.name)

    def _load(self, ready: Ready) -> None:
        started, parts = time.perf_counter(), ready.question.parts
        if not self.answerer.needs_visuals:
            ready.parts = tuple(part for part in parts if isinstance(part, str))
            return
        ready.parts = tuple(part if isinstance(part, str) else part.load() for part in parts)
        ready.seconds = time.perf_counter() - started
        for part, shown in zip(parts, ready.parts, strict=True):
            if isinstance(part, Visual) and part.loaded is not None and not isinstance(shown, str):
                part.loaded(shown)

    def _answered(self, ready: Ready, reply: Any, seconds: float) -> Answer:
        if wrong := fault_of(reply):
            raise DataError(
                f"{self._kind}.answer must give a Reply with {wrong}, at {_name(ready.question)} it gave {reply!r:.200}"
            )
        tokens = None if reply.tokens is None else {str(name): float(value) for name, value in reply.tokens.items()}
        if any(math.isnan(value) or value == math.inf for value in (tokens or {}).values()):
            return self._failed(ready, "the log-probabilities are no finite numbers", self._measured(seconds))
        return Answer(
            **self._facts(ready.question),
            key=ready.key,
            status=ANSWERED,
            text=plain(reply.text),
            tokens=tokens and {plain(name): max(value, IMPOSSIBLE) for name, value in tokens.items()},
            seconds=round(float(reply.seconds), 4) if reply.seconds is not None else self._measured(seconds),
            prompt_tokens=None if reply.prompt_tokens is None else int(reply.prompt_tokens),
            completion_tokens=None if reply.completion_tokens is None else int(reply.completion_tokens),
            finish=plain(reply.finish),
        )

    def _failed(self, ready: Ready, reason: str, seconds: float | None = None) -> Answer:
        reason = plain(" ".join(reason.split()))[:LONGEST_REASON] or "no reason given"
        return Answer(**self._facts(ready.question), key=ready.key, status=FAILED, reason=reason, seconds=seconds)

    def _measured(self, seconds: float) -> float | None:
        return round(seconds, 4) if self.answerer.measured else None

    def _facts(self, question: Question) -> dict[str, Any]:
        facts = {"question": question.id, "setting": question.setting, "answerer": self.answerer.name}
        digests = {"by": self._by, "asked": asked_digest(question, self.logprobs)}
        return {**facts, **digests, "choices": options_of(question)}


def called(answerer: Answerer, method: str, *arguments: Any) -> Any:
    """Call a method that a user may have written.

    Raises:
        DataError: it fails in another way than it may; class, method, file and line are named.
    """
    try:
        return getattr(answerer, method)(*arguments)
    except MuvrTrainError:
        raise
    except Exception as error:
        raise DataError(f"{type(answerer).__name__}.{method} fails: {place_of(error)}") from error


def _request(ready: Ready, logprobs: bool) -> Request:
    """Give what is asked, which nothing else holds: an answerer may let go of pixels that it has encoded."""
    parts, ready.parts = ready.parts, ()
    return Request(parts, ready.question, logprobs)


def _passed(ready: Ready, started: float) -> float:
    return ready.seconds + time.perf_counter() - started


def _name(question: Question) -> str:
    return f"{question.id} ({question.setting})"
