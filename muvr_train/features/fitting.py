"""Letting an encoder learn from a sample of the videos before they are extracted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.events import decoded
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.jobs import Job
from muvr_train.features.pool import DecodePool

LEARNED = "whitening_hash"
log = logging.getLogger(__name__)


def fit_encoder(encoder: FrameEncoder, jobs: Sequence[Job], settings: ExtractSettings) -> None:
    """Let the encoder learn from a sample of the videos' frames; the same sample for the same jobs."""
    sample = Random(0).sample(list(jobs), len(jobs))

    def batches() -> Iterator[Tensor]:
        left = encoder.fit_frames
        for _, frames, _ in decoded(DecodePool(sample, encoder.preprocess, settings.decoders, settings.timeout)):
            if left <= 0:
                return
            if "video" in frames:
                taken = frames["video"][:left]
                left -= len(taken)
                yield torch.from_numpy(taken).permute(0, 3, 1, 2)

    log.info("learning the whitening of %s from at most %d frames", encoder.name, encoder.fit_frames)
    encoder.fit(batches())


def learned_entries(encoder: FrameEncoder) -> dict[str, Any]:
    """What the manifest says about the parts that an encoder learned."""
    return {key: value for key, value in encoder.manifest().items() if key == LEARNED}
