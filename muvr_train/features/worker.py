"""A decoder process: runs one job after another and sends frames, until its pipe closes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.features.decode import DecodeError, Frames
from muvr_train.features.jobs import Job
from muvr_train.features.read_decord import watch_errors
from muvr_train.features.read_pyav import read  # noqa: F401 (imported by the process that the workers are forked from)

BEAT_EVERY = 0.5  # seconds between two signs of life
PR_SET_PDEATHSIG = 1
Preprocess = Callable[[Frames], NDArray[np.uint8]]
Message = tuple[str, Any]
"""("ready", None), ("frames", (stream, uint8 [t, h, w, 3])), ("restart", None), ("beat", None),
("done", VideoStatus) or ("failed", reason)."""


def serve(pipe: Connection, preprocess: Preprocess, memory: int) -> None:
    """Run the (job, backends) that come through the pipe.

    Args:
        pipe: jobs come in, messages go out; None, or the end of the other side, ends the process.
        preprocess: applied to all frames before they are sent.
        memory: bytes that this process may allocate; a header that lies about sizes fails instead of taking all.
    """
    _join_parent(memory)
    torch.set_num_threads(1)
    watch_errors()
    _send(pipe, "ready", None)
    while (task := _receive(pipe)) is not None:
        job, backends = task
        _send(pipe, *_run(job, backends, _PipeSink(pipe, preprocess)))


def _receive(pipe: Connection) -> tuple[Job, Sequence[str]] | None:
    try:
        task: tuple[Job, Sequence[str]] | None = pipe.recv()
    except (EOFError, ConnectionError):  # whoever gave the jobs is gone
        return None
    return task


def _send(pipe: Connection, kind: str, content: Any) -> None:
    try:
        pipe.send((kind, content))
    except OSError:
        raise SystemExit from None  # nobody listens any more


def _run(job: Job, backends: Sequence[str], sink: _PipeSink) -> Message:
    try:
        return "done", job.run(sink, backends)
    except DecodeError as error:
        return "failed", str(error).removeprefix(f"{job.path}: ")
    except MemoryError:
        return "failed", "decoding it takes more memory than a decoder may use"
    except Exception as error:  # noqa: BLE001 (one strange file must not end the run; it is listed with this reason)
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"


class _PipeSink:
    """Sends what a job makes."""

    def __init__(self, pipe: Connection, preprocess: Preprocess) -> None:
        self._pipe, self._preprocess = pipe, preprocess
        self._last = time.monotonic()

    def emit(self, stream: str, frames: Frames) -> None:
        _send(self._pipe, "frames", (stream, self._preprocess(frames)))
        self._last = time.monotonic()

    def restart(self) -> None:
        _send(self._pipe, "restart", None)

    def beat(self) -> None:
        if time.monotonic() - self._last >= BEAT_EVERY:
            _send(self._pipe, "beat", None)
            self._last = time.monotonic()


def _join_parent(memory: int) -> None:
    """Die with the parent, leave the encoder its turn, and keep within a bound of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's own process ends the decoders
    with contextlib.suppress(OSError, AttributeError):  # Linux alone knows it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(2)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
