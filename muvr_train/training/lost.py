"""Noticing that a process of the run is lost, and saying so instead of waiting for ever."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch.distributed as dist

from muvr_train.errors import ProcessError
from muvr_train.processes import Group

LOST = ("connection", "timed out", "timeout", "broken pipe", "socket", "peer", "nccl", "gloo")
"""Words by which the errors of an exchange are told from others."""
ENDED = "muvr_train/ended"
"""Key of the processes' common store: the rank of the first one that ended with an error of its own."""
GRACE = 10.0  # seconds that processes get to notice, or to end by themselves
REAPED = 5.0  # seconds from closing a process's connections to its exit status, on a busy machine
LAST = 50.0  # more seconds, after which the first process is ended although it has not come to an exchange


class Children(threading.Thread):
    """Watches over the processes that the first one has started: when one dies, the run ends with a message.

    Normally the next exchange fails and says so. A first process that is busy for longer, or whose exchange cannot be
    interrupted, is told on the console and ended.
    """

    def __init__(self, processes: Sequence[subprocess.Popen[Any]]) -> None:
        super().__init__(daemon=True, name="children")
        self.processes = list(processes)
        self.over, self.failed = threading.Event(), False
        self.advice = ""
        atexit.register(self.end)
        self.start()

    def run(self) -> None:
        """Look every second."""
        while not (dead := self.dead()):
            if self.over.wait(1.0):
                return
        if self.over.wait(GRACE):
            return
        sys.stderr.write(
            f"error: {dead}, so the run ends at its next step, at the latest in {LAST:g} seconds. {self.advice}\n"
        )
        if not self.over.wait(LAST):
            self._kill()
            os._exit(1)

    def dead(self, within: float = 0.0) -> str | None:
        """Say which of them has failed, and how; wait for it for that many seconds."""
        end = time.monotonic() + within
        while True:
            for rank, child in enumerate(self.processes, start=1):
                if code := child.poll():
                    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with code {code}"
                    return f"process {rank} {how}"
            if time.monotonic() >= end:
                return None
            time.sleep(0.05)

    def end(self) -> None:
        """Wait a little for the processes, then kill those that hang; all at once where the run has failed."""
        self.over.set()
        if not self.failed:
            for rank, child in enumerate(self.processes, start=1):
                try:
                    child.wait(GRACE)
                except subprocess.TimeoutExpired:
                    sys.stderr.write(f"process {rank} of this run hangs and is killed\n")
        self._kill()

    def _kill(self) -> None:
        for child in self.processes:
            if child.poll() is None:
                child.kill()
                child.wait()


@contextmanager
def noticing(group: Group, timeout: float, advice: str, children: Children | None = None) -> Iterator[None]:
    """Turn the loss of another process into a message, and let the others know of an error of this one.

    Args:
        group: the processes.
        timeout: their time limit in seconds, for the message.
        advice: where to look, and how to go on.
        children: those that this process has started.

    Raises:
        ProcessError: another process has ended or does not answer. Shown by the first process, and by the others
            unless one has ended with an error that it shows itself.
    """
    if group.size == 1:
        yield
        return
    store: Any = dist.distributed_c10d._get_default_store()
    if children is not None:
        children.advice = advice
    try:
        yield
    except BaseException as error:
        if children is not None:
            children.failed = True
        if not is_loss(error):
            _tell(store, group.rank)
            raise
        told = _told(store)
        if told is not None:
            what = f"process {told} has ended with an error of its own"
        elif "timed out" in str(error).lower():
            what = f"one of them gave no answer for {timeout:g} seconds (trainer.timeout)"
        else:
            what = (children and children.dead(within=REAPED)) or "one of them has ended"
        message = f"process {group.rank} of {group.size} has lost the others: {what}. {advice}"
        raise ProcessError(message, shown=group.is_first or told is None) from error
    finally:
        if children is not None:
            children.over.set()


def is_loss(error: BaseException) -> bool:
    """Whether an error is that of an exchange with a process that has ended or does not answer."""
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in LOST)


def _tell(store: Any, rank: int) -> None:
    try:
        if not store.check([ENDED]):
            store.set(ENDED, str(rank))
    except RuntimeError:  # the first process, which keeps the store, is gone: nobody to tell
        return


def _told(store: Any) -> str | None:
    try:
        return store.get(ENDED).decode() if store.check([ENDED]) else None
    except RuntimeError:  # the first process, which keeps the store, is gone
        return None


def end_on_sigterm() -> None:
    """Let SIGTERM, which job schedulers send, end the run as Ctrl-C does.

    Lightning's own handler exchanges with the other processes while it is called, and waits for ever for them.
    """
    signal.signal(signal.SIGTERM, _stop)


def _stop(signum: int, _: FrameType | None) -> None:
    raise SystemExit(128 + signum)
