"""Which frames of a video the masks of a query are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.features.masks import Mask
from muvr_train.features.sampling import TIME_TOLERANCE, FrameSampler


@dataclass(frozen=True)
class MaskSampler(FrameSampler):
    """Applies a sampler to the frames of a video that have masks, as if they were all of it. For one decoding.

    Attributes:
        base: the sampler.
        masks: of one query.
        at: after `select`: frame -> its mask.
    """

    base: FrameSampler = field(default_factory=FrameSampler)
    masks: tuple[Mask, ...] = ()
    at: dict[int, Mask] = field(default_factory=dict)

    def select(self, times: Sequence[float] | NDArray[np.floating]) -> list[int]:
        """Choose among the frames shown at `times` that have masks.

        Raises:
            DataError: there are none, or two masks for one frame.
        """
        self.at.clear()
        stamps = np.asarray(times, np.float64)
        for mask in self.masks:
            for frame in _frames_of(mask, stamps):
                if frame in self.at:
                    raise DataError(f"two masks for frame {frame}: {self.at[frame].where} and {mask.where}")
                self.at[frame] = mask
        if not self.at and len(stamps):
            raise DataError(f"no mask is for one of its {len(stamps)} frames; the first is {self.masks[0].where}")
        masked = sorted(self.at)
        return [masked[place] for place in self.base.select(stamps[masked])]


def _frames_of(mask: Mask, times: NDArray[np.float64]) -> list[int]:
    if mask.for_all:
        return list(range(len(times)))
    if mask.frame is not None:
        return [mask.frame] if mask.frame < len(times) else []
    if not len(times):
        return []
    elapsed = times - times[0]
    end = 2 * elapsed[-1] - elapsed[-2] if len(elapsed) > 1 else np.inf  # the last stays as long as the one before
    seconds = mask.seconds or 0.0
    return [int(np.searchsorted(elapsed, seconds + TIME_TOLERANCE, side="right")) - 1] if seconds < end else []
