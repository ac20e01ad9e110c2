"""Import of MUVR's layout: the golden folders, the official rules on shapes, every kind of broken file."""

from __future__ import annotations

import csv
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore, tag_key


def save(path: Path, array: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(array, np.ndarray):
        with path.open("wb") as file:  # np.save would append .npy to odd names
            np.save(file, array)
    else:
        path.write_bytes(array if isinstance(array, bytes) else pickle.dumps(array))


def query(tags: object = None, prompt: object = None) -> dict[str, object]:
    return {"query_prompt": np.ones((1, 4), "f4") if prompt is None else prompt, "tags": {} if tags is None else tags}


def failures_of(store: Path) -> dict[str, str]:
    with (store / "failures.csv").open(newline="", encoding="utf-8") as file:
        return {row["key"]: row["reason"] for row in csv.DictReader(file)}


def test_golden_toyclip_comes_back_value_by_value(shared: Path, tmp_path: Path) -> None:
    source = shared / "golden/muvr_small/features/toyclip"
    report = import_muvr(source, tmp_path / "s")
    assert report.failures == []
    assert failures_of(tmp_path / "s") == {}
    store = FeatureStore(tmp_path / "s")
    files = sorted(source.glob("*/*.npy"))
    assert report.stored["video"] == len(store.ids()) == len(files) == 1559
    assert {key.split("/")[0] for key in store.ids()} == {"news", "others", "instance", "region", "dance"}
    for file in files:
        stored = store.array(f"{file.parent.name}/{file.stem}")
        assert stored.dtype == np.float32
        assert np.array_equal(stored[:, 0], np.load(file))
    tags = 0
    for file in source.glob("*/*_query_dict.pkl"):
        content = pickle.loads(file.read_bytes())
        key = f"{file.parent.name}/{file.name.removesuffix('_query_dict.pkl')}"
        assert np.array_equal(store.array(key, "text")[:, 0], content["query_prompt"])
        for tag, vector in content["tags"].items():
            assert np.array_equal(store.array(tag_key(key, tag), "tags")[:, 0], vector)
            tags += 1
    assert report.stored == {"video": 1559, "text": 59, "tags": tags}
    assert store.manifest["text_aligned"] is True
    assert store.dims.dim == store.dims.text_dim == 64


def test_golden_tokens32_is_averaged_in_float32_or_kept(shared: Path, tmp_path: Path) -> None:
    source = shared / "golden/muvr_small/features/tokens32"
    assert import_muvr(source, tmp_path / "mean").failures == []
    assert import_muvr(source, tmp_path / "keep", token_rows="keep").failures == []
    mean, keep = FeatureStore(tmp_path / "mean"), FeatureStore(tmp_path / "keep")
    assert (mean.shape("video"), keep.shape("video")) == ((1, 8), (32, 8))
    for file in source.glob("dance/*.npy"):
        array, key = np.load(file), f"dance/{file.stem}"
        assert np.array_equal(keep.array(key), array)
        official = torch.from_numpy(array).float().mean(dim=1)
        assert torch.allclose(mean.tensors([key])[0][:, 0], official, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "others", "expected"),
    [
        ((6, 4), (6, 4), (6, 1, 4)),
        ((1, 4), (6, 4), (1, 1, 4)),
        ((1, 6, 4), (6, 4), (6, 1, 4)),  # [1, frames, D] is squeezed
        ((1, 1, 4), (6, 4), (1, 1, 4)),
        ((1, 9, 4), (5, 9, 4), (1, 9, 4)),  # one frame of nine regions among videos of nine regions
        ((3, 32, 4), (6, 4), (3, 1, 4)),
        ((1, 32, 4), (6, 4), (1, 1, 4)),  # officially the 32 come before the squeeze
        ((32, 4), (6, 4), (32, 1, 4)),
        ((5, 9, 4), (5, 9, 4), (5, 9, 4)),
    ],
)
def test_shapes(tmp_path: Path, shape: tuple[int, ...], others: tuple[int, ...], expected: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype("f4")
    save(tmp_path / "in/news/a.npy", array)
    save(tmp_path / "in/news/b.npy", np.ones(others, "f4"))
    assert import_muvr(tmp_path / "in", tmp_path / "out").failures == []
    stored = FeatureStore(tmp_path / "out").array("news/a")
    assert stored.shape == expected
    averaged = len(shape) == 3 and shape[1] == 32
    assert np.allclose(stored.ravel(), (array.mean(axis=1) if averaged else array).ravel(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_dtype_of_the_source_is_kept(tmp_path: Path, dtype: str) -> None:
    values = np.array([[1 / 3, 70_000.0 if dtype == "float32" else 7.0, 1e-7, -2]], dtype)
    save(tmp_path / "in/news/a.npy", values)
    save(tmp_path / "in/news/a_query_dict.pkl", query({"+x": values}, values))
    import_muvr(tmp_path / "in", tmp_path / "out")
    store = FeatureStore(tmp_path / "out")
    for key, stream in [("news/a", "video"), ("news/a", "text"), (tag_key("news/a", "+x"), "tags")]:
        assert store.array(key, stream).dtype == dtype
        assert np.array_equal(store.array(key, stream)[:, 0], values)


def test_float16_is_a_choice_and_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    save(tmp_path / "in/news/a.npy", np.array([[1 / 3, 1]], "f8"))
    save(tmp_path / "in/news/b.npy", np.array([[70_000, 1]], "f4"))
    report = import_muvr(tmp_path / "in", tmp_path / "half", float16=True)
    store = FeatureStore(tmp_path / "half")
    assert store.array("news/a").dtype == np.float16
    assert [key for key, _ in report.failures] == ["news/b"]
    assert "beyond the range of float16" in report.failures[0][1]
    import_muvr(tmp_path / "in", tmp_path / "source")
    assert FeatureStore(tmp_path / "source").array("news/a")[0, 0, 0] == np.float32(1 / 3)


def test_prompts_of_eight_rows_are_averaged_and_others_kept(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((8, 4)).astype("f2")
    save(tmp_path / "in/news/a.npy", np.ones((2, 4), "f2"))
    for name, prompt in {"a": rows, "b": rows[:7], "c": rows[0]}.items():
        save(tmp_path / f"in/news/{name}_query_dict.pkl", query({"+x": rows}, prompt))
    assert import_muvr(tmp_path / "in", tmp_path / "out").failures == []
    store = FeatureStore(tmp_path / "out")
    assert np.allclose(store.array("news/a", "text"), rows.astype("f4").mean(axis=0), atol=1e-7)
    assert store.array("news/a", "text").dtype == np.float32
    assert np.array_equal(store.array("news/b", "text")[:, 0], rows[:7])
    assert np.array_equal(store.array("news/c", "text")[:, 0], rows[:1])
    assert store.length(tag_key("news/a", "+x"), "tags") == 8


def test_old_partition_names_and_one_tag_with_different_vectors(tmp_path: Path) -> None:
    for number, partition in enumerate(["geng", "animal", "news"]):
        save(tmp_path / f"in/{partition}/7.npy", np.full((1, 4), number, "f4"))
        save(tmp_path / f"in/{partition}/7_query_dict.pkl", query({"+x": np.full((1, 4), number, "f4")}))
    assert import_muvr(tmp_path / "in", tmp_path / "out").failures == []
    store = FeatureStore(tmp_path / "out")
    for number, partition in enumerate(["others", "instance", "news"]):
        assert store.array(f"{partition}/7")[0, 0, 0] == number
        assert store.array(tag_key(f"{partition}/7", "+x"), "tags")[0, 0, 0] == number
    save(tmp_path / "in/others/7.npy", np.ones((1, 4), "f4"))
    with pytest.raises(DataError, match="'geng' and 'others'"):
        import_muvr(tmp_path / "in", tmp_path / "again")


@pytest.mark.parametrize(
    "name", ["a b", "é 日本", "x\ny", "..b", "-rf", "%2F", "a_query_dict", "x.npy", "\udcff", "'", ""]
)
def test_any_file_name_is_an_id(tmp_path: Path, name: str) -> None:
    save(tmp_path / f"in/news/{name}.npy", np.ones((2, 4), "f4"))
    save(tmp_path / f"in/news/{name}_query_dict.pkl", query({"+x": np.ones((1, 4), "f4")}))
    assert import_muvr(tmp_path / "in", tmp_path / "out").failures == []
    store = FeatureStore(tmp_path / "out")
    assert store.ids() == store.ids("text") == [f"news/{name}"]
    assert store.has(tag_key(f"news/{name}", "+x"), "tags")


class Bomb:
    def __reduce__(self) -> object:
        return os.system, ("touch bombed",)


BROKEN: dict[str, tuple[object, str]] = {
    "truncated.npy": (b"\x93NUMPY\x01\x00", "unreadable"),
    "empty.npy": (b"", "unreadable"),
    "noise.npy": (b"not numpy at all", "unreadable"),
    "objects.npy": (np.array([{}], dtype=object), "allow_pickle"),
    "integers.npy": (np.ones((2, 4), "i8"), "int64"),
    "nan.npy": (np.full((2, 4), np.nan, "f4"), "not finite"),
    "no_frames.npy": (np.ones((0, 4), "f4"), "empty"),
    "rank1.npy": (np.ones(4, "f4"), "expected"),
    "rank4.npy": (np.ones((1, 1, 1, 4), "f4"), "expected"),
    "wide.npy": (np.ones((2, 5), "f4"), "size 5"),
    "regions.npy": (np.ones((2, 9, 4), "f4"), "9 regions"),
    "bomb_query_dict.pkl": ({"query_prompt": np.ones((1, 4)), "tags": {"x": Bomb()}}, "refused.*system"),
    "list_query_dict.pkl": ([1, 2], "query_prompt"),
    "none_query_dict.pkl": ({"query_prompt": None, "tags": {}}, "query_prompt.*NoneType"),
    "cut_query_dict.pkl": (pickle.dumps(query())[:-9], "not a readable pickle"),
    "untagged_query_dict.pkl": ({"query_prompt": np.ones((1, 4), "f4")}, "'tags'; the prompt was imported"),
    "badtag_query_dict.pkl": (query({"+x": np.full((1, 4), np.inf, "f4")}), "not finite"),
}


def test_broken_files_are_listed_with_their_reason_and_the_rest_is_stored(tmp_path: Path) -> None:
    save(tmp_path / "in/news/a.npy", np.ones((2, 4), "f4"))
    save(tmp_path / "in/news/a_query_dict.pkl", query())
    for name, (content, _) in BROKEN.items():
        save(tmp_path / "in/news" / name, content)
    save(tmp_path / "in/news/deeper/b.npy", np.ones((2, 4), "f4"))
    (tmp_path / "in/news/notes.txt").write_text("ignored")
    for _ in range(2):  # a second run finds the same failures
        report = import_muvr(tmp_path / "in", tmp_path / "out")
        reasons = dict(report.failures)
        assert len(report.failures) == len(BROKEN) + 1
        assert failures_of(tmp_path / "out") == reasons
        for name, (_, reason) in BROKEN.items():
            key = "news/" + name.removesuffix("_query_dict.pkl").removesuffix(".npy")
            key = tag_key("news/badtag", "+x") if key == "news/badtag" else key
            assert re.search(reason, reasons[key])
            assert name in reasons[key]
        assert "nested folder" in reasons[str(tmp_path / "in/news/deeper")]
        assert report.stored == {"video": 1, "text": 3, "tags": 0}
    assert set(FeatureStore(tmp_path / "out").ids("text")) == {"news/a", "news/untagged", "news/badtag"}
    assert not Path("bombed").exists()


def test_a_repaired_file_is_imported_by_the_next_run(tmp_path: Path) -> None:
    save(tmp_path / "in/news/a.npy", np.ones((2, 4), "f4"))
    save(tmp_path / "in/news/b.npy", b"")
    assert len(import_muvr(tmp_path / "in", tmp_path / "out").failures) == 1
    save(tmp_path / "in/news/b.npy", np.ones((3, 4), "f4"))
    assert import_muvr(tmp_path / "in", tmp_path / "out").failures == []
    assert FeatureStore(tmp_path / "out").length("news/b") == 3
    assert failures_of(tmp_path / "out") == {}


def test_wrong_folders_and_options(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        import_muvr(tmp_path / "in", tmp_path / "out")
    save(tmp_path / "in/a.npy", np.ones((2, 4), "f4"))
    with pytest.raises(DataError, match="not in MUVR's layout"):
        import_muvr(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="mean or keep"):
        import_muvr(tmp_path / "in", tmp_path / "out", token_rows="median")
    for name in ("one", "two"):
        save(tmp_path / name / "news/a.npy", np.ones((2, 4), "f4"))
    import_muvr(tmp_path / "one", tmp_path / "out")
    with pytest.raises(DataError, match=r"source: '.*one' there, '.*two' here"):
        import_muvr(tmp_path / "two", tmp_path / "out")


SLOW_IMPORT = """
import sys
from muvr_train.features import import_muvr, writer

add = writer.StoreWriter.add
def add_and_say(self, id, array, stream="video"):
    add(self, id, array, stream)
    self.flush()
    print(id, flush=True)
writer.StoreWriter.add = add_and_say
import_muvr.import_muvr(sys.argv[1], sys.argv[2])
"""


def test_a_killed_import_resumes(tmp_path: Path) -> None:
    for n in range(200):
        save(tmp_path / f"in/news/{n}.npy", np.full((1 + n % 3, 4), n, "f4"))
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT, str(tmp_path / "in"), str(tmp_path / "out")], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    for _ in range(40):
        child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    assert 40 <= len(FeatureStore(tmp_path / "out").ids()) < 200
    assert not (tmp_path / "out/imported.json").exists()
    assert import_muvr(tmp_path / "in", tmp_path / "out").stored["video"] == 200
    store = FeatureStore(tmp_path / "out")
    for n in range(200):
        assert np.array_equal(store.array(f"news/{n}"), np.full((1 + n % 3, 1, 4), n, "f4"))
