"""Region features: places of an encoder's map averaged inside a query's mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.errors import DataError
from muvr_train.features.decode import BACKENDS, DecodeError, Frames, stream_frames
from muvr_train.features.jobs import Sink
from muvr_train.features.mask_frames import MaskSampler
from muvr_train.features.masks import fit_mask, list_masks
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import OK, TRUNCATED, VideoStatus

STREAM = "region"
Shares = NDArray[np.float32]


def shares_inside(mask: Frames, black: Frames, white: Frames) -> Shares:
    """Which part of each pixel of the network's input lies inside a mask.

    All three are pictures that went through the encoder's own preprocessing, so the mask is resized and cropped exactly
    as the frames are; what is black and white alike is padding. A pixel is inside (1) where at least half of it is. A
    mask too thin for that keeps the parts.

    Args:
        mask: uint8 [T, h, w, 3], 255 inside.
        black: uint8 [1, h, w, 3], a picture of zeros.
        white: uint8 [1, h, w, 3], a picture of 255.

    Returns:
        float32 [T, h, w], 0 to 1.
    """
    lowest = black[..., 0].astype(np.float32)
    height = white[..., 0].astype(np.float32) - lowest
    shares = np.clip((mask[..., 0] - lowest) / np.maximum(height, 1), 0, 1) * (height > 0)
    hard = shares >= 0.5
    thin = ~hard.any(axis=(1, 2), keepdims=True)
    return np.asarray(np.where(thin, shares, hard), dtype=np.float32)


def pool_inside(maps: NDArray[np.float32], shares: Shares) -> tuple[NDArray[np.float32], list[int]]:
    """Average the cells of each map, weighted by how much of the mask lies in them.

    Args:
        maps: float32 [T, H, W, D].
        shares: float32 [T, h, w] of pixels of the network's input (`shares_inside`), averaged over each cell's area.

    Returns:
        float32 [T', 1, D] and the T' frames that have one: those with anything inside the mask.
    """
    cells = F.adaptive_avg_pool2d(torch.from_numpy(shares)[:, None], maps.shape[1:3])[:, 0].flatten(1).double()
    total = cells.sum(dim=1)
    used = torch.nonzero(total > 0).ravel().tolist()
    weights = (cells[used] / total[used, None]).float()
    vectors = torch.einsum("tc,tcd->td", weights, torch.from_numpy(maps).flatten(1, 2)[used])
    return np.asarray(vectors[:, None].numpy(), dtype=np.float32), used


@dataclass(frozen=True)
class MaskJob:
    """The masked frames of a query's video, with their masks as pictures.

    Streams: "frames" and "mask" (uint8 [T, H, W, 3] each), "black" and "white" (one picture each).
    """

    id: str
    path: Path
    masks: Path
    sampler: FrameSampler
    streams: tuple[str, ...] = ("frames", "mask", "black", "white")

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Decode the frames that have masks.

        Raises:
            DecodeError: the video cannot be decoded, or masks are broken or do not fit to it.
        """
        try:
            return self._run(sink, backends)
        except DecodeError:
            raise
        except DataError as error:
            raise DecodeError(str(error)) from error

    def _run(self, sink: Sink, backends: Sequence[str]) -> VideoStatus:
        size: list[tuple[int, int]] = []

        def emit(frames: Frames) -> None:
            size[:] = [(int(frames.shape[1]), int(frames.shape[2]))]
            sink.emit("frames", frames)

        sampler = MaskSampler(base=self.sampler, masks=tuple(list_masks(self.masks)))
        made = stream_frames(self.path, sampler, emit, sink.restart, sink.beat, backends)
        height, width = size[0]
        for mask in (sampler.at[index] for index in made.indices):
            inside = fit_mask(mask.read(), height, width, mask.where)
            picture = np.repeat(inside[None, :, :, None], 3, axis=3).astype(np.uint8) * np.uint8(255)
            sink.emit("mask", picture)
            sink.beat()
        sink.emit("black", np.zeros((1, height, width, 3), np.uint8))
        sink.emit("white", np.full((1, height, width, 3), 255, np.uint8))
        reasons = [f"{made.reason} (broken ones are not counted)"] if made.status == TRUNCATED else []
        lost = {mask.where for mask in sampler.masks} - {mask.where for mask in sampler.at.values()}
        if lost:
            reasons.append(f"{len(lost)} of {len(sampler.masks)} masks are for frames that it does not have")
        reason = "; ".join(reasons)
        used = len(made.indices)
        return VideoStatus(self.id, str(self.path), OK, reason, made.declared, made.found, used, made.backend)
