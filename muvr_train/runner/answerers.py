"""From a config to what answers questions, and the checks that need the files of the questions."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.errors import ConfigError, DataError, IncompleteError, shorten
from muvr_train.preflight.questions import answers_path
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answer, Answerer, Place, Question
from muvr_train.runner.classes import build, plain

log = logging.getLogger(__name__)
MOST_LISTED = 20


def build_answerer(cfg: DictConfig) -> Answerer:
    """Build the class that `answerer` names.

    Raises:
        ConfigError: it is no Answerer, or refuses its settings.
    """
    answerer = build(cfg.answerer, "answerer", kind=Answerer)
    given = {name: value for name, value in plain(cfg.answerer).items() if not name.startswith("_")}
    answerer.configured = json.loads(json.dumps(given), parse_constant=str)  # infinities are no JSON, but settings
    number: Any = answerer.concurrency
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ConfigError(f"{type(answerer).__name__}.concurrency is {number!r}: it must be a whole number >= 1")
    return answerer  # type: ignore[no-any-return]


def refuse_missing(
    questions: Sequence[Question],
    missing: Mapping[Place, Sequence[str]],
    policy: str,
    otherwise: str = "benchmark.missing=wrong",
) -> None:
    """Refuse to ask questions whose files are missing, before any is asked.

    Args:
        questions: of a run.
        missing: (id, setting) -> one line per file that is not there.
        policy: "error", or "wrong": they are asked all the same, which fails.
        otherwise: the setting that makes it so.

    Raises:
        DataError: files are missing under the policy "error"; the first ones are listed.
    """
    if not missing:
        return
    files = list(dict.fromkeys(line for lines in missing.values() for line in lines))
    lack = "question lacks" if len(missing) == 1 else "questions lack"
    what = "file" if len(files) == 1 else "files"
    text = f"{len(missing)} of {len(questions)} {lack} {len(files)} {what}: {shorten(files, MOST_LISTED)}"
    if policy == "error":
        raise DataError(f"{text}. Put them there, or count such questions as failed: {otherwise}")
    log.warning("%s. These questions count as failed", text)


def ask_all(
    cfg: DictConfig, answerer: Answerer, questions: Sequence[Question], logprobs: bool, label: str
) -> tuple[dict[Place, Answer], frozenset[str]]:
    """Ask what is not answered yet; every answer goes into the run's file of answers at once.

    Ctrl-C and SIGTERM end the program, which says how many were asked and how to go on.

    Returns:
        (answers, keys of those that the file had before).
    """
    path = answers_path(cfg) or Path(cfg.out) / "answers.jsonl"
    with AnswerFile(path) as file, _ending_on_sigterm():
        known = frozenset(answer.key for answer in file.answers() if answer.answered)
        try:
            answers = ask(answerer, questions, file, logprobs, label)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            answerer.close()
    if kept := sum(answer.key in known for answer in answers.values()):
        log.info("%d of %d answers were there already (%s), %d asked", kept, len(answers), path, len(answers) - kept)
    return answers, known


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM, which job schedulers send, end the program as Ctrl-C does; see `training.lost.end_on_sigterm`."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def end_with_failures(cfg: DictConfig, text: str, added: str = "") -> None:
    """End a run whose results are written with an error about what failed, or warn where `allow_failures` is set.

    Args:
        cfg: the composed config.
        text: what failed, and what became of it.
        added: what has to be done before the command is repeated.

    Raises:
        IncompleteError: with how to ask only those.
    """
    again = f"answers={cfg.answers}" if cfg.answers else f"out={cfg.out}"
    text = f"{text}. The results are complete in {cfg.out}; the same command with {again}{added} asks only these"
    if not cfg.allow_failures:
        raise IncompleteError(f"{text} (allow_failures=true ends with exit code 0)")
    log.warning("%s", text)
