"""Edits of videos in feature space, for views that differ as copies on the web do (S2VS, arXiv 2304.03378).

Every edit maps features [T, R, D] to features [T', R, D] with T' >= 1 and draws from the generator it is given, so that
a view is a pure function of (features, seed). Labels never change: an edited video stays the same video.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from muvr_train.errors import ConfigError

Donor = Callable[[np.random.Generator], Tensor]


def temporal_crop(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Keep a random run of at least half of the frames."""
    keep = int(rng.integers((len(x) + 1) // 2, len(x) + 1))
    start = int(rng.integers(0, len(x) - keep + 1))
    return x[start : start + keep]


def shuffle_dropout(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Cut into four pieces, drop each with probability 0.25 (never all), and shuffle the rest."""
    pieces = [piece for piece in torch.tensor_split(x, 4) if len(piece)]
    kept = [piece for piece in pieces if rng.random() >= 0.25] or [pieces[int(rng.integers(len(pieces)))]]
    return torch.cat([kept[i] for i in rng.permutation(len(kept))])


def fast_forward(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Keep every second frame."""
    return x[int(rng.integers(0, min(2, len(x)))) :: 2]


def slow_motion(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Show each frame of a random half twice; the length stays."""
    keep = (len(x) + 1) // 2
    start = int(rng.integers(0, len(x) - keep + 1))
    return x[start : start + keep].repeat_interleave(2, dim=0)[: len(x)]


def reverse(x: Tensor, rng: np.random.Generator) -> Tensor:  # noqa: ARG001 (all edits have one signature)
    """Play backwards."""
    return x.flip(0)


def pause(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Hold one random frame for up to four more frames; the length stays."""
    at = int(rng.integers(len(x)))
    held: Tensor = x[at : at + 1].expand(int(rng.integers(1, 5)), -1, -1)
    return torch.cat([x[: at + 1], held, x[at + 1 :]])[: len(x)]


def frame_mixing(x: Tensor, rng: np.random.Generator, donor: Tensor) -> Tensor:
    """Blend 10 to 40 % of another video into every frame: what an overlaid or inset video does to features."""
    share = float(rng.uniform(0.1, 0.4))
    other = donor[torch.as_tensor(np.arange(len(x)) % len(donor))]
    scale = x.norm(dim=-1, keepdim=True) / other.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    mixed: Tensor = (1 - share) * x + share * other * scale
    return mixed


def foreign_intro(x: Tensor, rng: np.random.Generator, donor: Tensor) -> Tensor:
    """Put 2 to 4 frames of another video in front: title cards and shared intros."""
    length = min(int(rng.integers(2, 5)), len(donor))
    start = int(rng.integers(0, len(donor) - length + 1))
    return torch.cat([donor[start : start + length], x])[: max(len(x), length + 1)]


def noise(x: Tensor, rng: np.random.Generator, strength: float = 0.05) -> Tensor:
    """Add Gaussian noise of `strength` times the root mean square of the features."""
    drawn = torch.from_numpy(rng.standard_normal(x.shape, dtype=np.float32)).to(x.device)
    return x + strength * x.pow(2).mean().sqrt() * drawn


def feature_dropout(x: Tensor, rng: np.random.Generator, share: float = 0.1) -> Tensor:
    """Zero the same random `share` of the feature dimensions in all frames."""
    kept = torch.from_numpy((rng.random(x.shape[-1]) >= share).astype(np.float32))
    return x * kept.to(x.device)


def share_intros(
    videos: Sequence[Tensor], pieces: Sequence[Tensor], share: float, chances: Sequence[np.random.Generator]
) -> list[Tensor]:
    """Put pieces before a random `share` of the videos of a batch: one piece before several that are unrelated.

    Args:
        videos: features [T, R, D] each.
        pieces: features [t, R, D] each, title cards for example.
        share: probability in [0, 1] for each video.
        chances: the only sources of chance, one for each video.
    """
    shown = []
    for x, rng in zip(videos, chances, strict=True):
        if rng.random() < share:
            x = torch.cat([pieces[int(rng.integers(len(pieces)))], x])
        shown.append(x)
    return shown


@dataclass(frozen=True)
class FeatureAugment:
    """Applies each edit with its own probability in [0, 1]; temporal edits first, then mixing, then noise.

    `max_frames` cuts the result (a crop at a random place), so that a batch stays bounded; None keeps all.
    """

    temporal_crop: float = 0.0
    shuffle_dropout: float = 0.0
    fast_forward: float = 0.0
    slow_motion: float = 0.0
    reverse: float = 0.0
    pause: float = 0.0
    frame_mixing: float = 0.0
    foreign_intro: float = 0.0
    noise: float = 0.0
    feature_dropout: float = 0.0
    max_frames: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "max_frames" and not 0.0 <= value <= 1.0:
                raise ConfigError(f"data.augment.{name} is a probability in [0, 1], got {value}")

    def __call__(self, x: Tensor, rng: np.random.Generator, donor: Donor) -> Tensor:
        """Edit one video.

        Args:
            x: features [T, R, D].
            rng: the only source of chance.
            donor: gives the features of another video, for mixing and intros.
        """
        for edit in (temporal_crop, shuffle_dropout, fast_forward, slow_motion, reverse, pause):
            if rng.random() < getattr(self, edit.__name__):
                x = edit(x, rng)
        for mix in (frame_mixing, foreign_intro):
            if rng.random() < getattr(self, mix.__name__):
                x = mix(x, rng, donor(rng))
        for blur in (noise, feature_dropout):
            if rng.random() < getattr(self, blur.__name__):
                x = blur(x, rng)
        if self.max_frames is not None and len(x) > self.max_frames:
            start = int(rng.integers(0, len(x) - self.max_frames + 1))
            x = x[start : start + self.max_frames]
        return x
