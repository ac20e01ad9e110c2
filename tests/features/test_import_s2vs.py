"""Import of HDF5 files."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.features.import_s2vs import import_s2vs
from muvr_train.features.store import FeatureStore


def test_data_sets_come_back_with_their_names_and_dtype(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = {
        "a": rng.standard_normal((5, 9, 8)).astype("f2"),
        "group/b": rng.standard_normal((1, 9, 8)).astype("f2"),
        "group/deep/é 日本": rng.standard_normal((3, 9, 8)).astype("f4"),
    }
    with h5py.File(tmp_path / "in.hdf5", "w") as file:
        for name, array in content.items():
            file[name] = array
    report = import_s2vs(tmp_path / "in.hdf5", tmp_path / "out")
    assert report.failures == []
    store = FeatureStore(tmp_path / "out")
    assert set(store.ids()) == set(content)
    for name, array in content.items():
        assert store.array(name).dtype == array.dtype
        assert np.array_equal(store.array(name), array)
    assert store.manifest["text_encoder"] is None
    import_s2vs(tmp_path / "in.hdf5", tmp_path / "half", "videos", float16=True)
    half = FeatureStore(tmp_path / "half")
    assert set(half.ids()) == {f"videos/{name}" for name in content}
    assert half.array("videos/group/deep/é 日本").dtype == np.float16


def test_global_features_and_failures(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["a"] = np.ones((5, 8), "f4")
        file["b_nan"] = np.full((5, 8), np.nan, "f4")
        file["c_scalar"] = 1.0
        file["d_text"] = "words"
        file["e_wide"] = np.ones((5, 9), "f4")
        file["f_integers"] = np.ones((5, 8), "i4")
        file["z"] = np.ones((1, 8), "f8")
        file.create_group("nothing")
        file["outside"] = h5py.ExternalLink("/etc/passwd", "/")
    for _ in range(2):
        report = import_s2vs(tmp_path / "in.h5", tmp_path / "out")
        assert [key for key, _ in report.failures] == ["b_nan", "c_scalar", "d_text", "e_wide", "f_integers"]
        assert "not finite" in report.failures[0][1]
        assert "size 9" in report.failures[3][1]
        assert report.stored["video"] == 2
    store = FeatureStore(tmp_path / "out")
    assert store.shape("video") == (1, 8)
    assert store.array("z").dtype == np.float32
    assert (tmp_path / "out/failures.csv").read_text().count("\n") == 6


def test_what_is_no_hdf5_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        import_s2vs(tmp_path / "in.h5", tmp_path / "out")
    (tmp_path / "in.h5").write_bytes(b"words")
    with pytest.raises(DataError, match=r"in.h5 is no readable HDF5 file"):
        import_s2vs(tmp_path / "in.h5", tmp_path / "out")
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_group("nothing")
    with pytest.raises(DataError, match=r"empty.h5 holds no data sets"):
        import_s2vs(tmp_path / "empty.h5", tmp_path / "out")
