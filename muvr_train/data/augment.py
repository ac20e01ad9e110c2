"""Edits of videos in feature space, for views that differ as copies on the web do (S2VS, arXiv 2304.03378).

Temporal edits act on frame numbers, int [T] to int [T'] with T' >= 1, so that a whole batch of views is read at once;
edits of values act on the features [T, R, D] that were read. Every edit draws from the generator it is given, so that a
view is a pure function of (features, seed). Labels never change: an edited video stays the same video.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from muvr_train.errors import ConfigError

Frames = npt.NDArray[np.int64]
Clip = tuple[str, str]
"""Stream and id of what a store holds."""
Donor = Callable[[np.random.Generator], tuple[Clip, int]]
"""Draws another video, and gives its number of frames."""


def temporal_crop(frames: Frames, rng: np.random.Generator) -> Frames:
    """Keep a random run of at least half of the frames."""
    keep = int(rng.integers((len(frames) + 1) // 2, len(frames) + 1))
    start = int(rng.integers(0, len(frames) - keep + 1))
    return frames[start : start + keep]


def shuffle_dropout(frames: Frames, rng: np.random.Generator) -> Frames:
    """Cut into four pieces, drop each with probability 0.25 (never all), and shuffle the rest."""
    pieces = [piece for piece in np.array_split(frames, 4) if len(piece)]
    kept = [piece for piece in pieces if rng.random() >= 0.25] or [pieces[int(rng.integers(len(pieces)))]]
    return np.concatenate([kept[i] for i in rng.permutation(len(kept))])


def fast_forward(frames: Frames, rng: np.random.Generator) -> Frames:
    """Keep every second frame."""
    return frames[int(rng.integers(0, min(2, len(frames)))) :: 2]


def slow_motion(frames: Frames, rng: np.random.Generator) -> Frames:
    """Show each frame of a random half twice; the length stays."""
    keep = (len(frames) + 1) // 2
    start = int(rng.integers(0, len(frames) - keep + 1))
    return frames[start : start + keep].repeat(2)[: len(frames)]


def reverse(frames: Frames, rng: np.random.Generator) -> Frames:  # noqa: ARG001 (all edits have one signature)
    """Play backwards."""
    return frames[::-1]


def pause(frames: Frames, rng: np.random.Generator) -> Frames:
    """Hold one random frame for up to four more frames; the length stays."""
    at = int(rng.integers(len(frames)))
    times = int(rng.integers(1, 5))
    return np.insert(frames, at + 1, [frames[at]] * times)[: len(frames)]


def frame_mixing(x: Tensor, rng: np.random.Generator, other: Tensor, share: float | None = None) -> Tensor:
    """Blend a `share` of another video [T, R, D] into every frame, as an overlaid or inset video does to features.

    None draws 10 to 40 %; 0 leaves `x` as it is.
    """
    share = float(rng.uniform(0.1, 0.4)) if share is None else share
    scale = x.norm(dim=-1, keepdim=True) / other.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    mixed: Tensor = (1 - share) * x + share * other * scale
    return mixed


def noise(x: Tensor, rng: np.random.Generator, strength: float = 0.05) -> Tensor:
    """Add Gaussian noise of `strength` times the root mean square of the features, drawn on their device."""
    generator = torch.Generator(x.device).manual_seed(int(rng.integers(2**63)))
    drawn = torch.randn(x.shape, generator=generator, device=x.device)
    return x + strength * x.pow(2).mean().sqrt() * drawn


def feature_dropout(x: Tensor, rng: np.random.Generator, share: float = 0.1) -> Tensor:
    """Zero the same random `share` of the feature dimensions in all frames."""
    kept = torch.from_numpy((rng.random(x.shape[-1]) >= share).astype(np.float32))
    return x * kept.to(x.device, non_blocking=True)


@dataclass(frozen=True)
class View:
    """What a training view of a video shows, before any value is read.

    Attributes:
        clips: what its frames are taken from; the first is the video itself.
        clip: int [T], of every frame its clip's place in `clips`.
        frame: int [T], its number in that clip.
        chance: where the edits of values go on drawing.
        mixed: int [T], which frames of another clip are blended into the video's own frames; None for none.
        donor: the place of that clip in `clips`.
        share: of that clip in the blend; None leaves it to chance.
        blurs: edits that then change the values of all frames from `lead` on.
        lead: number of frames in front that keep their values.
    """

    clips: tuple[Clip, ...]
    clip: Frames
    frame: Frames
    chance: np.random.Generator
    mixed: Frames | None = None
    donor: int = 1
    share: float | None = None
    blurs: tuple[Callable[[Tensor, np.random.Generator], Tensor], ...] = ()
    lead: int = 0

    def __len__(self) -> int:
        return len(self.frame)

    def after(self, clip: Clip, frames: Frames) -> View:
        """Show frames of another clip first."""
        count = len(frames)
        return replace(
            self,
            clips=(*self.clips, clip),
            clip=np.concatenate([np.full(count, len(self.clips)), self.clip]),
            frame=np.concatenate([frames, self.frame]),
            mixed=None if self.mixed is None else np.concatenate([np.zeros(count, dtype=np.int64), self.mixed]),
        )

    def cut(self, start: int, stop: int) -> View:
        """Keep the frames from `start` to before `stop`."""
        mixed = None if self.mixed is None else self.mixed[start:stop]
        return replace(self, clip=self.clip[start:stop], frame=self.frame[start:stop], mixed=mixed)

    def within(self, most: int | None, rng: np.random.Generator) -> View:
        """At most so many frames: a run at a random place, in which the video itself is seen; None keeps all."""
        if most is None or len(self) <= most:
            return self
        before = int(np.count_nonzero(self.clip))  # of other clips, which are only ever shown before the own frames
        start = int(rng.integers(max(0, before - most + 1), len(self) - most + 1))
        return self.cut(start, start + most)

    def change(self, x: Tensor, other: Tensor | None) -> None:
        """Edit in place what was read: x [T, R, D]; other [T, R, D] are the frames `mixed` of the donor."""
        if other is not None:
            first = int(np.count_nonzero(self.clip))  # other clips are only ever shown before the own frames
            x[first:] = frame_mixing(x[first:], self.chance, other[first:], self.share)
        for blur in self.blurs:
            x[self.lead :] = blur(x[self.lead :], self.chance)


def foreign_intro(view: View, rng: np.random.Generator, clip: Clip, length: int) -> View:
    """Put 2 to 4 frames of another video in front: title cards and shared intros."""
    shown = min(int(rng.integers(2, 5)), length)
    start = int(rng.integers(0, length - shown + 1))
    return view.after(clip, np.arange(start, start + shown)).cut(0, max(len(view), shown + 1))


def share_piece(view: View, pieces: Sequence[tuple[Clip, Frames]], share: float, max_frames: int | None = None) -> View:
    """With probability `share` put one of the pieces in front, which other videos of the batch show too, as it is.

    Args:
        view: of a video.
        pieces: clips and their frames, title cards for example.
        share: in [0, 1].
        max_frames: of the result: the piece, its beginning where it is long, takes at most half of them, and the view
            is cut at a random place; None keeps all.
    """
    if view.chance.random() >= share:
        return view
    clip, frames = pieces[int(view.chance.integers(len(pieces)))]
    if max_frames is not None:
        frames = frames[: max_frames // 2]
        view = view.within(max_frames - len(frames), view.chance)
    return replace(view.after(clip, frames), lead=len(frames)) if len(frames) else view


TEMPORAL = (temporal_crop, shuffle_dropout, fast_forward, slow_motion, reverse, pause)
BLURS = (noise, feature_dropout)
EDITS = tuple(edit.__name__ for edit in (*TEMPORAL, frame_mixing, foreign_intro, *BLURS))


@dataclass(frozen=True)
class FeatureAugment:
    """Applies each edit with its own probability in [0, 1]; temporal edits first, then mixing, then noise.

    `max_frames` cuts the result (a crop at a random place, in which the video itself is seen), so that a batch stays
    bounded; None keeps all.
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
        for name in EDITS:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"data.augment.{name} is a probability in [0, 1], got {getattr(self, name)}")

    def __call__(self, clip: Clip, length: int, rng: np.random.Generator, donor: Donor) -> View:
        """Plan the edits of one video.

        Args:
            clip: the video.
            length: its number of frames.
            rng: the only source of chance, now and when values are edited.
            donor: gives another video, for mixing and intros.
        """
        drawn = {
            name for name, chance in zip(EDITS, rng.random(len(EDITS)), strict=True) if chance < getattr(self, name)
        }
        frames = np.arange(length)
        for edit in TEMPORAL:
            if edit.__name__ in drawn:
                frames = edit(frames, rng)
        own, mixed = np.zeros(len(frames), dtype=np.int64), None
        clips: tuple[Clip, ...] = (clip,)
        if "frame_mixing" in drawn:
            other, count = donor(rng)
            clips, mixed = (clip, other), np.arange(len(frames)) % count
        blurs = tuple(blur for blur in BLURS if blur.__name__ in drawn)
        view = View(clips, own, frames, rng, mixed, blurs=blurs)
        if "foreign_intro" in drawn:
            view = foreign_intro(view, rng, *donor(rng))
        return view.within(self.max_frames, rng)
