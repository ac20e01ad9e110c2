"""Run a function in several real processes that exchange values over gloo."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from muvr_train.processes import Group

LIMIT = 60  # seconds that a process may wait for the others
Task = Callable[..., Any]


def together(sizes: Sequence[int], folder: Path, task: Task, *args: Any) -> dict[int, list[Any]]:
    """Call `task(group, *args)` in groups of processes of one thread each.

    Args:
        sizes: of the groups, one after the other; the processes are started once.
        folder: for what they exchange; made.
        task: a function of a module.
        args: picklable.

    Returns:
        What the task gave, by rank, for each size.

    Raises:
        RuntimeError: a process raised or hung, with their tracebacks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_run, args=(rank, sizes, folder, task, args)) for rank in range(max(sizes))]
    for process in processes:
        process.start()
    for process in processes:
        process.join(4 * LIMIT)
    hanging = [process for process in processes if process.is_alive()]
    for process in hanging:
        process.kill()
        process.join()
    if hanging or any(process.exitcode for process in processes):
        told = "\n".join(file.read_text() for file in sorted(folder.glob("*.traceback")))
        raise RuntimeError(f"exit codes {[process.exitcode for process in processes]}\n{told}")
    return {
        size: [pickle.loads((folder / f"{size}.{rank}.result").read_bytes()) for rank in range(size)] for size in sizes
    }


class Raised(NamedTuple):
    """An exception: the name of its type, its message, and whether the command line shows it."""

    kind: str
    message: str
    shown: bool


def outcome(task: Callable[[], Any]) -> Any:
    """What a task returns, or the exception that it raises."""
    try:
        return task()
    except Exception as error:  # noqa: BLE001
        return Raised(type(error).__name__, str(error), getattr(error, "shown", True))


def _run(rank: int, sizes: Sequence[int], folder: Path, task: Task, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    try:
        for size in sizes:
            if rank < size:
                result = _call(Group(rank, size), folder, task, args)
                (folder / f"{size}.{rank}.result").write_bytes(pickle.dumps(result))
    except BaseException:
        (folder / f"{rank}.traceback").write_text(traceback.format_exc())
        raise


def _call(group: Group, folder: Path, task: Task, args: tuple[Any, ...]) -> Any:
    if group.size == 1:
        return task(group, *args)
    rendezvous = f"file://{folder / f'rendezvous{group.size}'}"
    dist.init_process_group("gloo", rendezvous, timedelta(seconds=LIMIT), group.size, group.rank)
    try:
        return task(group, *args)
    finally:
        dist.destroy_process_group()
