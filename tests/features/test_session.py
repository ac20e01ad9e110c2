"""The store of an extraction by several processes: merged whatever was interrupted; nothing missing is called well."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muvr_train.errors import DataError
from muvr_train.features.batches import Finished
from muvr_train.features.extract import final_statuses
from muvr_train.features.session import PARTS
from muvr_train.features.status import VideoStatus, read_statuses
from muvr_train.features.store import FeatureStore
from tests.features.session_worker import jobs_of, session_of, share_work, work
from tests.together import Raised, together


def whole(out: Path, names: str) -> None:
    """The store holds exactly these, each once, with a status, and nothing lies about."""
    if names:
        store = FeatureStore(out)
        assert sorted(store.ids()) == sorted(names)
        for name in names:
            np.testing.assert_array_equal(store.array(name), np.full((2, 1, 3), float(ord(name)), np.float32))
    assert sorted(read_statuses(out)) == sorted(names)
    assert not (out / PARTS).exists()


@pytest.fixture(scope="module")
def shared_work(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, list[Any]]]:
    root = tmp_path_factory.mktemp("sessions")
    return root, together((1, 2, 3), root / "exchange", share_work, root)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_first_process_hands_out_and_all_shares_are_merged(shared_work, size):
    root, found = shared_work[0] / str(size), shared_work[1][size]
    for name, expected in {"uneven": "abcdefg", "one": "a", "none": "", "different": "abcde"}.items():
        given = [one[name] for one in found]
        assert sorted(chain(*given)) == sorted(expected), "each to one process, also where they list other folders"
        assert max(map(len, given)) - min(map(len, given)) <= 1
        assert {status.id: status.status for status in found[0][f"statuses of {name}"]} == dict.fromkeys(expected, "ok")
    assert list(chain(*(one["again"] for one in found))) == ["h"]
    for name, expected in {"uneven": "abcdefgh", "one": "a", "none": "", "different": "abcde"}.items():
        whole(root / name, expected)


@pytest.mark.parametrize("size", [2, 3])
def test_where_one_process_cannot_go_on_none_does_and_the_store_is_free_again(shared_work, size):
    root, found = shared_work[0] / str(size), shared_work[1][size]
    for name, words in {
        "made differently": "'x' there, 'y' here",
        "other encoder": "it would make other features than process 0: encoder",
        "held": f"Another process is writing the feature store {root / 'held' / PARTS}",
    }.items():
        for one in found:
            assert isinstance(one[name], Raised), name
            assert one[name][0] == "DataError"
            assert words in one[name][1]
    assert found[-1]["held"][1].startswith("process 0: ")
    assert sorted(chain(*(one["free"] for one in found))) == ["a", "b", "c"]
    whole(root / "fresh", "abc")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_several_processes_left_is_taken_over_by_one(shared_work, size):
    out = shared_work[0] / str(size) / "stopped"
    assert len(list(out.glob(f"{PARTS}/0*"))) == size - 1
    session = session_of(out, "abcdefgh")
    assert work(session) == ["h"]
    session.close()
    whole(out, "abcdefgh")


def test_what_a_killed_merge_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    session = session_of(tmp_path / "s", "abcd")
    work(session)
    session.close()
    left = tmp_path / "s" / PARTS / "merged-00001"  # a kill while it was being removed
    left.mkdir(parents=True)
    (left / "video-00000.safetensors").write_bytes(b"half")
    again = session_of(tmp_path / "s", "abcd")
    assert again.open() == []
    again.close()
    whole(tmp_path / "s", "abcd")


def test_a_store_that_was_made_differently_is_refused_before_anything_takes_time(tmp_path: Path) -> None:
    session = session_of(tmp_path / "s", "ab")
    work(session)
    session.close()
    before = (tmp_path / "s" / "manifest.json").read_text()
    other = session_of(tmp_path / "s", "ab", "y")
    with pytest.raises(DataError, match="made differently"):
        other.claim(session.group)
    other.abort()
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "a.jpg").touch()
    second = session_of(foreign, "ab")
    with pytest.raises(DataError, match=r"no feature store; it holds a\.jpg"):
        second.claim(session.group)
    second.abort()
    assert (tmp_path / "s" / "manifest.json").read_text() == before
    work(session_of(tmp_path / "s", "ab"))


def test_what_an_encoder_learns_may_be_unknown_when_a_store_is_claimed(tmp_path: Path) -> None:
    """A whitened encoder's hash is in the store, and comes into the manifest only after the claim."""
    first = session_of(tmp_path / "s", "ab")
    first.manifest = {"encoder": "x", "whitening_hash": "1"}
    work(first)
    first.close()
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["whitening_hash"] == "1"
    again = session_of(tmp_path / "s", "abc")
    again.claim(first.group)
    again.manifest = {"encoder": "x", "whitening_hash": "2"}
    with pytest.raises(DataError, match="whitening_hash: '1' there, '2' here"):
        again.open()
    again.abort()


def test_a_full_disk_keeps_what_was_saved_and_frees_the_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(tmp_path / "s", "abc")
    given = work(session)
    session.save()
    session.record(Finished(VideoStatus("d", "d.mp4", "ok", "", 2, 2, 2, "pyav"), {"video": torch.ones(2, 1, 3)}))
    (tmp_path / "s" / "video-00001.safetensors.tmp").symlink_to("/dev/full")
    with pytest.raises(DataError, match="is full"):
        session.save()
    (tmp_path / "s" / "status.csv.tmp").symlink_to("/dev/full")
    session.abort()
    assert "what was extracted since the last save is lost" in caplog.text
    assert sorted(FeatureStore(tmp_path / "s").ids()) == given == ["a", "b", "c"]
    again = session_of(tmp_path / "s", "abcd")
    assert work(again) == ["d"]
    again.close()
    whole(tmp_path / "s", "abcd")


def test_a_failure_keeps_its_reason_and_a_store_without_statuses_is_well() -> None:
    failed = VideoStatus("a", "a.mp4", "timeout", "was silent")
    assert final_statuses(jobs_of("ab"), {"a": failed}, {"a"}) == (failed, VideoStatus("b", "b.mp4", "ok"))
    (missing,) = final_statuses(jobs_of("c"), {"c": VideoStatus("c", "c.mp4", "ok")}, {"c"})
    assert missing.failed
    assert "run again" in missing.reason


def test_a_failure_of_a_stored_video_is_tried_again(tmp_path: Path) -> None:
    """A later run with views may fail on a video whose frames are stored; a repaired file must become well again."""
    first = session_of(tmp_path / "s", "ab")
    first.open()
    for name in "ab":
        first.record(Finished(VideoStatus(name, f"{name}.mp4", "ok"), {"video": torch.ones(2, 1, 3)}))
    first.record(Finished(VideoStatus("b", "b.mp4", "undecodable", "gone"), {}))
    first.close()
    again = session_of(tmp_path / "s", "ab")
    assert [job.id for job in again.open()] == ["b"]
    again.record(Finished(VideoStatus("b", "b.mp4", "ok"), {"video": torch.ones(2, 1, 3)}))
    again.close()
    assert [status.status for status in read_statuses(tmp_path / "s").values()] == ["ok", "ok"]
