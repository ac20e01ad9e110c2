"""`open_features` and the import command."""

from __future__ import annotations

import logging
import multiprocessing
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from muvr_train.cache import cache_root
from muvr_train.errors import DataError
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.import_features import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in/news").mkdir(parents=True)
    for n in range(5):
        np.save(tmp_path / f"in/news/{n}.npy", np.full((1 + n, 4), n, "f4"))
    return tmp_path / "in"


def test_a_store_opens_directly(source: Path, tmp_path: Path) -> None:
    import_muvr(source, tmp_path / "s")
    store = open_features(tmp_path / "s", tmp_path / "cache", "ram")
    assert (store.path, store.residency) == (tmp_path / "s", "ram")
    assert not (tmp_path / "cache").exists()


def test_a_folder_is_imported_once_and_again_when_it_changes(source: Path, tmp_path: Path) -> None:
    first = open_features(source, tmp_path / "cache")
    assert first.path.parent == tmp_path / "cache/imported"
    assert first.ids() == [f"news/{n}" for n in range(5)]
    made = (first.path / "index.json").stat().st_mtime_ns
    again = open_features(str(source) + "/", tmp_path / "cache")
    assert again.path == first.path
    assert (first.path / "index.json").stat().st_mtime_ns == made
    np.save(source / "news/5.npy", np.ones((1, 4), "f4"))
    assert open_features(source, tmp_path / "cache").has("news/5")
    np.save(source / "news/5.npy", np.zeros((1, 4), "f4"))  # the same size, another time
    assert open_features(source, tmp_path / "cache").array("news/5").max() == 0


def test_an_interrupted_import_is_completed(source: Path, tmp_path: Path) -> None:
    store = open_features(source, tmp_path / "cache")
    for name in ("imported.json", "index.json"):
        (store.path / name).unlink()
    assert open_features(source, tmp_path / "cache").ids() == store.ids()


def test_a_cache_that_cannot_be_written_and_a_link_to_nowhere(source: Path, tmp_path: Path) -> None:
    (source / "news/gone.npy").symlink_to(tmp_path / "nowhere.npy")
    assert len(open_features(source, tmp_path / "cache").ids()) == 5
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cache folder cannot be written.*MUVR_TRAIN_CACHE"):
        open_features(source, tmp_path / "file")


def test_an_hdf5_file_is_imported(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.hdf5", "w") as file:
        file["news/a"] = np.ones((2, 9, 4), "f2")
    assert open_features(tmp_path / "f.hdf5", tmp_path / "cache").shape("video") == (9, 4)


def test_failures_are_told_every_time(source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (source / "news/bad.npy").write_bytes(b"")
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert len(open_features(source, tmp_path / "cache").ids()) == 5
        assert "failures.csv" in caplog.text


def _open(arguments: tuple[Path, Path]) -> int:
    return len(open_features(*arguments).ids())


def test_several_processes_may_open_at_once(source: Path, tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_open, [(source, tmp_path / "cache")] * 4) == [5] * 4


def test_everything_else_is_refused_with_what_was_found(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match=r"nowhere do not exist.*Expected a feature store"):
        open_features(tmp_path / "nowhere", cache)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty is empty.*Expected"):
        open_features(tmp_path / "empty", cache)
    (tmp_path / "photos/2024").mkdir(parents=True)
    (tmp_path / "photos/2024/a.jpg").touch()
    with pytest.raises(DataError, match=r"photos holds no features; it holds: 2024.*Expected"):
        open_features(tmp_path / "photos", cache)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=r"notes.txt is a file.*\.txt.*Expected"):
        open_features(tmp_path / "notes.txt", cache)
    (tmp_path / "half").mkdir()
    (tmp_path / "half/index.json").touch()
    with pytest.raises(DataError, match=r"manifest.json is missing"):
        open_features(tmp_path / "half", cache)
    assert not cache.exists()


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "c"))
    assert cache_root() == tmp_path / "c"
    monkeypatch.delenv("MUVR_TRAIN_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache/muvr_train"


def test_the_command_prints_a_table_and_exits_with_1_on_failures(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(source), str(tmp_path / "good"), "--float16"]) == 0
    assert FeatureStore(tmp_path / "good").array("news/1").dtype == np.float16
    assert "video" in capsys.readouterr().out
    (source / "news/bad.npy").write_bytes(b"")
    assert main([str(source), str(tmp_path / "bad")]) == 1
    assert len(FeatureStore(tmp_path / "bad").ids()) == 5
    assert main([str(tmp_path / "nowhere"), str(tmp_path / "none")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "nowhere" in err


def test_the_command_runs_as_a_module_on_odd_paths(source: Path, tmp_path: Path) -> None:
    odd = source.rename(tmp_path / "my=[odd], näme")
    command = [sys.executable, "-m", "muvr_train.import_features", str(odd), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert FeatureStore(tmp_path / "out").length("news/4") == 5
