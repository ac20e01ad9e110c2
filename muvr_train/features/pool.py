"""Decoding in processes that are killed when they hang; their frames come out in the order of the jobs."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import wait

from muvr_train.features.decode import BACKENDS
from muvr_train.features.decoder import END_SECONDS, Decoder
from muvr_train.features.events import Done, Event, FrameChunk, Void
from muvr_train.features.jobs import Job
from muvr_train.features.status import TIMEOUT, UNDECODABLE, VideoStatus
from muvr_train.features.worker import Preprocess

TIMEOUT_SECONDS = 120.0
BUFFER = 256 * 2**20  # bytes of frames that may wait for the encoder
AHEAD = 8  # jobs per worker that may be decoded before their turn
MEMORY = 4 * 2**30  # bytes that one decoder may allocate


class DecodePool:
    """Runs jobs in worker processes; iterate over it for their events, in the order of the jobs.

    A worker that is silent for `timeout` seconds is killed, as is one that crashes noticed; the job is then tried again
    without decord, and if that fails too it ends as timeout or undecodable. Frames wait in bounded memory: while the
    buffer is full no worker is listened to, except for the next frames that are due where none wait.

    Args:
        jobs: what to decode.
        preprocess: picklable; applied to frames inside the workers.
        workers: how many processes.
        timeout: seconds of silence after which a worker is killed.
        memory: bytes that one worker may allocate.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        preprocess: Preprocess,
        workers: int,
        timeout: float = TIMEOUT_SECONDS,
        memory: int = MEMORY,
    ) -> None:
        self.jobs, self.preprocess, self.timeout, self.memory = jobs, preprocess, timeout, memory
        self.size = max(1, min(workers, len(jobs)))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["muvr_train.features.worker"])
        self._lock = threading.Condition()
        self._waiting: dict[int, deque[Event]] = {}
        self._bytes = 0  # of the frames in _waiting
        self._turn = 0  # the job whose events go out
        self._next = 0  # the job that is begun next
        self._stop = False
        self._error: BaseException | None = None
        self._workers: list[Decoder] = []
        self._ear, self._bell = multiprocessing.Pipe(duplex=False)

    def __iter__(self) -> Iterator[Event]:
        """Decode everything once; an iterator that is dropped ends the processes."""
        thread = threading.Thread(target=self._listen, name="decoding", daemon=True)
        thread.start()
        try:
            while self._turn < len(self.jobs):
                event = self._take()
                yield event
                if isinstance(event, Done):
                    with self._lock:
                        del self._waiting[self._turn]
                        self._turn += 1
                    self._ring()
        finally:
            self._stop = True
            self._ring()
            thread.join(END_SECONDS * (len(self._workers) + 1))

    def _take(self) -> Event:
        """The next event of the job whose turn it is."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting.get(self._turn) or self._error is not None)
            if self._error is not None:
                raise self._error
            event = self._waiting[self._turn].popleft()
            full = self._bytes >= BUFFER
            if isinstance(event, FrameChunk):
                self._bytes -= event.frames.nbytes
            if full and (self._bytes < BUFFER or not self._waiting[self._turn]):
                self._ring()  # whoever has what is due next may be waiting to be heard
            return event

    def _ring(self) -> None:
        self._bell.send(None)

    def _listen(self) -> None:
        try:
            self._workers = [self._start() for _ in range(self.size)]
            while not self._stop:
                self._assign()
                self._hear()
        except BaseException as error:  # noqa: BLE001 (raised again where the events are taken)
            with self._lock:
                self._error = error
                self._lock.notify_all()
        finally:
            for worker in self._workers:
                worker.end()

    def _start(self) -> Decoder:
        return Decoder.start(self._context, self.preprocess, self.memory)

    def _assign(self) -> None:
        """Give idle workers the next jobs, as far ahead of the turn as is allowed."""
        last = min(len(self.jobs), self._turn + AHEAD * self.size)
        for worker in self._workers:
            if worker.job is None and self._next < last:
                with self._lock:
                    self._waiting[self._next] = deque()
                self._give(worker, self._next, BACKENDS)
                self._next += 1

    def _give(self, worker: Decoder, job: int, backends: tuple[str, ...]) -> None:
        worker.job, worker.backends, worker.heard = job, backends, time.monotonic()
        try:
            worker.pipe.send((self.jobs[job], backends))
        except BrokenPipeError:  # it was killed while it had nothing to do
            self._lose(worker, UNDECODABLE, "is gone")

    def _hear(self) -> None:
        """Wait for a message, a crash, a hanging worker, or a change of turn."""
        busy = [worker for worker in self._workers if worker.job is not None]
        with self._lock:
            full = self._bytes >= BUFFER
            needed = self._turn if not self._waiting.get(self._turn) else None
        heard = {worker.pipe: worker for worker in busy if worker.job == needed or not full}
        now = time.monotonic()
        for worker in busy:
            if worker.pipe not in heard:
                worker.heard = now  # it may be waiting for us
        left = [worker.heard + worker.patience(self.timeout) - now for worker in heard.values()]
        ready = set(wait([self._ear, *heard], max(0.0, min(left)) if left else None))
        if self._ear in ready:
            while self._ear.poll():
                self._ear.recv()
        now = time.monotonic()
        for pipe, worker in heard.items():
            if pipe in ready:
                worker.heard = now
                self._receive(worker)
            elif now - worker.heard >= worker.patience(self.timeout):
                self._lose(worker, TIMEOUT, f"was silent for {self.timeout:g} seconds")

    def _receive(self, worker: Decoder) -> None:
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, OSError):
            self._lose(worker, UNDECODABLE, worker.how_it_ended())
            return
        worker.ready = True
        job = worker.job
        if job is None or kind in ("ready", "beat"):
            return
        if kind == "frames":
            self._put(FrameChunk(job, *content))
        elif kind == "restart":
            self._put(Void(job))
        elif kind == "done":
            self._finish(worker, job, content)
        else:
            self._finish(worker, job, _failed(self.jobs[job], UNDECODABLE, content))

    def _lose(self, worker: Decoder, status: str, how: str) -> None:
        """Replace a worker that hangs or is gone, and try its job without decord, or give the job up."""
        if not worker.ready:
            raise RuntimeError(
                f"a decoder process cannot start: it {how}. A script that extracts features needs the guard "
                '`if __name__ == "__main__":` around what it runs'
            )
        job, backends = worker.job, worker.backends
        worker.end()
        fresh = self._start()
        self._workers[self._workers.index(worker)] = fresh
        if job is None:
            return
        fresh.lost = [*worker.lost, f"the decoder ({', '.join(backends)}) {how}"]
        fresh.job = job
        self._put(Void(job))
        if backends != BACKENDS[1:]:
            self._give(fresh, job, BACKENDS[1:])
        else:
            self._finish(fresh, job, _failed(self.jobs[job], status, ""))

    def _finish(self, worker: Decoder, job: int, status: VideoStatus) -> None:
        reason = "; ".join([*worker.lost, *([status.reason] if status.reason else [])])
        worker.job, worker.lost = None, []
        self._put(Done(job, replace(status, reason=reason)))

    def _put(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, Void):
                self._forget(event.job)
            self._waiting[event.job].append(event)
            if isinstance(event, FrameChunk):
                self._bytes += event.frames.nbytes
            self._lock.notify_all()

    def _forget(self, job: int) -> None:
        """Drop the chunks of a job that are still here."""
        self._bytes -= sum(event.frames.nbytes for event in self._waiting[job] if isinstance(event, FrameChunk))
        self._waiting[job] = deque(event for event in self._waiting[job] if not isinstance(event, FrameChunk))


def _failed(job: Job, status: str, reason: str) -> VideoStatus:
    return VideoStatus(job.id, str(job.path), status, reason)
