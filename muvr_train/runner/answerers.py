"""From a config to what answers questions, and the checks that need the files of the questions."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.rerank.types import Answerer, Place, Question
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


def end_with_failures(cfg: DictConfig, text: str, added: str = "") -> None:
    """End a run whose results are written with an error about what failed, or warn where `allow_failures` is set.

    Args:
        cfg: the composed config.
        text: what failed, and what became of it.
        added: what has to be done before the command is repeated.

    Raises:
        DataError: with how to ask only those.
    """
    again = f"answers={cfg.answers}" if cfg.answers else f"out={cfg.out}"
    text = f"{text}. The results are complete in {cfg.out}; the same command with {again}{added} asks only these"
    if not cfg.allow_failures:
        raise DataError(f"{text} (allow_failures=true ends with exit code 0)")
    log.warning("%s", text)
