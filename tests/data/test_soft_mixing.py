"""Soft mixing: views of two videos, and how much they match the other views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.data.augment import FeatureAugment, View
from muvr_train.data.dataset import SelfSupervisedBatches
from muvr_train.data.soft_mixing import LEAST, SoftMixing
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.processes import SINGLE, Group
from muvr_train.types import Tokens

QUARTER = np.float32(0.25)


def test_shares_in_common_by_hand() -> None:
    """Strong views: of a whole, of b with 0.75 (and 0.25 of c), of c with 0.5 (and 0.5 of b)."""
    mixing = SoftMixing(np.array([0, 2, 1]), np.array([1.0, 0.75, 0.5], dtype=np.float32))
    expected = [
        [1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 0.75, 0.5],
        [0, 0, 1, 0, 0.25, 0.5],
        [1, 0, 0, 1, 0, 0],
        [0, 0.75, 0.25, 0, 1, 0.75],
        [0, 0.5, 0.5, 0, 0.75, 1],
    ]
    found = mixing.relevance()
    assert found.dtype == np.float32
    assert found.tolist() == expected


def slow(mixing: SoftMixing) -> np.ndarray:
    pairs = len(mixing.share)
    contents = [{i: 1.0} for i in range(pairs)]
    for i in range(pairs):
        content = {i: float(mixing.share[i])}
        partner = int(mixing.partner[i])
        content[partner] = content.get(partner, 0.0) + 1 - float(mixing.share[i])
        contents.append(content)
    return np.array([[sum(min(a[v], b.get(v, 0.0)) for v in a) for b in contents] for a in contents])


@given(pairs=st.integers(1, 7), chance=st.floats(0, 1), seed=st.integers(0, 100))
def test_any_draw_is_symmetric_and_equals_its_slow_twin(pairs: int, chance: float, seed: int) -> None:
    mixing = SoftMixing.draw(pairs, chance, np.random.default_rng(seed))
    found = mixing.relevance()
    assert np.array_equal(found, found.T)
    assert np.allclose(found, slow(mixing), atol=1e-6)
    assert found.max() <= 1
    mixed = mixing.share != 1
    assert ((mixing.share >= LEAST) & (mixing.share <= 1)).all()
    assert (mixing.partner[mixed] != np.arange(pairs)[mixed]).all()
    if pairs == 1 or chance == 0:
        assert np.array_equal(found, np.tile(np.eye(pairs), (2, 2)))


def test_a_share_of_one_changes_nothing_and_of_zero_is_the_other_video() -> None:
    ids, view = ["a", "b"], View((("video", "a"),), np.zeros(3, int), np.arange(3), np.random.default_rng(0))
    whole = SoftMixing(np.array([1, 0]), np.array([1.0, 1.0], dtype=np.float32))
    assert whole.mix(view, 0, ids, lambda _: 5) is view
    other = SoftMixing(np.array([1, 0]), np.array([0.0, 1.0], dtype=np.float32)).mix(view, 0, ids, lambda _: 2)
    x, donor = torch.full((3, 1, 2), 2.0), torch.tensor([3.0, -4.0]).expand(3, 1, 2)
    other.change(x, donor)
    assert torch.allclose(x, donor / 5 * 8**0.5)  # at the own video's norm
    assert other.clips[other.donor] == ("video", "b")
    assert other.mixed is not None
    assert set(other.mixed.tolist()) <= {0, 1}  # goes round a shorter video
    assert whole.mix(view, -1, ids, lambda _: 5) is view


def test_intros_stay_as_they_are() -> None:
    view = View((("video", "a"),), np.zeros(3, int), np.arange(3), np.random.default_rng(0))
    view = view.after(("cards", "x"), np.arange(2))
    mixed = SoftMixing(np.array([1, 0]), np.full(2, QUARTER)).mix(view, 0, ["a", "b"], lambda _: 9)
    x = torch.ones(5, 1, 2)
    mixed.change(x, torch.tensor([1.0, 0.0]).expand(5, 1, 2))
    assert torch.equal(x[:2], torch.ones(2, 1, 2))
    assert torch.allclose(x[2:, 0, 1], torch.tensor(0.25))
    assert torch.allclose(x[2:, 0, 0], torch.tensor(0.25 + 0.75 * 2**0.5))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    path: Path = tmp_path_factory.mktemp("store") / "toy"
    rng = np.random.default_rng(0)
    with StoreWriter(path, {"encoder": "random numbers"}, dtype="float32") as writer:
        for number in range(8):
            writer.add(f"v{number}", rng.standard_normal((2 + number, 2, 8), dtype=np.float32))
    return FeatureStore(path)


def batches(store: FeatureStore, chance: float, group: Group = SINGLE, **edits: float) -> SelfSupervisedBatches:
    return SelfSupervisedBatches(
        store, store.ids(), 5, FeatureAugment(), FeatureAugment(**edits), 3, 0.4, group, soft_mixing=chance
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_several_processes_make_the_same_batch(store: FeatureStore, size: int) -> None:
    edits = {"temporal_crop": 0.5, "foreign_intro": 0.5, "frame_mixing": 0.5, "noise": 0.5}
    for n in range(4):
        whole = batches(store, 0.7, **edits)[n]
        shares = [batches(store, 0.7, Group(rank, size), **edits)[n] for rank in range(size)]
        joined = Tokens.cat([share.database for share in shares])
        assert torch.equal(joined.x, whole.database.x)
        assert torch.equal(joined.mask, whole.database.mask)
        assert all(torch.equal(share.relevance, whole.relevance) for share in shares)


def test_labels_say_what_the_views_show(store: FeatureStore) -> None:
    batch, plain = batches(store, 1.0)[0], batches(store, 0.0)[0]
    assert torch.equal(batch.relevance.diagonal(), torch.full((10,), -1.0))
    partial = (batch.relevance > 0) & (batch.relevance < 1)
    assert int(partial[5:, :5].sum()) == 10  # each strong view matches two weak ones partly
    assert torch.allclose(batch.relevance[5:, :5].sum(dim=1), torch.ones(5))
    assert torch.equal(batch.relevance[:5, :5], plain.relevance[:5, :5])
    assert torch.equal(batch.database.x[:5], plain.database.x[:5])
    assert not torch.equal(batch.database.x[5:], plain.database.x[5:])
    assert set(plain.relevance.unique().tolist()) == {-1.0, 0.0, 1.0}
