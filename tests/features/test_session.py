"""The store of an extraction by several processes: merged whatever was interrupted; nothing missing is called well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from muvr_train.features.batches import Finished
from muvr_train.features.extract import final_statuses
from muvr_train.features.jobs import Job, PlainJob
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.session import PARTS, ExtractionSession, lacking
from muvr_train.features.status import VideoStatus, read_statuses
from muvr_train.features.store import FeatureStore


def jobs_of(names: str) -> list[Job]:
    return [PlainJob(name, Path(f"{name}.mp4"), FrameSampler()) for name in names]


def session_of(out: Path, names: str) -> ExtractionSession:
    return ExtractionSession(jobs_of(names), ("video",), out, {"encoder": "x"}, "float32", 60.0, 1.0)


def work(session: ExtractionSession, rank: int) -> list[str]:
    """Open as one of two processes and make features of what that one is given."""
    given = [job.id for job in session.open(rank, 2, lambda: None)]
    for name in given:
        values = torch.full((2, 1, 3), float(ord(name)))
        session.record(Finished(VideoStatus(name, f"{name}.mp4", "ok", "", 2, 2, 2, "pyav"), {"video": values}))
    return given


def whole(out: Path, names: str) -> None:
    store = FeatureStore(out)
    assert sorted(store.ids()) == sorted(names)
    for name in names:
        np.testing.assert_array_equal(store.array(name), np.full((2, 1, 3), float(ord(name)), np.float32))
    assert sorted(read_statuses(out)) == sorted(names)
    assert not (out / PARTS).exists()


def test_shares_are_merged(tmp_path: Path) -> None:
    first, second = session_of(tmp_path / "s", "abcde"), session_of(tmp_path / "s", "abcde")
    assert work(first, 0) == ["a", "c", "e"]
    assert work(second, 1) == ["b", "d"]
    second.close(lambda: None)
    first.close(lambda: None)
    whole(tmp_path / "s", "abcde")


def test_what_a_killed_merge_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    first, second = session_of(tmp_path / "s", "abcd"), session_of(tmp_path / "s", "abcd")
    work(first, 0)
    work(second, 1)
    second.close(lambda: None)
    first.close(lambda: None)
    left = tmp_path / "s" / PARTS / "merged-00001"  # a kill while it was being removed
    left.mkdir(parents=True)
    (left / "video-00000.safetensors").write_bytes(b"half")
    again = session_of(tmp_path / "s", "abcd")
    assert again.open(0, 1, lambda: None) == []
    again.close(lambda: None)
    whole(tmp_path / "s", "abcd")


def test_processes_that_saw_different_folders_leave_nothing_that_is_called_well(tmp_path: Path) -> None:
    first, second = session_of(tmp_path / "s", "abcde"), session_of(tmp_path / "s", "Aabcde")
    made = {*work(first, 0), *work(second, 1)}
    second.close(lambda: None)
    first.close(lambda: None)
    jobs = jobs_of("abcde")
    missing = {job.id for job in lacking(jobs, ("video",), tmp_path / "s")}
    assert missing == set("abcde") - made != set()
    statuses = final_statuses(jobs, first.statuses, missing)
    assert {status.id for status in statuses if status.failed} == missing
    assert all("run again" in status.reason for status in statuses if status.failed)


def test_a_failure_keeps_its_reason_and_a_store_without_statuses_is_well() -> None:
    failed = VideoStatus("a", "a.mp4", "timeout", "was silent")
    assert final_statuses(jobs_of("ab"), {"a": failed}, {"a"}) == (failed, VideoStatus("b", "b.mp4", "ok"))


def test_a_failure_of_a_stored_video_is_tried_again(tmp_path: Path) -> None:
    """A later run with views may fail on a video whose frames are stored; a repaired file must become well again."""
    first = session_of(tmp_path / "s", "ab")
    first.open(0, 1, lambda: None)
    for name in "ab":
        first.record(Finished(VideoStatus(name, f"{name}.mp4", "ok"), {"video": torch.ones(2, 1, 3)}))
    first.record(Finished(VideoStatus("b", "b.mp4", "undecodable", "gone"), {}))
    first.close(lambda: None)
    again = session_of(tmp_path / "s", "ab")
    assert [job.id for job in again.open(0, 1, lambda: None)] == ["b"]
    again.record(Finished(VideoStatus("b", "b.mp4", "ok"), {"video": torch.ones(2, 1, 3)}))
    again.close(lambda: None)
    assert [status.status for status in read_statuses(tmp_path / "s").values()] == ["ok", "ok"]
