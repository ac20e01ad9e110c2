"""Questions to a multimodal language model, and its answers: plain values, without any model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError

Pixels = NDArray[np.uint8]
"""uint8 [H, W, 3], RGB, upright."""
Place = tuple[str, str]
"""(id, setting) of a question."""
ANSWERED, FAILED = "answered", "failed"
CUT_OFF = "length"
"""What `finish` says of an answer that was cut off."""


@dataclass(frozen=True)
class Picture:
    """One still image."""

    pixels: Pixels


@dataclass(frozen=True)
class Clip:
    """Sampled frames of one video, in display order; `times` are the seconds at which they are shown."""

    frames: tuple[Pixels, ...]
    times: tuple[float, ...] = ()


Part = str | Picture | Clip
"""What an answerer is given, in order: texts, images and video frames."""


@dataclass(frozen=True)
class Visual:
    """An image or the frames of a video that are not yet loaded.

    Attributes:
        kind: "image" or "video".
        name: what messages and pages call it: the video's id, the image's file name.
        key: whatever determines the pixels (digests of the files, sampling, size, outline), the same on every machine.
            It is called only when a question is asked, and may read files.
        load: decodes it. Raises DataError where the file is missing or broken.
        loaded: is called with what was loaded, outside of the time that an answer took (pages keep pictures of it).
    """

    kind: Literal["image", "video"]
    name: str
    key: Callable[[], str]
    load: Callable[[], Picture | Clip]
    loaded: Callable[[Picture | Clip], None] | None = None


@dataclass(frozen=True)
class Question:
    """One thing to ask.

    Attributes:
        id: unique in its benchmark, made from the content of the question; never from its place in a file.
        setting: the row of the results that it belongs to, such as `images_6f`; (id, setting) is unique in a run.
        parts: texts and visuals in the order in which they are shown.
        choices: what an answer may be: ("yes", "no"), or letters.
        truth: the right one of them. Only references and scoring read it.
        max_tokens: how long an answer may be.
        about: further facts, for scoring, references and pages: partition, query, target, tag, task, options ...
    """

    id: str
    setting: str
    parts: tuple[str | Visual, ...]
    choices: tuple[str, ...]
    truth: str
    max_tokens: int = 16
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What an answerer gets: the loaded parts of a question.

    Attributes:
        parts: texts, images, video frames, in order; without pixels for an answerer that needs none.
        question: where they come from. An answerer that is tested reads its `choices` and `max_tokens` at most.
        logprobs: whether the log-probabilities of the first token are wanted (`Reply.tokens`).
    """

    parts: tuple[Part, ...]
    question: Question
    logprobs: bool = False


@dataclass(frozen=True)
class Reply:
    """What an answerer says.

    Attributes:
        text: the answer as it came, not parsed.
        tokens: natural log-probabilities of candidates for the first token that holds a letter or digit, by their text
            as the tokenizer writes it (` Yes` and `Yes` are two); None where they were not asked for or cannot be had.
        prompt_tokens: how many the server or the processor counted, None where unknown.
        completion_tokens: the same of the answer.
        seconds: how long it took where that is known from elsewhere; None: it is measured (`Answerer.measured`).
        finish: why it ended, "" where unknown; "length": it was cut off at the most tokens that it may have.
    """

    text: str
    tokens: Mapping[str, float] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    finish: str = ""


class AnswerError(DataError):
    """One question could not be answered; it is counted as failed and the run goes on.

    Attributes:
        fatal: no other question can be answered either (wrong key, no such model): the run stops.
    """

    def __init__(self, message: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class Answerer(ABC):
    """Answers questions. One method is to be written; `answer` may be called from `concurrency` threads at once.

    The order of calls: `begin`, `identity`; then, where a question has no answer yet, `prepare`, `warm_up`, and
    `answer` for each such question; `close` in any case.

    Attributes:
        name: what tables call it.
        concurrency: questions that may be asked at the same time.
        needs_visuals: False where the pixels are not looked at: then no video or image has to exist.
        knows_truth: True for references that read `Question.truth`.
        measured: False where the time that `answer` takes says nothing: only `Reply.seconds` counts.
        wants_logprobs: whether log-probabilities will be wanted; set before `begin`.
        top_logprobs: candidates per token where they are wanted: part of an answer's key only then. None: not settable.
        configured: the settings that the config gives it; set when it is built.
    """

    name: str = "answerer"
    concurrency: int = 1
    needs_visuals: bool = True
    knows_truth: bool = False
    measured: bool = True
    wants_logprobs: bool = False
    top_logprobs: int | None = None
    configured: Mapping[str, Any] = MappingProxyType({})

    @abstractmethod
    def answer(self, request: Request) -> Reply:
        """Answer one question.

        Raises:
            AnswerError: there is no answer to it, after all retries.
        """

    def identity(self) -> Mapping[str, Any]:
        """Plain facts that determine its answers (model, weights, decoding): part of the key of every cached answer.

        Speed, addresses and secrets do not belong here. By default: name, class, and its settings in the config but
        `concurrency`.
        """
        settings = {name: value for name, value in self.configured.items() if name != "concurrency"}
        facts = {"name": self.name, "class": f"{type(self).__module__}.{type(self).__qualname__}"}
        return {**facts, "settings": settings} if settings else facts

    def asks_by_task(self, shared: Sequence[Question], single: Sequence[Question]) -> bool:  # noqa: ARG002
        """Whether tasks that share pairs ask task by task (`single`) and not once for all of them (`shared`)."""
        return self.knows_truth

    def prepare(self) -> None:  # noqa: B027 (may do nothing)
        """Check and load what it needs; called once, before the first question that has no answer yet.

        Raises:
            ConfigError: a setting cannot be used.
            DataError: what it needs is missing or broken.
        """

    def begin(self, questions: Sequence[Question]) -> None:  # noqa: B027 (may do nothing)
        """Look at all questions of a run, before `identity`. Cheap: no model is loaded, no server is asked.

        Raises:
            DataError: what it knows does not fit them.
        """

    def warm_up(self, questions: Sequence[Question]) -> None:  # noqa: B027 (may do nothing)
        """Try what was prepared on questions of the kinds that a run has; called once, after `prepare`.

        Raises:
            ConfigError: they cannot be asked so.
        """

    def close(self) -> None:  # noqa: B027 (may do nothing)
        """Let go of connections and memory."""


@dataclass(frozen=True)
class Answer:
    """What came of one question, as a line of the answer file.

    Attributes:
        question: its id.
        setting: its setting.
        key: hash of (identity of the answerer, texts, visuals, choices, length, log-probabilities wanted).
        status: "answered" or "failed".
        text: the answer, "" where it failed.
        reason: why it failed, "" otherwise.
        tokens, prompt_tokens, completion_tokens, finish: see `Reply`.
        seconds: from the first try to the answer or the last failure, decoding included; None where it was not asked.
        choices: what was offered, letters with their options' texts: guards against answers to another order.
        answerer: its name.
        by: digest of its identity.
        asked: digest of the question as it was asked, without pixels (`one_question.asked_digest`).
    """

    question: str
    setting: str
    key: str
    status: str
    text: str = ""
    reason: str = ""
    tokens: Mapping[str, float] | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str = ""
    choices: Mapping[str, str] | None = None
    answerer: str = ""
    by: str = ""
    asked: str = ""

    @property
    def answered(self) -> bool:
        """Whether there is an answer, whatever it says."""
        return self.status == ANSWERED
