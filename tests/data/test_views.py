"""A batch of views is read by one gather; a plain loop over frames gives the same, from wherever features reside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.data import augment
from muvr_train.data.augment import FeatureAugment, View
from muvr_train.data.views import load_views, plan_views
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.types import Tokens

IDS = [f"é/{n}" for n in range(12)]
EDITS = FeatureAugment(**dict.fromkeys(augment.EDITS, 0.5), max_frames=9)


def write(path: Path, dtypes: Sequence[str] = ("float16",), shard_mib: float = 256, frames: int | None = None) -> Path:
    """Videos of 1 to 12 frames (or `frames`), every third with two stored views."""
    rng = np.random.default_rng(0)
    with StoreWriter(path, {"encoder": "random numbers"}, shard_mib=shard_mib) as writer:
        for number, video in enumerate(IDS):
            for stream in ("video", "view1", "view2")[: 3 if number % 3 == 0 else 1]:
                array = rng.standard_normal((frames or 1 + number, 2, 8)).astype(dtypes[number % len(dtypes)])
                writer.add(video, array, stream)
    return path


def planned(store: FeatureStore, seed: int, edits: FeatureAugment = EDITS) -> list[View]:
    chances = [np.random.default_rng([seed, row]) for row in range(len(IDS))]
    views = plan_views(store, IDS, edits, IDS, chances)
    return [augment.share_piece(view, [(("video", IDS[3]), np.arange(2))], 0.3) for view in views]


def slowly(store: FeatureStore, views: Sequence[View]) -> Tokens:
    """Frame by frame, video by video."""
    loaded = []
    for view in views:
        clips = [torch.from_numpy(store.array(name, stream).astype(np.float32)) for stream, name in view.clips]
        x = torch.stack([clips[clip][frame] for clip, frame in zip(view.clip, view.frame, strict=True)])
        view.change(x, None if view.mixed is None else clips[1][torch.from_numpy(view.mixed)])
        loaded.append(x)
    return Tokens.pack(loaded)


@pytest.mark.parametrize("residency", ["mmap", "ram", "gpu"])
@pytest.mark.parametrize("shard_mib", [256, 0.0005], ids=["one shard", "many shards"])
@pytest.mark.parametrize("dtypes", [("float16",), ("float32",), ("float16", "float32")], ids=str)
def test_a_gather_is_what_a_loop_reads(tmp_path: Path, dtypes: tuple[str], shard_mib: float, residency: str) -> None:
    path = write(tmp_path / "store", dtypes, shard_mib)
    store, plain = FeatureStore(path, residency), FeatureStore(path)
    assert (len(list(path.glob("video-*.safetensors"))) > 2) == (shard_mib < 1)
    for seed in range(5):
        batch, expected = load_views(store, planned(store, seed)), slowly(plain, planned(plain, seed))
        assert torch.equal(batch.mask, expected.mask)
        assert torch.equal(batch.x, expected.x)


@pytest.mark.parametrize("shard_mib", [256, 0.0005], ids=["one shard", "many shards"])
def test_videos_of_one_length(tmp_path: Path, shard_mib: float) -> None:
    store = FeatureStore(write(tmp_path / "store", shard_mib=shard_mib, frames=5))
    views = planned(store, 0, FeatureAugment(reverse=0.5))
    assert torch.equal(load_views(store, views).x, slowly(store, views).x)
    assert torch.equal(store.tokens(IDS[::-1]).x, torch.stack(store.tensors(IDS[::-1])))


def test_what_is_done_to_a_batch_does_not_reach_the_next(tmp_path: Path) -> None:
    for residency in ("mmap", "ram"):
        store = FeatureStore(write(tmp_path / residency), residency)
        first = load_views(store, planned(store, 1))
        kept = first.x.clone()
        load_views(store, planned(store, 2)).x.zero_()
        assert torch.equal(first.x, kept)
        first.x.zero_()
        assert torch.equal(load_views(store, planned(store, 1)).x, kept)


def test_no_views_are_an_empty_batch(tmp_path: Path) -> None:
    assert load_views(FeatureStore(write(tmp_path / "store")), []).x.shape == (0, 1, 2, 8)


def test_what_cannot_be_gathered_is_said(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", {"encoder": "x"}) as writer:
        writer.add("a", np.ones((2, 1, 4), np.float32))
        writer.add("a", np.ones((2, 3, 4), np.float32), "view1")
    store = FeatureStore(tmp_path / "store")
    one, zero = np.array([[0, 1]]), np.array([[0, 0]])
    with pytest.raises(DataError, match=r"streams video, view1 differ in regions and feature size"):
        store.gather([("video", "a"), ("view1", "a")], one, zero)
    with pytest.raises(DataError, match=r"1 of 1 ids.*'video'.*b"):
        store.gather([("video", "b")], zero, zero)
    for beyond in (-1, 2):
        with pytest.raises(IndexError, match="beyond"):
            store.gather([("video", "a")], zero, np.array([[0, beyond]]))
    tokens = store.gather([("video", "a")], np.array([[0, -1], [-1, -1]]), np.array([[1, 7], [0, 0]]))
    assert tokens.mask.tolist() == [[True, False], [False, False]]
    assert tokens.x.sum().item() == 4
