"""How programs end: mistakes as one message and an exit code, runs of a sweep that are incomplete."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from muvr_train.config_checks import check_paths
from muvr_train.errors import AnswererError, ConfigError, IncompleteError, MuvrTrainError, shorten
from muvr_train.launched import rank
from muvr_train.preflight import runs

INCOMPLETE: list[str] = []
"""Folders of the runs of this sweep whose results are written, but incomplete."""
ENDED: list[str] = []
"""Folders of those that ended early, because their answerer could answer nothing."""


@contextmanager
def reporting() -> Iterator[None]:
    """Print our own errors as one message and exit; MUVR_TRAIN_DEBUG=1 shows the traceback as well."""
    try:
        yield
    except Exception as error:
        ours = _find_ours(error)
        _keep(error)
        if ours is None or debugging():
            raise
        if _is_shown(ours):
            place = f" in process {rank()}" if rank() else ""
            sys.stderr.write(f"error{place}: {_message(ours)}\n")
        sys.exit(2 if isinstance(ours, ConfigError) else 1)


def _keep(error: BaseException) -> None:
    """Write an error with its traceback into the run's log file, where Hydra has opened one."""
    kept = (type(error), error, error.__traceback__)
    record = logging.LogRecord(__name__, logging.ERROR, __file__, 0, "the run ends: %s", (error,), kept)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


def _is_shown(error: MuvrTrainError) -> bool:
    """Of mistakes in the settings, which all processes see, only the first one speaks."""
    return error.shown and not (isinstance(error, ConfigError) and rank())


def debugging() -> bool:
    """Whether the user asks for tracebacks."""
    return os.environ.get("MUVR_TRAIN_DEBUG", "0") not in ("", "0")


@contextmanager
def guarded(cfg: DictConfig) -> Iterator[None]:
    """Report mistakes, leave no empty folder behind, and look for the data before anything heavy is imported."""
    folder = Path("checkpoints", cfg.run) if "run" in cfg else Path(cfg.out)
    with reporting():
        try:
            with runs.tidy(folder, keep=bool(cfg.get("resume_from")) or rank() > 0):
                check_paths(cfg)
                yield
        except (IncompleteError, AnswererError) as error:
            if not _others_follow():
                raise
            _keep(error)
            sys.stderr.write(f"error: {error}\n")
            (INCOMPLETE if isinstance(error, IncompleteError) else ENDED).append(str(folder))


def _others_follow() -> bool:
    """Whether this process does the runs of a sweep one after another; jobs of SLURM end on their own."""
    if not HydraConfig.initialized():
        return False
    settings = HydraConfig.get()
    return settings.mode == RunMode.MULTIRUN and settings.runtime.choices.get("hydra/launcher") == "basic"


def end_sweep() -> None:
    """End the program with an error that names the runs of a sweep which are incomplete or ended early."""
    if INCOMPLETE:
        sys.stderr.write(f"error: runs of the sweep with failed questions: {shorten(INCOMPLETE, 50)}\n")
    if ENDED:
        sys.stderr.write(f"error: runs of the sweep whose answerer could answer nothing: {shorten(ENDED, 50)}\n")
    if INCOMPLETE or ENDED:
        sys.exit(1)


def _find_ours(error: BaseException | None) -> MuvrTrainError | None:
    """Look for our own error behind those of Hydra's instantiation; a fault of the program is never hidden by it."""
    while error is not None and not isinstance(error, MuvrTrainError):
        error = error.__cause__
    return error


def _message(error: MuvrTrainError) -> str:
    """Give the message; a loader process wraps it into its traceback, of which the last entry is the message."""
    text = str(error)
    if text.startswith("Caught ") and "Original Traceback" in text:
        text = text.rsplit(f"{type(error).__name__}: ", 1)[-1].strip()
    return text
