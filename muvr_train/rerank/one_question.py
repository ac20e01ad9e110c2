"""One question: its key, its pixels, its answer."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muvr_train.errors import DataError, MuvrTrainError
from muvr_train.faults import place_of
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.types import ANSWERED, FAILED, Answer, Answerer, AnswerError, Part, Question, Reply, Request

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
        started = time.perf_counter()
        try:
            ready.key = self.key_of(question)
            before = file.find(ready.key)
            if before is not None and before.answered:
                ready.known = before
            else:
                ready.parts = tuple(self._loaded(question))
        except DataError as error:
            ready.failure = str(error)
        except MuvrTrainError:
            raise
        except Exception as error:
            raise DataError(f"question {_name(question)} cannot be shown: {place_of(error)}") from error
        ready.seconds = time.perf_counter() - started
        return ready

    def key_of(self, question: Question) -> str:
        """Hash all that determines the answer: the answerer, the question, its texts and pixels, choices and length.

        Raises:
            DataError: a file that it depends on cannot be read.
        """
        parts = [part if isinstance(part, str) else [part.kind, self._visual(part)] for part in question.parts]
        facts = [question.id, question.setting, parts, question.choices, question.max_tokens, self.logprobs]
        if not self.answerer.needs_visuals:  # references may know the truth, and it may be corrected
            facts.append(question.truth)
        return hashlib.sha256(f"{self._identity}\n{json.dumps(facts)}".encode()).hexdigest()

    def answer(self, ready: Ready) -> Answer:
        """Ask it.

        Raises:
            DataError: no other question can be answered either, or the answerer's class has a fault.
        """
        if ready.failure:
            return self._failed(ready, ready.failure)
        request = Request(ready.parts, ready.question, self.logprobs)
        ready.parts, started = (), time.perf_counter()
        try:
            reply = self.answerer.answer(request)
        except AnswerError as error:
            if error.fatal:
                raise DataError(f"{self.answerer.name} can answer nothing: {error}") from error
            ready.refusal = error
            return self._failed(ready, str(error), _passed(ready, started))
        except MuvrTrainError:
            raise
        except Exception as error:
            raise DataError(f"{self._kind} fails at question {_name(ready.question)}: {place_of(error)}") from error
        return self._answered(ready, reply, _passed(ready, started))

    def _visual(self, part: Any) -> str:
        return str(part.key() if self.answerer.needs_visuals else part.name)

    def _loaded(self, question: Question) -> list[Part]:
        if not self.answerer.needs_visuals:
            return [part for part in question.parts if isinstance(part, str)]
        return [part if isinstance(part, str) else part.load() for part in question.parts]

    def _answered(self, ready: Ready, reply: Any, seconds: float) -> Answer:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            given = f"{reply!r:.80}"
            raise DataError(
                f"{self._kind}.answer must give a Reply with a text, at {_name(ready.question)} it gave {given}"
            )
        tokens = None if reply.tokens is None else {str(name): float(value) for name, value in reply.tokens.items()}
        if any(math.isnan(value) or value == math.inf for value in (tokens or {}).values()):
            return self._failed(ready, "the log-probabilities are no finite numbers", round(seconds, 4))
        return Answer(
            **self._facts(ready.question),
            key=ready.key,
            status=ANSWERED,
            text=_plain(reply.text),
            tokens=tokens and {_plain(name): max(value, IMPOSSIBLE) for name, value in tokens.items()},
            seconds=round(seconds if reply.seconds is None else reply.seconds, 4),
            prompt_tokens=None if reply.prompt_tokens is None else int(reply.prompt_tokens),
            completion_tokens=None if reply.completion_tokens is None else int(reply.completion_tokens),
        )

    def _failed(self, ready: Ready, reason: str, seconds: float | None = None) -> Answer:
        reason = _plain(" ".join(reason.split()))[:LONGEST_REASON] or "no reason given"
        return Answer(**self._facts(ready.question), key=ready.key, status=FAILED, reason=reason, seconds=seconds)

    def _facts(self, question: Question) -> dict[str, Any]:
        facts = {"question": question.id, "setting": question.setting, "answerer": self.answerer.name}
        return {**facts, "choices": options_of(question)}


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


def _passed(ready: Ready, started: float) -> float:
    return round(ready.seconds + time.perf_counter() - started, 4)


def options_of(question: Question) -> Mapping[str, str] | None:
    """Give the text behind each letter; None where the choices are the answers themselves."""
    options = question.about.get("options")
    return dict(options) if options else None


def _name(question: Question) -> str:
    return f"{question.id} ({question.setting})"


def _plain(text: str) -> str:
    """Replace what no file can hold: halves of characters, as byte-wise tokenizers may leave them."""
    return text.encode("utf-8", "replace").decode("utf-8")
