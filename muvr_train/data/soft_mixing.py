"""Frame mixing with soft labels: a view of two videos matches the other views of each by the share that it shows.

The feature-space sibling of video-in-video edits, with labels as in mixup (Zhang et al., arXiv 1710.09412), where
`FeatureAugment.frame_mixing` leaves the labels as they are. Two views match by what they have in common: the sum over
videos of the smaller of the two shares. So a view with a share s of a video matches a plain view of it by s, a plain
view of the other video by 1 - s, and plain views match by 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muvr_train.data.augment import View

LEAST = 0.5
"""The own video keeps at least this share, so that the view stays its view."""


@dataclass(frozen=True)
class SoftMixing:
    """Which strong views of a batch of P pairs are mixed, and how much.

    Attributes:
        partner: int64 [P], place of the other video; the own one where nothing is mixed.
        share: float32 [P] in [0, 1], of the own video; 1 where nothing is mixed.
    """

    partner: NDArray[np.int64]
    share: NDArray[np.float32]

    @classmethod
    def draw(cls, pairs: int, chance: float, rng: np.random.Generator) -> SoftMixing:
        """Mix each view with probability `chance`, the own video's share uniform in [`LEAST`, 1]."""
        places = np.arange(pairs)
        mixed = (rng.random(pairs) < chance) & (pairs > 1)
        others = (places + rng.integers(1, max(pairs, 2), pairs)) % pairs
        share = np.where(mixed, rng.uniform(LEAST, 1.0, pairs), 1.0)
        return cls(np.where(mixed, others, places), share.astype(np.float32))

    def mix(self, view: View, pair: int, ids: Sequence[str], length: Callable[[str], int]) -> View:
        """Blend its partner into the strong view of a pair; any other view (pair < 0, a weak one) stays as it is.

        Args:
            view: of the pair's video; what was blended into it before is not.
            pair: its place.
            ids: [P] the videos of the batch.
            length: gives the number of frames of a video.
        """
        if pair < 0 or self.share[pair] == 1:
            return view
        other = ids[self.partner[pair]]
        own = int(np.count_nonzero(view.clip == 0))
        begin, count = int(view.chance.integers(length(other))), length(other)
        frames = np.concatenate([np.zeros(len(view) - own, dtype=np.int64), (begin + np.arange(own)) % count])
        share = 1 - float(self.share[pair])
        clips = (*view.clips, ("video", other))
        return replace(view, clips=clips, mixed=frames, donor=len(view.clips), share=share)

    def relevance(self) -> NDArray[np.float32]:
        """What the 2 P views, first all weak ones, have in common: float32 [2 P, 2 P] in [0, 1]."""
        places, ones = np.arange(len(self.partner)), np.ones_like(self.share)
        videos = np.stack([np.concatenate([places, places]), np.concatenate([places, self.partner])])
        shares = np.stack([np.concatenate([ones, self.share]), np.concatenate([0 * ones, 1 - self.share])])
        common = np.zeros((2 * len(places),) * 2, dtype=np.float32)
        for video, share in zip(videos, shares, strict=True):
            for other, part in zip(videos, shares, strict=True):
                common += (video[:, None] == other) * np.minimum(share[:, None], part)
        return np.minimum(common, np.float32(1))
