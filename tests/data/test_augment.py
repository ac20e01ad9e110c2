"""Feature-space edits: what each does to frames that carry their own number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.data import augment
from muvr_train.data.augment import Clip, FeatureAugment, View
from muvr_train.errors import ConfigError

OWN, OTHER = ("video", "own"), ("video", "other")


def numbered(frames: int) -> torch.Tensor:
    """Frame i holds the value i + 1 everywhere."""
    return torch.arange(1.0, frames + 1)[:, None, None].expand(frames, 2, 4).clone()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def donor(chance: np.random.Generator) -> tuple[Clip, int]:
    del chance
    return OTHER, 5


def plain(frames: int) -> View:
    return View((OWN,), np.zeros(frames, dtype=np.int64), np.arange(frames), rng())


def shown(view: View) -> list[tuple[str, int]]:
    """Id and frame number of every frame."""
    return [(view.clips[clip][1], int(frame)) for clip, frame in zip(view.clip, view.frame, strict=True)]


def test_temporal_edits() -> None:
    assert augment.reverse(np.arange(4), rng()).tolist() == [3, 2, 1, 0]
    assert augment.fast_forward(np.arange(5), rng(0)).tolist() in ([0, 2, 4], [1, 3])
    for seed in range(20):
        crop = augment.temporal_crop(np.arange(7), rng(seed)).tolist()
        assert 4 <= len(crop) <= 7
        assert crop == [crop[0] + i for i in range(len(crop))]
        slow = augment.slow_motion(np.arange(5), rng(seed)).tolist()
        assert len(slow) == 5
        assert slow[0] == slow[1]
        assert slow[2] == slow[3] == slow[0] + 1
        paused = augment.pause(np.arange(6), rng(seed)).tolist()
        assert len(paused) == 6
        assert all(b - a in (0, 1) for a, b in itertools.pairwise(paused))
        assert len(set(paused)) < 6 or paused[-1] == 5
        shuffled = augment.shuffle_dropout(np.arange(8), rng(seed)).tolist()
        assert set(shuffled) <= set(range(8))
        assert len(shuffled) == len(set(shuffled)) >= 2


@pytest.mark.parametrize(
    "edit", ["temporal_crop", "shuffle_dropout", "fast_forward", "slow_motion", "reverse", "pause"]
)
def test_one_frame_stays_one_frame(edit: str) -> None:
    for seed in range(10):
        assert getattr(augment, edit)(np.array([7]), rng(seed)).tolist() == [7]


def test_mixing_keeps_most_of_the_video() -> None:
    mixed = augment.frame_mixing(numbered(3), rng(1), torch.full((3, 2, 4), 100.0))
    assert torch.allclose(mixed, numbered(3))  # a parallel donor is scaled to the video's own norm
    orthogonal = torch.zeros(3, 1, 2)
    orthogonal[..., 0] = 2.0
    other = torch.zeros(3, 1, 2)
    other[..., 1] = 50.0
    blended = augment.frame_mixing(orthogonal, rng(1), other)
    assert ((blended[..., 1] / 2 >= 0.1) & (blended[..., 1] / 2 <= 0.4)).all()
    assert torch.allclose(blended.sum(-1), torch.tensor(2.0))


def test_an_intro_comes_first_and_the_video_stays() -> None:
    for seed in range(10):
        seen = shown(augment.foreign_intro(plain(6), rng(seed), OTHER, 5))
        intro = [frame for name, frame in seen if name == "other"]
        assert 2 <= len(intro) <= 4
        assert intro == [intro[0] + i for i in range(len(intro))]
        assert max(intro) < 5
        assert seen == [("other", frame) for frame in intro] + [("own", i) for i in range(6 - len(intro))]
    assert shown(augment.foreign_intro(plain(1), rng(), OTHER, 5))[-1] == ("own", 0)


def test_mixing_reaches_the_own_frames_only_and_goes_round_a_short_video() -> None:
    both = FeatureAugment(frame_mixing=1.0, foreign_intro=1.0)(OWN, 9, rng(), donor)
    own = both.clip == 0
    assert both.clips == (OWN, OTHER, OTHER)
    assert both.mixed is not None
    assert both.mixed[own].tolist() == [i % 5 for i in range(int(own.sum()))]
    x, other = torch.ones(9, 1, 2), torch.ones(9, 1, 2) * torch.tensor([1.0, 0.0])
    both.change(x, other)
    assert torch.equal(x[~torch.from_numpy(own)], torch.ones(9 - int(own.sum()), 1, 2))
    assert (x[torch.from_numpy(own)][..., 1] < 0.95).all()


def test_a_shared_piece_keeps_its_values() -> None:
    piece = ("cards", "card"), np.arange(3)
    noisy = FeatureAugment(noise=1.0)(OWN, 4, rng(), donor)
    assert augment.share_piece(noisy, [piece], 0.0) is noisy
    behind = augment.share_piece(noisy, [piece], 1.0)
    assert shown(behind) == [("card", 0), ("card", 1), ("card", 2), *(("own", i) for i in range(4))]
    x = numbered(7)
    behind.change(x, None)
    assert torch.equal(x[:3], numbered(3))
    assert not (x[3:] == numbered(7)[3:]).any()


@given(frames=st.integers(1, 40), card=st.integers(1, 60), most=st.integers(1, 20), seed=st.integers(0, 1000))
def test_no_view_is_longer_than_asked_or_without_its_own_video(frames: int, card: int, most: int, seed: int) -> None:
    """Whatever intros and title cards stand in front."""
    everything = FeatureAugment(**dict.fromkeys(augment.EDITS, 0.5) | {"foreign_intro": 1.0}, max_frames=most)
    view = everything(OWN, frames, rng(seed), donor)
    assert len(view) <= most
    assert "own" in {name for name, _ in shown(view)}
    behind = augment.share_piece(view, [(("cards", "card"), np.arange(card))], 1.0, most)
    seen = shown(behind)
    length = min(card, most // 2)
    assert seen[:length] == [("card", frame) for frame in range(length)], "what others show too, from its beginning"
    assert behind.lead == length
    rest = seen[length:]
    assert "own" in {name for name, _ in rest}
    assert len(seen) == min(most, length + len(view))
    assert any(rest == shown(view)[start : start + len(rest)] for start in range(len(view)))
    x = torch.ones(len(behind), 2, 4)
    behind.change(x, None if behind.mixed is None else torch.full_like(x, 3.0))
    assert torch.equal(x[:length], torch.ones(length, 2, 4))


def test_a_piece_that_fits_changes_nothing_else() -> None:
    piece = ("cards", "card"), np.arange(3)
    for most in (None, 8, 7):
        view = FeatureAugment(noise=1.0)(OWN, 4, rng(), donor)
        behind = augment.share_piece(view, [piece], 1.0, most)
        assert shown(behind)[3:] == [("own", i) for i in range(4)]
        x = numbered(7)
        behind.change(x, None)
        if most is None:
            expected = x
        assert torch.equal(x, expected)


def test_noise_has_the_strength_it_says() -> None:
    x = torch.ones(200, 2, 64)
    assert (augment.noise(x, rng(), 0.1) - x).std().item() == pytest.approx(0.1, rel=0.05)
    dropped = augment.feature_dropout(x, rng())
    assert set(dropped.unique().tolist()) == {0.0, 1.0}
    assert (dropped.sum(dim=(0, 1)) % 400 == 0).all()


@given(frames=st.integers(1, 12), seed=st.integers(0, 1000))
def test_any_mixture_of_edits_stays_within_its_videos(frames: int, seed: int) -> None:
    everything = FeatureAugment(**dict.fromkeys(augment.EDITS, 0.5), max_frames=8)
    view, again = (everything(OWN, frames, rng(seed), donor) for _ in range(2))
    assert shown(view) == shown(again)
    assert 1 <= len(view) <= 8
    assert all(0 <= frame < {"own": frames, "other": 5}[name] for name, frame in shown(view))
    values = []
    for one in (view, again):
        x = torch.ones(len(view), 2, 4)
        one.change(x, None if one.mixed is None else torch.full((len(view), 2, 4), 3.0))
        values.append(x)
    assert values[0].isfinite().all()
    assert torch.equal(*values)


def test_nothing_asked_for_changes_nothing() -> None:
    view = FeatureAugment()(OWN, 5, rng(), donor)
    assert shown(view) == [("own", i) for i in range(5)]
    x = numbered(5)
    view.change(x, None)
    assert torch.equal(x, numbered(5))


def test_every_setting_but_the_length_is_an_edit() -> None:
    assert [*augment.EDITS, "max_frames"] == list(vars(FeatureAugment()))
    twice = FeatureAugment(**dict.fromkeys(augment.EDITS, 1.0))(OWN, 8, rng(), donor)
    assert len(twice.clips) == 3
    assert twice.mixed is not None
    assert twice.blurs == augment.BLURS


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_probabilities_are_checked(value: float) -> None:
    with pytest.raises(ConfigError, match=r"data\.augment\.reverse is a probability"):
        FeatureAugment(reverse=value)
