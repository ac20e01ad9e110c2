"""Errors that a user can cause. Each message names the key, file or id, what was found there, and what to do."""


class MuvrTrainError(Exception):
    """Base class: the command line prints its message without a traceback and exits with 1.

    Attributes:
        shown: False where another process of the run says the same.
    """

    shown = True


class ConfigError(MuvrTrainError):
    """A setting is unknown, impossible, or contradicts another one."""


class DataError(MuvrTrainError):
    """An annotation, feature, checkpoint or video file is missing, broken or does not fit."""


class IncompleteError(DataError):
    """A run has written its results, but something in them failed: a sweep goes on to its next run."""


class AnswererError(DataError):
    """The answerer of a run can answer nothing, so the run ends early: a sweep goes on to its next run."""


class ProcessError(MuvrTrainError):
    """Another process of the run has stopped; `shown` is False where that process says why."""

    def __init__(self, message: str, shown: bool = True) -> None:
        super().__init__(message)
        self.shown = shown


def shorten(ids: "list[str]", limit: int = 10) -> str:
    """Join ids for a message: the first `limit`, then how many more there are.

    >>> shorten(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    shown = ", ".join(ids[:limit])
    return shown if len(ids) <= limit else f"{shown} and {len(ids) - limit} more"
