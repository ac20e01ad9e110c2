"""Feature-space edits: what each does to frames that carry their own number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.data import augment
from muvr_train.data.augment import FeatureAugment
from muvr_train.errors import ConfigError

NAMES = (
    "temporal_crop",
    "shuffle_dropout",
    "fast_forward",
    "slow_motion",
    "reverse",
    "pause",
    "frame_mixing",
    "foreign_intro",
    "noise",
    "feature_dropout",
)


def numbered(frames: int) -> torch.Tensor:
    """Frame i holds the value i + 1 everywhere."""
    return torch.arange(1.0, frames + 1)[:, None, None].expand(frames, 2, 4).clone()


def values(x: torch.Tensor) -> list[float]:
    return x[:, 0, 0].tolist()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def donor(chance: np.random.Generator) -> torch.Tensor:
    del chance
    return torch.full((5, 2, 4), 100.0)


def test_temporal_edits() -> None:
    assert values(augment.reverse(numbered(4), rng())) == [4, 3, 2, 1]
    assert values(augment.fast_forward(numbered(5), rng(0))) in ([1, 3, 5], [2, 4])
    for seed in range(20):
        crop = values(augment.temporal_crop(numbered(7), rng(seed)))
        assert 4 <= len(crop) <= 7
        assert crop == [crop[0] + i for i in range(len(crop))]
        slow = values(augment.slow_motion(numbered(5), rng(seed)))
        assert len(slow) == 5
        assert slow[0] == slow[1]
        assert slow[2] == slow[3] == slow[0] + 1
        paused = values(augment.pause(numbered(6), rng(seed)))
        assert len(paused) == 6
        assert all(b - a in (0, 1) for a, b in itertools.pairwise(paused))
        shuffled = values(augment.shuffle_dropout(numbered(8), rng(seed)))
        assert set(shuffled) <= set(range(1, 9))
        assert len(shuffled) == len(set(shuffled)) >= 2


def test_mixing_keeps_most_of_the_video() -> None:
    mixed = augment.frame_mixing(numbered(3), rng(1), donor(rng()))
    assert torch.allclose(mixed, numbered(3))  # a parallel donor is scaled to the video's own norm
    orthogonal = torch.zeros(3, 1, 2)
    orthogonal[..., 0] = 2.0
    other = torch.zeros(4, 1, 2)
    other[..., 1] = 50.0
    blended = augment.frame_mixing(orthogonal, rng(1), other)
    assert ((blended[..., 1] / 2 >= 0.1) & (blended[..., 1] / 2 <= 0.4)).all()
    assert torch.allclose(blended.sum(-1), torch.tensor(2.0))


def test_an_intro_comes_first_and_the_video_stays() -> None:
    for seed in range(10):
        seen = values(augment.foreign_intro(numbered(6), rng(seed), donor(rng())))
        intro = seen.count(100.0)
        assert 2 <= intro <= 4
        assert seen == [100.0] * intro + [float(i) for i in range(1, 7 - intro)]
    assert values(augment.foreign_intro(numbered(1), rng(), donor(rng())))[-1] == 1.0


def test_noise_has_the_strength_it_says() -> None:
    x = torch.ones(200, 2, 64)
    assert (augment.noise(x, rng(), 0.1) - x).std().item() == pytest.approx(0.1, rel=0.05)
    dropped = augment.feature_dropout(x, rng())
    assert set(dropped.unique().tolist()) == {0.0, 1.0}
    assert (dropped.sum(dim=(0, 1)) % 400 == 0).all()


@given(frames=st.integers(1, 12), seed=st.integers(0, 1000))
def test_any_mixture_of_edits_gives_frames_that_are_finite(frames: int, seed: int) -> None:
    everything = FeatureAugment(**dict.fromkeys(NAMES, 0.5), max_frames=8)
    result = everything(numbered(frames), rng(seed), donor)
    assert 1 <= len(result) <= 8
    assert result.shape[1:] == (2, 4)
    assert result.isfinite().all()
    assert torch.equal(result, everything(numbered(frames), rng(seed), donor))


def test_nothing_asked_for_changes_nothing() -> None:
    x = numbered(5)
    assert FeatureAugment()(x, rng(), donor) is x


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_probabilities_are_checked(value: float) -> None:
    with pytest.raises(ConfigError, match=r"data\.augment\.reverse is a probability"):
        FeatureAugment(reverse=value)
