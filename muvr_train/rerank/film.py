"""Sampled frames of a video file, with a region outlined where it has masks."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.features.mask_frames import MaskSampler
from muvr_train.features.masks import Mask, fit_mask, list_masks
from muvr_train.features.sampling import FrameSampler
from muvr_train.rerank import outline
from muvr_train.rerank.digests import digest_of, digest_of_all
from muvr_train.rerank.kept import KeptPixels
from muvr_train.rerank.pictures import VERSION, shrink
from muvr_train.rerank.types import Clip, Picture, Pixels

KEPT = KeptPixels()
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Film:
    """Frames of a video, decoded when they are asked for.

    Attributes:
        path: the video file.
        frames: how many.
        resolution: most pixels of the long side, None for as many as there are.
        masks: file or folder of the masks of a region that is outlined, None for none.
        still: one frame as a `Picture`.
    """

    path: Path
    frames: int
    resolution: int | None
    masks: Path | None = None
    still: bool = False

    def key(self) -> str:
        """What determines the pixels, equal on every machine.

        Raises:
            DataError: a file is not there.
        """
        facts = {
            "video": digest_of(self.path),
            "frames": self.frames,
            "resolution": self.resolution,
            "still": self.still,
            "version": VERSION,
        }
        if self.masks is not None:
            line = (outline.RED, outline.WHITE, outline.SHARE, outline.LEAST)
            facts |= {"masks": digest_of_all(self.masks), "line": line}
        return json.dumps(facts)

    def load(self) -> Picture | Clip:
        """Decode it, or give what is kept of it; the pixels are read-only.

        Raises:
            DataError: a file is broken or not there, or the masks do not fit.
        """
        return KEPT.get(self.key(), self._decode)

    def _decode(self) -> Picture | Clip:
        from muvr_train.features.decode import Frames, stream_frames
        from muvr_train.features.status import TRUNCATED

        pictures: list[Pixels] = []
        full: list[tuple[int, int]] = []

        def emit(frames: Frames) -> None:
            full.append((frames.shape[1], frames.shape[2]))
            pictures.extend(shrink(frame, self.resolution) for frame in frames)

        sampler = _Sampler(base=FrameSampler(self.frames))
        try:
            if self.masks is not None:
                sampler = _Sampler(base=FrameSampler(self.frames), masks=tuple(list_masks(self.masks)))
            made = stream_frames(self.path, sampler, emit, pictures.clear, backends=("pyav",))
            if self.masks is not None:
                masks = [sampler.at[frame] for frame in made.indices]
                pictures = [_marked(picture, mask, full[-1]) for picture, mask in zip(pictures, masks, strict=True)]
        except DataError as error:
            if str(self.path) in str(error):
                raise
            raise DataError(f"{self.path}: {error}") from error
        if made.status == TRUNCATED:
            log.warning("%s: %s; its sound frames are used, and no others are counted", self.path, made.reason)
        for picture in pictures:
            picture.flags.writeable = False  # other questions see the same ones
        times = tuple(round(second - sampler.begin[0], 6) for second in made.times)
        return Picture(pictures[0]) if self.still else Clip(tuple(pictures), times)


@dataclass(frozen=True)
class _Sampler(MaskSampler):
    """Chooses among all frames, or among those with a mask, none of them empty; learns when the first one is shown."""

    begin: list[float] = field(default_factory=lambda: [0.0])

    def select(self, times: Sequence[float] | NDArray[np.floating]) -> list[int]:
        if len(times):
            self.begin[0] = float(times[0])
        if not self.masks:
            return self.base.select(times)
        left, chosen = self, super().select(times)
        while empty := {self.at[frame].where for frame in chosen if not self.at[frame].read().any()}:
            masks = tuple(mask for mask in left.masks if mask.where not in empty)
            if not masks:
                raise DataError(f"no mask has anything inside, as {min(empty)}; delete the masks of this query")
            left = _Sampler(base=self.base, masks=masks, at=self.at)
            chosen = MaskSampler.select(left, times)
        return chosen


def _marked(picture: Pixels, mask: Mask, full: tuple[int, int]) -> Pixels:
    """Outline a region; its mask fits to the frame of `full` (height, width), which may have been shrunk."""
    inside = mask.read()
    fitted = fit_mask(inside, *full, mask.where)
    size = picture.shape[:2]
    finer = inside if inside.shape[0] >= size[0] and inside.shape[1] >= size[1] else fitted
    return outline.outline(picture, outline.shrink_mask(finer, *size))
