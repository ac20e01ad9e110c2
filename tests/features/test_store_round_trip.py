"""What is written is read back: every dtype, weird ids, ragged lengths, every residency."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.types import StoreDims, TextTokens, Tokens

ODD_IDS = ["..", "a/../b", "\n", "", "/etc", "é\u0301", "\udcff"]
MANIFEST = make_manifest("test encoder", preprocessing={"size": 32}, sampling={"frames": 15})


def ragged(count: int, regions: int = 2, dim: int = 4, dtype: str = "float32", seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(1 + (5 * n) % 7, regions, dim) for n in range(count)]
    return {f"news/{n}": rng.standard_normal(shape).astype(dtype) for n, shape in enumerate(shapes)}


def write(path: Path, content: dict[str, np.ndarray], stream: str = "video", **options: object) -> Path:
    with StoreWriter(path, MANIFEST, **options) as writer:
        for key, array in content.items():
            writer.add(key, array, stream)
    return path


@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(
        st.text(max_size=12) | st.sampled_from(["..", "a/../b", "\n", "", "/etc", "é\u0301", "\udcff"]), unique=True
    ),
    lengths=st.lists(st.integers(1, 5), min_size=1),
    dtype=st.sampled_from(["float16", "float32", "bfloat16"]),
    shard_rows=st.integers(1, 20),
    seed=st.integers(0, 2**31),
)
def test_any_ids_and_lengths_come_back_unchanged(
    ids: list[str], lengths: list[int], dtype: str, shard_rows: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    arrays = {
        key: torch.randn(lengths[n % len(lengths)], 2, 3, generator=generator).to(getattr(torch, dtype))
        for n, key in enumerate(ids)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with StoreWriter(path, MANIFEST, shard_mib=shard_rows * 12 / 2**20) as writer:
            for key, array in arrays.items():
                writer.add(key, array)
        assert {entry.parent for entry in path.rglob("*")} <= {path}  # no id became a path
        if not ids:
            with pytest.raises(DataError, match="empty"):
                FeatureStore(path)
            return
        store = FeatureStore(path)
        assert store.ids() == ids
        for key in ids:
            assert np.array_equal(store.array(key).astype("f4"), arrays[key].float().numpy())
            assert store.length(key) == len(arrays[key])
        order = ids[::-1] + ids[:1]
        batch = store.tokens(order)
        expected = Tokens.pack([arrays[key].float() for key in order])
        assert torch.equal(batch.x, expected.x)
        assert torch.equal(batch.mask, expected.mask)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_array_is_a_read_only_view_of_the_map_in_the_stored_dtype(tmp_path: Path, dtype: str) -> None:
    content = ragged(6, dtype=dtype)
    store = FeatureStore(write(tmp_path / "s", content))
    array = store.array("news/3")
    assert array.dtype == dtype
    assert np.array_equal(array, content["news/3"])
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_bfloat16_is_stored_in_two_bytes_and_read_as_equal_float32(tmp_path: Path) -> None:
    values = torch.tensor([1.0, 3.0e38, -1.17549435e-38, 0.0078125]).bfloat16().view(2, 1, 2)
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        writer.add("a", values)
    (shard,) = tmp_path.glob("s/*.safetensors")
    assert torch.equal(load_file(shard)["tokens"], values)
    store = FeatureStore(tmp_path / "s")
    assert store.array("a").dtype == np.float32
    assert torch.equal(torch.from_numpy(store.array("a")), values.float())


def test_writer_converts_to_the_dtype_asked_for_and_refuses_what_overflows(tmp_path: Path) -> None:
    array = np.array([[[1.0, 1 / 3]]], dtype=np.float64)
    with StoreWriter(tmp_path / "s", MANIFEST, dtype="float16") as writer:
        writer.add("a", array)
        with pytest.raises(DataError, match=r"'big'.*beyond the range of float16"):
            writer.add("big", array * 70_000)
    assert FeatureStore(tmp_path / "s").array("a").tolist() == [[[1.0, float(np.float16(1 / 3))]]]


def test_mixed_dtypes_in_one_stream_keep_their_values(tmp_path: Path) -> None:
    halves, singles = ragged(4, dtype="float16"), ragged(8, seed=1)
    content = {**singles, **halves}  # news/0..3 are float16
    path = write(tmp_path / "s", content)
    for residency in ("mmap", "ram", "gpu"):
        store = FeatureStore(path, residency)
        batch = store.tokens(list(content))
        expected = Tokens.pack([torch.from_numpy(array).float() for array in content.values()])
        assert torch.equal(batch.x, expected.x)
    assert FeatureStore(path).array("news/0").dtype == np.float16
    assert FeatureStore(path).array("news/7").dtype == np.float32


@pytest.mark.parametrize("shard_mib", [256, 0.0005])
def test_every_residency_gives_the_same(tmp_path: Path, shard_mib: float) -> None:
    content = ragged(30, dtype="float16")
    path = write(tmp_path / "s", content, shard_mib=shard_mib)
    order = [*list(content)[::-3], "news/4", "news/4"]
    plain = FeatureStore(path)
    assert (len(list(path.glob("*.safetensors"))) > 1) == (shard_mib < 1)
    for residency in ("ram", "gpu"):
        other = FeatureStore(path, residency, device="cpu")
        for one, two in zip(plain.tensors(order), other.tensors(order), strict=True):
            assert one.dtype == two.dtype == torch.float32
            assert torch.equal(one, two)
        assert torch.equal(plain.tokens(order).x, other.tokens(order).x)
        assert torch.equal(plain.tokens(order).mask, other.tokens(order).mask)
        assert np.array_equal(plain.array("news/5"), other.array("news/5"))


@pytest.mark.parametrize("residency", ["mmap", "ram", "gpu"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_a_caller_does_to_a_batch_does_not_reach_the_store(tmp_path: Path, residency: str, dtype: str) -> None:
    content = {key: array[:1] for key, array in ragged(6, dtype=dtype).items()}  # equal lengths: no padding
    store = FeatureStore(write(tmp_path / "s", content), residency)
    kept = store.tokens(["news/1", "news/2"]).x.clone()
    first = store.tokens(["news/1", "news/2"]).x
    store.tokens(["news/4", "news/5"])  # reads through the same buffers
    assert torch.equal(first, kept)
    first.zero_()
    for tensor in store.tensors(["news/1", "news/2"]):
        tensor.zero_()
    assert torch.equal(store.tokens(["news/1", "news/2"]).x, kept)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_batches_of_equal_lengths_and_batches_that_only_look_so(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    even = {f"e{n}": rng.standard_normal((3, 2, 4)).astype(dtype) for n in range(9)}
    odd = {f"o{n}": rng.standard_normal((1 + n % 3, 2, 4)).astype(dtype) for n in range(9)}
    for content in (even, odd, {**even, **odd}):
        store = FeatureStore(write(tmp_path / "-".join(content), content, shard_mib=0.0002))
        for order in (list(content)[::-2], [key for key in content if len(content[key]) == 3][::-1]):
            expected = Tokens.pack([torch.from_numpy(content[key]).float() for key in order])
            assert torch.equal(store.tokens(order).x, expected.x)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_empty_batch_keeps_the_shape(tmp_path: Path, dtype: str) -> None:
    path = write(tmp_path / "s", ragged(3, dtype=dtype))
    for residency in ("mmap", "ram", "gpu"):
        store = FeatureStore(path, residency)
        assert store.tokens([]).x.shape == (0, 1, 2, 4)
        assert store.tensors([]) == []


def test_streams_dims_texts_and_views(tmp_path: Path) -> None:
    text = {"news/0": np.ones((3, 1, 5), "f4"), "news/1": np.full((1, 1, 5), 2, "f4")}
    with StoreWriter(tmp_path / "s", MANIFEST) as writer:
        for stream in ("video", "view1", "view10", "view2"):
            writer.add("news/0", np.ones((2, 1, 4), "f2"), stream)
        writer.add("news/1", np.ones((2, 1, 4), "f2"))
        writer.add("news/1", np.ones((2, 1, 4), "f2"), "view2")
        writer.add("news/0", np.ones((2, 9, 6), "f2"), "fine")
        writer.add(tag_key("news/0", "a, b"), np.ones((1, 1, 5), "f4"), "tags")
        for key, array in text.items():
            writer.add(key, array, "text")
    store = FeatureStore(tmp_path / "s")
    assert set(store.streams) == {"video", "view1", "view2", "view10", "fine", "text", "tags"}
    assert store.dims == StoreDims(regions=1, dim=4, text_dim=5, fine_regions=9, fine_dim=6)
    assert store.views("news/0") == ["view1", "view2", "view10"]
    assert store.views("news/1") == ["view2"]
    assert store.has(tag_key("news/0", "a, b"), "tags")
    assert not store.has("news/0", "view3")
    assert store.ids("view3") == []
    texts = store.texts(["news/1", "news/0"])
    assert isinstance(texts, TextTokens)
    assert texts.x.shape == (2, 3, 5)
    assert texts.mask.tolist() == [[True, False, False], [True, True, True]]
    assert texts.x[0].tolist() == [[2.0] * 5, [0.0] * 5, [0.0] * 5]


def test_dims_without_text_and_without_video(tmp_path: Path) -> None:
    assert FeatureStore(write(tmp_path / "v", ragged(1))).dims == StoreDims(regions=2, dim=4)
    with pytest.raises(DataError, match=r"no stream 'video'.*text"):
        _ = FeatureStore(write(tmp_path / "t", ragged(1), "text")).dims


def test_missing_ids_and_streams_are_named(tmp_path: Path) -> None:
    store = FeatureStore(write(tmp_path / "s", ragged(3)))
    with pytest.raises(DataError, match=r"2 of 3 ids.*'video'.*dance/x, dance/y"):
        store.tokens(["news/1", "dance/x", "dance/y"])
    with pytest.raises(DataError, match="dance/x"):
        store.array("dance/x")
    with pytest.raises(DataError, match=r"no stream 'text'.*video"):
        store.texts(["news/1"])
    with pytest.raises(ConfigError, match="mmap, ram, gpu"):
        FeatureStore(store.path, "disk")


def test_tag_keys_are_unambiguous() -> None:
    keys = {
        tag_key(*pair) for pair in [("a", "b"), ("a/b", ""), ("", "a/b"), ('a", "b', ""), ("a\n", "b"), ("a", "\nb")]
    }
    assert len(keys) == 6


def test_a_shard_is_a_plain_safetensors_file_and_the_manifest_says_how_it_was_made(tmp_path: Path) -> None:
    content = ragged(3, dtype="float16")
    path = write(tmp_path / "s", content)
    tensors = load_file(path / "video-00000.safetensors")
    assert tensors["offsets"].tolist() == [0, 1, 7, 11]
    assert torch.equal(tensors["tokens"], torch.from_numpy(np.concatenate(list(content.values()))))
    manifest = json.loads((path / "manifest.json").read_text())
    assert {key: manifest[key] for key in MANIFEST} == MANIFEST
    assert manifest["streams"] == {"video": {"regions": 2, "dim": 4, "dtypes": ["float16"]}}
    assert manifest["created_by"].startswith("muvr-train")
    assert FeatureStore(path).manifest == manifest


def test_a_store_is_pickled_by_its_place(tmp_path: Path) -> None:
    store = FeatureStore(write(tmp_path / "s", ragged(40)), "ram")
    store.tokens(store.ids())
    assert len(pickle.dumps(store)) < 500
    again = pickle.loads(pickle.dumps(store))
    assert again.residency == "ram"
    assert torch.equal(again.tokens(["news/7"]).x, store.tokens(["news/7"]).x)
