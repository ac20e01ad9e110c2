"""Writing: refusals, resuming, merging of small shards, a writer that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.entries import FeatureError
from muvr_train.features.manifest import check_same_features, make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter

MANIFEST = make_manifest("test encoder")


def array(seed: int, frames: int = 2, regions: int = 1, dim: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, regions, dim)).astype("f4")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 1, 5), "f4"), r"'b'.*1 regions of size 5.*1 of size 4"),
        (np.ones((2, 3, 4), "f4"), r"'b'.*3 regions"),
        (np.ones((0, 1, 4), "f4"), r"'b'.*empty.*\(0, 1, 4\)"),
        (np.ones((2, 4), "f4"), r"'b'.*\[T, R, D\].*\(2, 4\)"),
        (np.ones((2, 1, 4), "i4"), r"'b'.*int32"),
        (torch.ones(2, 1, 4, dtype=torch.int64), r"'b'.*int64"),
        (np.array([[[1, np.nan, 0, 0]]], "f2"), r"'b'.*not finite"),
        (np.array([[[1, -np.inf, 0, 0]]], "f4"), r"'b'.*not finite"),
    ],
)
def test_bad_features_are_refused_and_named(tmp_path: Path, bad: np.ndarray, message: str) -> None:
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        writer.add("a", array(0))
        with pytest.raises(DataError, match=message):
            writer.add("b", bad)
        assert writer.done() == {"a"}
        writer.add("b", array(1))  # a refused id may come again
    assert FeatureStore(tmp_path / "s").ids() == ["a", "b"]


def test_duplicates_are_refused_also_after_reopening(tmp_path: Path) -> None:
    for _ in range(2):
        with StoreWriter(tmp_path / "s", MANIFEST) as writer:
            if not writer.done():
                writer.add("a", array(0))
            writer.add(f"b{len(writer.done())}", array(0))
            with pytest.raises(DataError, match="'a' is already in stream 'video'"):
                writer.add("a", array(0))
            if not writer.done("view1"):
                writer.add("a", array(0), "view1")


def test_the_writer_copies_what_it_is_given(tmp_path: Path) -> None:
    buffer = array(0)
    expected = buffer.copy()
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        writer.add("a", buffer)
        writer.add("b", torch.from_numpy(buffer))
        writer.add("c", buffer[:, :, ::-1])
        buffer.fill(0)
    store = FeatureStore(tmp_path / "s")
    assert np.array_equal(store.array("a"), expected)
    assert np.array_equal(store.array("b"), expected)
    assert np.array_equal(store.array("c"), expected[:, :, ::-1])


def test_another_manifest_is_refused_with_the_differing_keys(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "s", make_manifest("one", sampling={"frames": 15})) as writer:
        writer.add("a", array(0))
    with pytest.raises(DataError, match=r"encoder: 'one' there, 'two' here") as caught:
        StoreWriter(tmp_path / "s", make_manifest("two", sampling={"frames": 15}))
    assert "sampling" not in str(caught.value)
    with pytest.raises(DataError, match=r"dtype: 'source' there, 'float16' here"):
        StoreWriter(tmp_path / "s", make_manifest("one", sampling={"frames": 15}), dtype="float16")
    StoreWriter(tmp_path / "s", make_manifest("one", sampling={"frames": 15})).close()


def test_stores_made_differently_are_told_apart_but_not_by_their_source() -> None:
    one, two = make_manifest("e", source="a"), make_manifest("e", source="b", created_by="later")
    check_same_features(one, two, "mixed")
    with pytest.raises(DataError, match=r"mixed:\n  source: 'a' there, 'b' here"):
        check_same_features(one, two, "mixed", same_job=True)


def test_foreign_folders_and_second_writers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(DataError, match=r"no feature store; it holds holiday.jpg"):
        StoreWriter(tmp_path, MANIFEST)
    with pytest.raises(DataError, match=r"holiday.jpg cannot be written"):
        StoreWriter(tmp_path / "holiday.jpg", MANIFEST)
    with StoreWriter(tmp_path / "s", MANIFEST), pytest.raises(DataError, match="Another process"):
        StoreWriter(tmp_path / "s", MANIFEST)
    with pytest.raises(ConfigError, match="float8"):
        StoreWriter(tmp_path / "s", MANIFEST, dtype="float8")
    with StoreWriter(tmp_path / "s", MANIFEST) as writer, pytest.raises(DataError, match="stream"):
        writer.add("a", array(0), "../video")


def test_flushed_features_are_readable_while_the_writer_goes_on_and_small_shards_are_merged(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "s", MANIFEST)
    for n in range(5):
        writer.add(str(n), array(n, frames=1 + n))
        writer.add(str(n), array(n, regions=3), "fine")
        writer.flush()
        assert FeatureStore(tmp_path / "s").ids() == [str(i) for i in range(n + 1)]
    early = FeatureStore(tmp_path / "s")
    writer.close()
    writer.close()
    assert len(list(tmp_path.glob("s/*.safetensors"))) == 2
    for store in (early, FeatureStore(tmp_path / "s")):
        for n in range(5):
            assert np.array_equal(store.array(str(n)), array(n, frames=1 + n))
            assert np.array_equal(store.array(str(n), "fine"), array(n, regions=3))


def test_an_exception_keeps_what_was_added(tmp_path: Path) -> None:
    def interrupted() -> None:
        with StoreWriter(tmp_path / "s", MANIFEST) as writer:
            writer.add("a", array(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert FeatureStore(tmp_path / "s").ids() == ["a"]


def test_a_shard_that_is_not_in_the_index_is_ignored_and_overwritten(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        writer.add("a", array(0))
    (tmp_path / "s/video-00001.safetensors").write_bytes(b"half a shard")
    (tmp_path / "s/video-00001.safetensors.tmp").write_bytes(b"half")
    assert FeatureStore(tmp_path / "s").ids() == ["a"]
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        assert writer.done() == {"a"}
        writer.add("b", array(1))
        writer.flush()
        assert np.array_equal(FeatureStore(tmp_path / "s").array("b"), array(1))
    assert not list(tmp_path.glob("s/*.tmp"))


CHILD = """
import sys
import numpy as np
from muvr_train.features.manifest import make_manifest
from muvr_train.features.writer import StoreWriter

with StoreWriter(sys.argv[1], make_manifest("test encoder"), shard_mib=0.001) as writer:
    done = writer.done()
    for n in range(4000):
        if str(n) not in done:
            writer.add(str(n), np.random.default_rng(n).standard_normal((1 + n % 5, 1, 8)).astype("f2"))
            print(n, flush=True)
"""


def test_a_killed_writer_resumes_to_the_same_content(tmp_path: Path) -> None:
    path = tmp_path / "s"
    seen = 0
    for stop in (150, 337, 614):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= stop:
                break
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        kept = FeatureStore(path).ids()
        assert kept == [str(n) for n in range(len(kept))]
        assert len(kept) > seen
        seen = len(kept)
    with StoreWriter(path, MANIFEST, shard_mib=0.001) as writer:
        assert writer.done() == {str(n) for n in range(seen)}
        for n in range(seen, seen + 50):
            writer.add(str(n), np.random.default_rng(n).standard_normal((1 + n % 5, 1, 8)).astype("f2"))
    store = FeatureStore(path)
    assert store.ids() == [str(n) for n in range(seen + 50)]
    for n in range(seen + 50):
        expected = np.random.default_rng(n).standard_normal((1 + n % 5, 1, 8)).astype("f2")
        assert np.array_equal(store.array(str(n)), expected)


def test_a_full_disk_says_which_folder_is_full_and_keeps_what_was_written(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with StoreWriter(store, MANIFEST) as writer:
        writer.add("a", array(0))
    writer = StoreWriter(store, MANIFEST)
    writer.add("b", array(1))
    (store / "video-00001.safetensors.tmp").symlink_to("/dev/full")  # whatever is written there meets a full disk
    with pytest.raises(DataError, match=rf"folder {store} is full \(No space left.*kept; make room there"):
        writer.flush()
    writer.abandon()
    assert not [entry for entry in store.iterdir() if entry.name.endswith(".tmp")]
    with StoreWriter(store, MANIFEST) as again:
        assert again.done() == {"a"}
        again.add("b", array(1))
    assert FeatureStore(store).ids() == ["a", "b"]


def test_what_no_store_can_hold_is_told_apart_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "s", MANIFEST, "float16") as writer:
        writer.add("a", array(0))
        for bad in (np.full((1, 2, 3), np.nan, np.float32), np.full((1, 2, 3), 1e9), np.ones((1, 5, 7)), np.ones(3)):
            with pytest.raises(FeatureError):
                writer.add("b", bad)
            assert not writer.has("b")
        writer.add("b", array(1))
    assert FeatureStore(tmp_path / "s").ids() == ["a", "b"]
