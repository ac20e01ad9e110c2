"""A process that decodes, as its pool sees it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

from muvr_train.features.decode import BACKENDS
from muvr_train.features.worker import Preprocess, serve

START_SECONDS = 120.0  # within which a decoder process must have started
END_SECONDS = 10.0  # that a killed process gets to be gone; one in a broken driver or file system may never be
log = logging.getLogger(__name__)


@dataclass
class Decoder:
    """A process, and what it does.

    Attributes:
        process: decodes.
        pipe: to it, and back.
        ready: whether it has started.
        job: what it does, None for nothing.
        backends: readers that it may use.
        heard: when it gave a sign of life, of the monotonic clock.
        lost: why earlier attempts at this job ended.
    """

    process: BaseProcess
    pipe: Connection
    ready: bool = False
    job: int | None = None
    backends: tuple[str, ...] = BACKENDS
    heard: float = 0.0
    lost: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, context: ForkServerContext, preprocess: Preprocess, memory: int) -> Decoder:
        """Start a process that may allocate `memory` bytes."""
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, preprocess, memory), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def end(self) -> None:
        """Kill it, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self._wait()

    def how_it_ended(self) -> str:
        """How a process ended that closed its pipe, for messages."""
        self._wait()
        code = self.process.exitcode
        return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"

    def patience(self, timeout: float) -> float:
        """Seconds that it may be silent; it may take longer to start on a busy machine."""
        return timeout if self.ready else max(timeout, START_SECONDS)

    def _wait(self) -> None:
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            log.warning(
                "decoder process %d has not ended %g seconds after it was killed", self.process.pid, END_SECONDS
            )
