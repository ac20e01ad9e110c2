"""Decoder processes: frames in order, hanging and crashing ones killed, bounded memory, nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from muvr_train.features import pool as pools
from muvr_train.features.decode import BACKENDS, DecodeError, Frames
from muvr_train.features.events import Done, FrameChunk, Void, decoded
from muvr_train.features.jobs import Sink
from muvr_train.features.pool import DecodePool
from muvr_train.features.status import VideoStatus


@dataclass(frozen=True)
class Grey:
    """Gives `count` chunks of one frame each, all of value `number`."""

    number: int
    count: int = 2
    seconds: float = 0.0
    size: int = 2
    streams: tuple[str, ...] = ("video",)

    @property
    def id(self) -> str:
        return f"video {self.number}"

    @property
    def path(self) -> Path:
        return Path(f"{self.number}.mp4")

    def frame(self) -> Frames:
        return np.full((1, self.size, self.size, 3), self.number, np.uint8)

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        for _ in range(self.count):
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                time.sleep(0.01)
                sink.beat()
            sink.emit("video", self.frame())
        return VideoStatus(self.id, str(self.path), "ok", "", self.count, self.count, self.count, backends[0])


@dataclass(frozen=True)
class Bad(Grey):
    """Gives a frame and then hangs, dies or raises while decord is allowed, or always."""

    how: str = "hang"
    always: bool = False

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        if self.always or "decord" in backends:
            sink.emit("video", np.zeros((1, 2, 2, 3), np.uint8))
            if self.how == "hang":
                time.sleep(60)
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.how == "memory":
                np.ones(2**40)
            if self.how == "raise":
                raise DecodeError(f"{self.path}: no frames")
            raise KeyError("odd")
        return super().run(sink, backends)


def same(frames: Frames) -> Frames:
    return frames


def twice(frames: Frames) -> Frames:
    return frames * 2


@pytest.mark.parametrize("workers", [1, 3])
def test_frames_come_in_the_order_of_the_jobs(workers: int) -> None:
    jobs = [Grey(number, count=number % 3 + 1, seconds=0.05 * (number % 2)) for number in range(9)]
    events = list(DecodePool(jobs, twice, workers))
    assert [event.job for event in events] == sorted(event.job for event in events)
    videos = list(decoded(DecodePool(jobs, twice, workers)))
    assert [job for job, _, _ in videos] == jobs
    for number, (_, frames, status) in enumerate(videos):
        assert frames["video"].shape == (number % 3 + 1, 2, 2, 3)
        assert (frames["video"] == 2 * number).all()
        assert status == VideoStatus(f"video {number}", f"{number}.mp4", "ok", "", *[number % 3 + 1] * 3, "decord")


def test_no_jobs() -> None:
    assert list(DecodePool([], same, 2)) == []


@pytest.mark.parametrize(("how", "reason"), [("hang", "was silent for 0.5 seconds"), ("die", "was ended by signal 11")])
def test_a_worker_that_hangs_or_dies_is_replaced_and_pyav_tried(how: str, reason: str) -> None:
    jobs = [Grey(1), Bad(2, how=how), Grey(3)]
    videos = list(decoded(DecodePool(jobs, same, 2, timeout=0.5)))
    assert [status.status for _, _, status in videos] == ["ok"] * 3
    _, frames, status = videos[1]
    assert frames["video"].shape == (2, 2, 2, 3), "the frame of the first attempt counts for nothing"
    assert (frames["video"] == 2).all()
    assert status.backend == "pyav"
    assert status.reason == f"the decoder (decord, pyav) {reason}"


@pytest.mark.parametrize(("how", "kind"), [("hang", "timeout"), ("die", "undecodable")])
def test_a_job_that_always_hangs_or_dies_is_given_up(how: str, kind: str) -> None:
    jobs = [Bad(1, how=how, always=True), Grey(2), Bad(3, how=how, always=True), Grey(4)]
    videos = list(decoded(DecodePool(jobs, same, 2, timeout=0.5)))
    assert [status.status for _, _, status in videos] == [kind, "ok", kind, "ok"]
    assert videos[0][1] == {}
    assert videos[0][2].reason.count("the decoder (") == 2
    assert videos[0][2].failed


@pytest.mark.parametrize(
    ("how", "reason"),
    [("raise", "no frames"), ("odd", "KeyError: 'odd'"), ("memory", "more memory than a decoder may use")],
)
def test_an_error_is_the_videos_own(how: str, reason: str) -> None:
    jobs = [Grey(1), Bad(2, how=how, always=True), Grey(3)]
    statuses = [status for _, _, status in decoded(DecodePool(jobs, same, 1))]
    assert [status.status for status in statuses] == ["ok", "undecodable", "ok"]
    assert reason in statuses[1].reason


def test_slow_work_with_signs_of_life_is_not_killed() -> None:
    statuses = [status for _, _, status in decoded(DecodePool([Grey(1, 1, seconds=2.0)], same, 1, timeout=1.0))]
    assert [(status.status, status.reason) for status in statuses] == [("ok", "")]


def test_waiting_for_a_slow_encoder_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "BUFFER", 1000)
    jobs = [Grey(number, count=3, size=64) for number in range(4)]
    seen = []
    for event in DecodePool(jobs, same, 2, timeout=0.3):
        time.sleep(0.2)
        seen.append(event)
    assert [event.status.reason for event in seen if isinstance(event, Done)] == [""] * 4
    assert not any(isinstance(event, Void) for event in seen)


def test_the_buffer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = 256 * 256 * 3
    monkeypatch.setattr(pools, "BUFFER", 4 * frame)
    pool = DecodePool([Grey(number, count=50, size=256) for number in range(3)], same, 3)
    peak = 0
    for event in pool:
        if isinstance(event, FrameChunk):
            time.sleep(0.005)
            peak = max(peak, pool._bytes)
    assert peak <= 8 * frame, "what waits stays near the bound, not at 100 frames"


@dataclass(frozen=True)
class Restarts(Grey):
    """Is slow, takes back what it gave, and gives it again."""

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        time.sleep(self.seconds)
        sink.restart()
        time.sleep(self.seconds)
        return Grey(self.number, self.count, 0.0, self.size).run(sink, backends)


def test_a_restart_while_others_fill_the_buffer_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "BUFFER", 3 * 64 * 64)
    jobs = [Restarts(0, seconds=0.5, size=64), *(Grey(number, count=20, size=64) for number in range(1, 4))]
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.extend(status.id for _, _, status in decoded(DecodePool(jobs, same, 3))), daemon=True
    )
    thread.start()
    thread.join(60)
    assert found == [job.id for job in jobs]


def test_an_iterator_that_is_dropped_leaves_no_process() -> None:
    pool = DecodePool([Grey(number, count=5, seconds=0.05) for number in range(50)], same, 2)
    events = iter(pool)
    next(events)
    processes = [worker.process for worker in pool._workers]
    assert len(processes) == 2
    events.close()  # type: ignore[attr-defined]
    assert not any(process.is_alive() for process in processes)


def test_what_cannot_be_sent_to_a_worker_is_an_error_here() -> None:
    with pytest.raises((AttributeError, TypeError), match=r"(?i)pickle"):
        list(DecodePool([Grey(1)], lambda frames: frames, 1))
