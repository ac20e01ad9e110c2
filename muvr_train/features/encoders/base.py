"""What every frame encoder has in common: prepare pictures, run in batches, split by video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from muvr_train.errors import ConfigError

Frames = NDArray[np.uint8]
Features = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class StreamSpec:
    """One kind of features: `grid` x `grid` regions per frame (1 = global), pooled from `stages` of the network.

    `stages` counts the network's stages from 0 (negative: from the end); None means the encoder's own global feature,
    or its last stage where `grid` > 1.
    """

    grid: int = 1
    stages: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, streams: Mapping[str, Mapping[str, Any]] | None) -> dict[str, StreamSpec]:
        """Read the `streams` of a config; None is one global stream "video".

        Raises:
            ConfigError: no stream, an unknown setting, a grid or stage that is not a number.
        """
        if streams is None:
            return {"video": cls()}
        if not streams:
            raise ConfigError("streams is empty; name at least one, for example streams.video.grid=1")
        known = [field.name for field in fields(cls)]
        parsed = {}
        for name, settings in streams.items():
            if unknown := [key for key in settings or {} if key not in known]:
                raise ConfigError(f"streams.{name}.{unknown[0]}: there is no such setting; known: {', '.join(known)}")
            grid, stages = (settings or {}).get("grid", 1), (settings or {}).get("stages")
            if not isinstance(grid, int) or grid < 1:
                raise ConfigError(f"streams.{name}.grid must be a whole number of at least 1, got {grid!r}")
            if stages is not None and (not stages or not all(isinstance(stage, int) for stage in stages)):
                raise ConfigError(f"streams.{name}.stages must list whole numbers, got {stages!r}")
            parsed[str(name)] = cls(grid, None if stages is None else tuple(stages))
        return parsed

    def manifest(self) -> dict[str, Any]:
        """Plain data for the store."""
        return {"grid": self.grid, "stages": None if self.stages is None else list(self.stages)}


class FrameEncoder(ABC):
    """Frames uint8 [T, H, W, 3] RGB to features [T, R, D], one or several streams in one pass.

    A subclass writes `prepare`, `forward_batch` and `manifest`. Results do not depend on the batch beyond rounding.

    Args:
        name: what stores and tables call the encoder.
        model: the network, in eval mode.
        batch_size: frames per forward pass.
        device: where the network runs.
    """

    def __init__(self, name: str, model: nn.Module, batch_size: int, device: torch.device | str = "cpu") -> None:
        if batch_size < 1:
            raise ConfigError(f"encoder.batch_size must be at least 1, got {batch_size}")
        self.name = name
        self.model: Any = model.eval().requires_grad_(False)
        self.batch_size = batch_size
        self.to(device)

    @abstractmethod
    def prepare(self, frames: Frames) -> Tensor:
        """Resize and crop: uint8 [T, H, W, 3] to what `forward_batch` takes, [T, 3, h, w]. Safe in a thread."""

    @abstractmethod
    def forward_batch(self, x: Tensor) -> dict[str, Tensor]:
        """Features [n, R, D] per stream for prepared frames [n, 3, h, w] on the encoder's device."""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`: encoder, architecture, pretrained, weights_hash, preprocessing, features."""

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that `forward_batch` gives."""

    def to(self, device: torch.device | str) -> FrameEncoder:
        """Move the network.

        Raises:
            ConfigError: no such device here.
        """
        try:
            self.device = torch.device(device)
            self.model.to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"device={device}: cannot be used ({str(error).splitlines()[0]}); try device=cpu"
            ) from error
        return self

    def encode_prepared(self, videos: Sequence[Tensor]) -> list[Features]:
        """Encode the prepared frames of several videos together; float32 numpy [T, R, D] per video and stream."""
        if not videos:
            return []
        x = torch.cat(list(videos))
        with torch.inference_mode():
            batches = [self.forward_batch(part.to(self.device)) for part in torch.split(x, self.batch_size)]
        counts = [len(video) for video in videos]
        joined = {name: torch.cat([batch[name] for batch in batches]).float().cpu() for name in batches[0]}
        split = {name: torch.split(values, counts) for name, values in joined.items()}
        return [{name: parts[row].numpy() for name, parts in split.items()} for row in range(len(videos))]

    def encode(self, videos: Sequence[Frames]) -> list[Features]:
        """Encode the frames uint8 [T, H, W, 3] of several videos; float32 [T, R, D] per video and stream."""
        return self.encode_prepared([self.prepare(frames) for frames in videos])
