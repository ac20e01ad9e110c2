"""Asking many questions: several at once where the answerer allows it, nothing twice, and nothing lost."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, suppress

from muvr_train.errors import AnswererError, ConfigError, DataError, MuvrTrainError
from muvr_train.features.progress import Progress
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.one_question import Asker, Ready, called
from muvr_train.rerank.replies import NoAnswerError
from muvr_train.rerank.types import Answer, Answerer, Question

log = logging.getLogger(__name__)
AHEAD = 2
"""Questions whose pixels are decoded ahead where one is asked at a time."""
LEAST_STRETCH = 8


def ask(
    answerer: Answerer, questions: Sequence[Question], file: AnswerFile, logprobs: bool = False, label: str = "asking"
) -> dict[tuple[str, str], Answer]:
    """Ask what the file has no answer to; questions that failed before are asked again.

    Never are more than `answerer.concurrency` questions asked at once. Their pixels are decoded in the same threads;
    where only one is asked at a time, a thread decodes the next ones meanwhile. Every answer is written as soon as it
    is there, so that Ctrl-C or a kill loses only those under way.

    Args:
        answerer: it is prepared before the first question that the file has no answer to.
        questions: each with a (id, setting) of its own.
        file: the answers so far; all that comes is appended.
        logprobs: whether log-probabilities of the first token are wanted.
        label: of the progress bar.

    Returns:
        (id, setting) -> answer or failure, in the order of the questions, whatever order they came in.

    Raises:
        AnswererError: the answerer cannot be prepared, or can answer nothing (wrong key; a first stretch of nothing but
            failures, or of answers without the log-probabilities that are wanted; not where the file had answers to
            this run's questions). It says how many answers are kept and how to go on.
        DataError: the answerer's class has a fault, or the file cannot be written; it says the same.
        ValueError: two questions have the same (id, setting).
    """
    places = {(question.id, question.setting): place for place, question in enumerate(questions)}
    if len(places) < len(questions):
        raise ValueError("two questions have the same id and setting")
    answerer.wants_logprobs = logprobs
    called(answerer, "begin", questions)
    session = _Session(Asker(answerer, logprobs), questions, file)
    stream = _in_threads(session, questions) if answerer.concurrency > 1 else _in_turn(session, questions)
    found: dict[tuple[str, str], Answer] = {}
    try:
        with closing(Progress(label, len(questions))) as bar, closing(stream):
            for answer in stream:
                found[answer.question, answer.setting] = answer
                if not answer.answered:
                    bar.describe(f"{label} ({session.failed} failed)")
                bar.advance()
    except DataError as error:
        if error is session.unready:
            raise
        kind = AnswererError if isinstance(error, AnswererError) else DataError
        raise kind(f"{str(error).rstrip('.')}. {session.how_to_go_on()}") from error
    except (KeyboardInterrupt, SystemExit):
        asked = session.answered + session.failed
        log.warning("stopped: %d of %d questions were asked. %s", asked, len(questions), session.how_to_go_on())
        raise
    return {place: found[place] for place in places}


class _Session:
    """Asks one question after another, writes down and counts what comes; may be used by several threads.

    Args:
        asker: of the answerer.
        questions: all of the run.
        file: of the answers.

    Attributes:
        unready: why the answerer could not be prepared.
    """

    def __init__(self, asker: Asker, questions: Sequence[Question], file: AnswerFile) -> None:
        self.asker, self.questions, self.file = asker, questions, file
        self.stretch = max(LEAST_STRETCH, 2 * asker.answerer.concurrency)
        self.unready: MuvrTrainError | None = None
        self.answered = self.failed = self._refused = self._without = 0
        self._prepared = False
        self._lock, self._preparing = threading.Lock(), threading.Lock()

    def look(self, question: Question) -> Ready:
        """Find the answer in the file, or load what is to be seen."""
        return self.asker.look(question, self.file)

    def ask(self, ready: Ready) -> Answer:
        """Ask, unless the answer is known.

        Raises:
            ConfigError: a setting does not fit what is prepared.
            DataError: see `ask` above.
        """
        if ready.known is not None:
            return ready.known
        if not ready.failure:
            self._prepare()
        answer = self.asker.answer(ready)
        self.file.append(answer)
        with self._lock:
            self._count(ready, answer)
        return answer

    def how_to_go_on(self) -> str:
        """Say how many of this run's questions have an answer, and which setting asks only the rest."""
        path, kept = self.file.path, len(self.asker.kept(self.questions, self.file))
        again = f"out={path.parent}" if path.name == "answers.jsonl" else f"answers={path}"
        return f"{kept} answers are kept in {path}: the same command with {again} asks only the rest"

    def _prepare(self) -> None:
        """Prepare the answerer once, whichever thread comes first."""
        with self._preparing:
            if self.unready is not None:
                raise self.unready
            if self._prepared:
                return
            try:
                called(self.asker.answerer, "prepare")
                called(self.asker.answerer, "warm_up", self.questions)
            except ConfigError as error:
                self.unready = error
                raise
            except MuvrTrainError as error:
                self.unready = AnswererError(str(error))
                raise self.unready from error
            self._prepared = True

    def _count(self, ready: Ready, answer: Answer) -> None:
        self.answered += answer.answered
        self.failed += not answer.answered
        self._refused += ready.refusal is not None and not isinstance(ready.refusal, NoAnswerError)
        if self.answered == 0 and self._refused == self.stretch and not self._known(logprobs=False):
            raise AnswererError(f"the first {self._refused} questions all failed, the last one with: {answer.reason}")
        self._without += answer.answered and self.asker.logprobs and not answer.tokens
        if self._without == self.answered == self.stretch and answer.answered and not self._known(logprobs=True):
            raise AnswererError(
                f"the first {self._without} answers came without log-probabilities of their first token, which "
                "decision=logprob needs: let the server give them, or choose decision=text"
            )

    def _known(self, logprobs: bool) -> bool:
        """Whether an earlier run has an answer to one of the questions (with log-probabilities): they can be had."""
        there = {(one.question, one.setting) for one in self.file.answers() if one.answered}
        for question in self.questions:
            if (question.id, question.setting) in there:
                with suppress(DataError):  # of a file that is missing
                    found = self.asker.known(question, self.file)
                    if found is not None and (found.tokens or not logprobs):
                        return True
        return False


Stream = Generator[Answer, None, None]


def _in_turn(session: _Session, questions: Sequence[Question]) -> Stream:
    """Ask one after another, in this thread; a second one decodes ahead where there is anything to decode."""
    if not session.asker.answerer.needs_visuals:
        for question in questions:
            yield session.ask(session.look(question))
        return
    slots, stop = threading.Semaphore(AHEAD), threading.Event()
    decoded: queue.SimpleQueue[Ready | BaseException] = queue.SimpleQueue()

    def decode() -> None:
        for question in questions:
            slots.acquire()
            if stop.is_set():
                return
            try:
                decoded.put(session.look(question))
            except BaseException as error:  # noqa: BLE001 (raised by the thread that waits for it)
                decoded.put(error)
                return

    threading.Thread(target=decode, name="decode-ahead", daemon=True).start()
    try:
        for _ in questions:
            ready = decoded.get()
            if isinstance(ready, BaseException):
                raise ready
            slots.release()
            yield session.ask(ready)
    finally:
        stop.set()
        slots.release()


def _in_threads(session: _Session, questions: Sequence[Question]) -> Stream:
    """Decode and ask in as many threads as the answerer allows."""
    stop, lock, todo = threading.Event(), threading.Lock(), iter(questions)
    done: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()

    def work() -> None:
        while not stop.is_set():
            with lock:
                question = next(todo, None)
            if question is None:
                return
            try:
                done.put(session.ask(session.look(question)))
            except BaseException as error:  # noqa: BLE001 (raised by the thread that waits for it)
                stop.set()
                done.put(error)

    for number in range(min(session.asker.answerer.concurrency, len(questions))):
        threading.Thread(target=work, name=f"ask-{number}", daemon=True).start()  # Ctrl-C does not wait for a server
    try:
        for _ in questions:
            item = done.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
