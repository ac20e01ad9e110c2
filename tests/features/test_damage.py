"""Damaged videos never hang, never crash, and never give a wrong frame that a reader could have known of."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from muvr_train.features.decode import Frames
from muvr_train.features.events import decoded
from muvr_train.features.pool import DecodePool
from muvr_train.features.sampling import FrameSampler
from tests.features.damage import CheckedJob, damage, intact, unreported_times, wrong_times


def as_it_is(frames: Frames) -> Frames:
    return frames


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_damaged_copies(shared: Path, tmp_path: Path, count: int) -> None:
    clips = sorted((shared / "data" / "clips").glob("*.mp4"), key=lambda path: (path.stat().st_size, path.name))
    rng, sources, jobs = Random(count), {}, []
    for number in range(count):
        clip = clips[number % len(clips)]
        kind, data = damage(clip.read_bytes(), rng)
        path = tmp_path / f"{number:03d} {kind}.mp4"
        path.write_bytes(data)
        sources[path.stem] = clip
        jobs.append(CheckedJob(path.stem, path, FrameSampler(15)))
    seen = set()
    for job, frames, status in decoded(DecodePool(jobs, as_it_is, 2, timeout=60)):
        seen.add(status.status)
        assert status.status != "timeout", status
        assert "Error:" not in status.reason, f"{status}: a fault of the program"
        if status.failed:
            assert status.reason
            continue
        assert status.used <= status.found
        wrong = wrong_times(frames, intact(sources[job.id]))
        assert not wrong or set(wrong) <= unreported_times(job.path), f"{status}: wrong frames at {wrong} seconds"
        if status.status == "truncated":
            assert "of" in status.reason
    assert seen >= {"truncated", "undecodable"}


def test_sound_files_are_right(shared: Path) -> None:
    clips = sorted((shared / "data" / "clips").glob("*.mp4"), key=lambda path: path.stat().st_size)[:6]
    jobs = [CheckedJob(path.stem, path, FrameSampler(15)) for path in clips]
    for job, frames, status in decoded(DecodePool(jobs, as_it_is, 2)):
        assert (status.status, status.used) == ("ok", 15)
        assert wrong_times(frames, intact(job.path)) == []
