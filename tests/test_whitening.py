"""PCA-whitening: decorrelates the training vectors, survives a checkpoint, refuses to work unfitted."""

from __future__ import annotations

import logging

import pytest
import torch

from muvr_train.errors import DataError
from muvr_train.models.frame_max import FrameMax
from muvr_train.types import Tokens
from muvr_train.whitening import Whitening


def data(count: int = 4000, dim: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(dim, dim, generator=generator)
    return torch.randn(count, dim, generator=generator) @ mixing + torch.arange(dim)


def test_training_vectors_become_uncorrelated_with_unit_variance():
    x = data()
    layer = Whitening(6, regularization=0.0)
    layer.fit(x.split(700))
    white = (x.double() - x.double().mean(0)) @ layer.projection.double()
    torch.testing.assert_close(white.T @ white / len(x), torch.eye(6).double(), atol=1e-4, rtol=0)
    torch.testing.assert_close(layer(x).norm(dim=-1), torch.ones(len(x)))


def test_stream_equals_one_batch_and_is_deterministic():
    x = data()
    whole, streamed = Whitening(6, 4), Whitening(6, 4)
    whole.fit([x])
    streamed.fit(iter(x.split(11)))
    torch.testing.assert_close(streamed.projection, whole.projection, atol=1e-6, rtol=1e-6)
    vectors = whole.projection / whole.projection.norm(dim=0)
    assert (vectors.gather(0, vectors.abs().argmax(0)[None]) > 0).all()


def test_leading_components_carry_most_variance():
    x = torch.randn(5000, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 9.0, 3.0])
    layer = Whitening(3, 2)
    layer.fit([x])
    assert layer.projection.abs().argmax(0).tolist() == [1, 2]


def test_dead_directions_are_dropped_and_weak_ones_damped():
    x = data(500)
    x[:, 5] = 7.0
    x[:, 4] = x[:, 4] * 1e-6
    layer = Whitening(6)
    layer.fit([x])
    assert torch.isfinite(layer.projection).all()
    assert float(layer.projection[:, 5].abs().max()) < 1e-3
    gains = layer.projection.norm(dim=0)
    mean_variance = float(x.double().var(0, unbiased=False).mean())
    assert float(gains.max()) <= (1e-3 * mean_variance) ** -0.5 * 1.001


def test_unfitted_is_refused_and_checkpoint_restores(tmp_path):
    layer = Whitening(6, 4)
    with pytest.raises(DataError, match="not been fitted"):
        layer(data(3))
    layer.fit([data()])
    torch.save(layer.state_dict(), tmp_path / "w.pt")
    fresh = Whitening(6, 4)
    fresh.load_state_dict(torch.load(tmp_path / "w.pt", weights_only=True), strict=True)
    assert torch.equal(fresh(data(5)), layer(data(5)))


def test_masked_frames_do_not_count():
    x = torch.randn(4, 5, 2, 8)
    mask = torch.tensor([[True] * 5, [True, False, True, False, False], [True] * 3 + [False] * 2, [False] * 5])
    spoiled = torch.where(mask[:, :, None, None], x, torch.full_like(x, 1e6))
    network, clean = FrameMax(8, 2, whiten=3), Whitening(8, 3)
    assert network.needs_fit
    network.fit(iter([Tokens(spoiled[:2], mask[:2]), Tokens(spoiled[2:], mask[2:])]))
    assert not network.needs_fit
    clean.fit([torch.nn.functional.normalize(x[mask], dim=-1).flatten(0, 1)])
    torch.testing.assert_close(network.whitening.projection, clean.projection, atol=1e-5, rtol=1e-5)
    index = network.index(Tokens(spoiled, mask))
    assert index.x.shape[-1] == network.index_dim == 3
    assert (index.x[~mask] == 0).all()


def test_components_are_clipped_to_the_size_of_the_store():
    assert FrameMax(8, whiten=512).index_dim == 8
    assert FrameMax(8, whiten=True).index_dim == 8
    assert FrameMax(8).whitening is None
    assert FrameMax(8).needs_fit is False


def test_bad_training_data(caplog):
    with pytest.raises(DataError, match="at least 2"):
        Whitening(3).fit([])
    with pytest.raises(DataError, match="not finite"):
        Whitening(3).fit([torch.tensor([[1.0, float("nan"), 0.0]] * 3)])
    with caplog.at_level(logging.WARNING):
        Whitening(6).fit([data(4)])
    assert "4 vectors for 6 components" in caplog.text
