"""Work that every process does at the same time: an error in one is an error in all, so that none waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from muvr_train.errors import DataError, MuvrTrainError
from muvr_train.processes import Group

Kept = TypeVar("Kept")
Told = TypeVar("Told")


def agreed(group: Group, work: Callable[[], tuple[Kept, Told]]) -> tuple[Kept, list[Told]]:
    """Do something in every process; if it fails in one, all raise, and only the first of them shows it.

    Args:
        group: the processes.
        work: gives what this process keeps, and what it tells the others (small, picklable).

    Returns:
        What this process keeps, and what each process has told.

    Raises:
        MuvrTrainError: this process's own, or the first one of the others (of the same class, with the number of the
            process before its message).
        Exception: any other of this process's own; a `DataError` in the others.
    """
    if group.size == 1:
        kept, told = work()
        return kept, [told]
    error: Exception | None = None
    try:
        kept, told = work()
    except Exception as caught:  # noqa: BLE001 (raised again below, after the others know)
        error = caught
    found = group.gather_objects((None, _description(error)) if error else (told, None))
    failed = [(rank, description) for rank, (_, description) in enumerate(found) if description is not None]
    if error:
        if isinstance(error, MuvrTrainError) and failed[0][0] != group.rank:
            error.shown = False
        raise error
    for rank, (kind, message) in failed:
        raised = kind(f"process {rank}: {message}")
        raised.shown = False
        raise raised
    return kept, [told for told, _ in found]


def in_step(group: Group, work: Callable[[], object]) -> None:
    """Do something in every process, and wait until all have done it; see `agreed`."""
    agreed(group, lambda: (work(), None))


def _description(error: Exception) -> tuple[type[MuvrTrainError], str]:
    if isinstance(error, MuvrTrainError):
        return type(error), str(error)
    return DataError, f"{type(error).__name__}: {error}"
