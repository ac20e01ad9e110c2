"""What every frame encoder has in common: prepare pictures, run in batches, split by video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.running import Compiled, check_precision, first_line, in_precision, normalised
from muvr_train.features.encoders.whitening import LearnedWhitening

Frames = NDArray[np.uint8]
Features = dict[str, NDArray[np.float32]]
Preprocess = Callable[[Frames], Frames]


class FrameEncoder(ABC):
    """Frames uint8 [T, H, W, 3] RGB to features [T, R, D], one or several streams in one pass.

    A subclass sets `preprocess`, `size`, `mean` and `std`, and writes `compute`, `compute_maps`, `streams` and
    `manifest`. Results do not depend on the batch beyond rounding.

    Learned parts (whitening): where `needs_fit` is true, whoever extracts calls `fit` with prepared frames first, then
    `save_fit(store / FITTED)`; whoever continues calls `load_fit(store / FITTED)` instead. `manifest` tells the learned
    values' hash ("whitening_hash") only afterwards, so names of stores that are made before must not depend on it.

    Args:
        name: what stores and tables call the encoder.
        model: the network, in eval mode.
        batch_size: frames per forward pass.
        device: where the network runs.
        precision: "32", or "bf16" or "fp16" for autocast; features are float32 in any case.
        compile: run the network through torch.compile, always with batches of `batch_size` (the last one is filled up).

    Attributes:
        preprocess: uint8 [T, H, W, 3] to uint8 [T, h, w, 3]; a small picklable object without the network, which runs
            in the processes that decode.
        size: edge of the prepared pictures, by which edited views are drawn.
        mean: pixel mean per channel on a scale of 0 to 1.
        std: pixel deviation per channel on a scale of 0 to 1.
        shapes: (D, R) per stream, before whitening.

    Raises:
        ConfigError: settings that cannot work.
    """

    preprocess: Preprocess
    size: int
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __init__(
        self,
        name: str,
        model: nn.Module,
        batch_size: int,
        device: torch.device | str = "cpu",
        precision: str = "32",
        compile: bool = False,  # noqa: A002
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"encoder.batch_size must be at least 1, got {batch_size}")
        self.name = name
        self.model: Any = model.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.batch_size = batch_size
        self.precision = check_precision(precision)
        self.compile = compile
        self.shapes: dict[str, tuple[int, int]] = {}
        self._compiled: Compiled | None = None
        self._whitening: LearnedWhitening | None = None
        self.to(device)

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        """Features [n, R, D] per stream for normalised pictures float32 [n, 3, h, w] on the encoder's device."""
        raise NotImplementedError(f"{type(self).__name__}.compute")

    def compute_maps(self, x: Tensor, stream: str) -> Tensor:  # noqa: ARG002
        """What `encode_maps` gives, [n, H, W, D], for normalised pictures float32 [n, 3, h, w]."""
        raise ConfigError(f"encoder {self.name} gives no maps, so nothing can be pooled inside a mask")

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`: encoder, architecture, pretrained, weights_hash, preprocessing, features."""

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that `forward_batch` gives."""

    @property
    def needs_fit(self) -> bool:
        """Whether `fit` or `load_fit` must be called before anything is encoded."""
        return self._whitening is not None and not self._whitening.fitted

    @property
    def fit_frames(self) -> int:
        """How many frames `fit` wants: four times as many vectors as they have dimensions, at least 1,000 frames."""
        width, regions = next(iter(self.shapes.values()))
        return max(1000, -(-4 * width // regions))

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Learn the whitening from a sample of prepared frames, uint8 [n, 3, h, w] per batch; bounded memory.

        Raises:
            DataError: too few frames, or frames that are too much alike.
        """
        with torch.inference_mode():
            self._learned.fit(self._vectors(batch) for batch in batches)
        self._learned.to(self.device)

    def _vectors(self, x: Tensor) -> Tensor:
        parts = [self._run(part.to(self.device), self.compute) for part in torch.split(x, self.batch_size)]
        return torch.cat([values for part in parts for values in part.values()]).flatten(0, 1)

    def save_fit(self, path: Path) -> None:
        """Write what `fit` learned as safetensors, atomically."""
        self._learned.save(path)

    def load_fit(self, path: Path) -> None:
        """Read what `save_fit` wrote.

        Raises:
            DataError: no such file, or one of another encoder, weights or settings.
        """
        self._learned.load(path)
        self._learned.to(self.device)

    @property
    def _learned(self) -> LearnedWhitening:
        if self._whitening is None:
            raise ConfigError(f"encoder {self.name} learns nothing from frames: it has no whitening")
        return self._whitening

    def settings(self) -> dict[str, Any]:
        """Entries of the manifest that stand there only where a setting is not the default."""
        made: dict[str, Any] = {} if self.precision == "32" else {"precision": self.precision}
        if self._whitening is not None:
            made["whitening"] = {"dim": self._whitening.dim}
            if self._whitening.fitted:
                made["whitening_hash"] = self._whitening.hash
        return made

    def to(self, device: torch.device | str) -> FrameEncoder:
        """Move the network.

        Raises:
            ConfigError: no such device here.
        """
        try:
            self.device = torch.device(device)
            self.model.to(self.device)
            if self._whitening is not None:
                self._whitening.to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"device={device}: cannot be used ({str(error).splitlines()[0]}); try device=cpu"
            ) from error
        return self

    def prepare(self, frames: Frames) -> Tensor:
        """Preprocess frames uint8 [T, H, W, 3] to uint8 [T, 3, h, w], channels last in memory. Safe in a thread."""
        return torch.from_numpy(self.preprocess(frames)).permute(0, 3, 1, 2)

    def forward_batch(self, x: Tensor) -> dict[str, Tensor]:
        """Features float32 [n, R, D] per stream for prepared frames uint8 [n, 3, h, w] on the encoder's device.

        Raises:
            ConfigError: `compile` is asked for and impossible.
        """
        if self.compile and self._compiled is None:
            self._compiled = Compiled(self.compute, self.batch_size, self.name)
        found = self._run(x, self._compiled or self.compute)
        if self._whitening is not None:
            found = {name: self._whitening.apply(values) for name, values in found.items()}
        return found

    def check_settings(
        self,
        size: tuple[int, int],
        dim: int | Mapping[str, int] | None = None,
        whitening: Mapping[str, Any] | None = None,
    ) -> None:
        """Encode one black picture, so that impossible settings fail early; the last step of every constructor.

        Args:
            size: height and width of the picture.
            dim: the width D that all streams, or each, are expected to have (before whitening); None: any.
            whitening: {dim: N} to whiten the only stream.

        Raises:
            ConfigError: a picture size or grid that the network refuses, another width, impossible whitening.
        """
        x = torch.zeros(1, 3, *size, dtype=torch.uint8, device=self.device)
        try:
            with torch.inference_mode():
                found = self._run(x, self.compute)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ConfigError(
                f"encoder {self.name} cannot encode pictures of {size[0]} x {size[1]}: {first_line(error)}"
            ) from error
        self.shapes = {name: (values.shape[2], values.shape[1]) for name, values in found.items()}
        for name, (width, _) in self.shapes.items():
            expected = dim.get(name) if isinstance(dim, Mapping) else dim
            if expected is not None and expected != width:
                raise ConfigError(
                    f"encoder.dim={expected}: the features of {self.name} (stream {name}) have {width} dimensions; "
                    f"is it the architecture you mean? Otherwise set encoder.dim={width}"
                )
        if whitening is not None:
            if len(found) != 1:
                raise ConfigError(f"encoder.whitening takes an encoder of one stream; it has {', '.join(found)}")
            self._whitening = LearnedWhitening(whitening, next(iter(self.shapes.values()))[0], self.manifest())

    def _run(self, x: Tensor, compute: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, Tensor]:
        with in_precision(self.device, self.precision):
            return {name: values.float() for name, values in compute(normalised(x, self.mean, self.std)).items()}

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

    def encode_maps(self, x: Tensor, stream: str = "video") -> NDArray[np.float32]:
        """Features of places, to be averaged inside a mask: the finest map in the space of a stream's features.

        Row and column of the map divide the prepared picture (after resizing and cropping), not the original one: use
        `preprocess` on the mask as a picture to bring it there.

        Args:
            x: prepared frames uint8 [T, 3, h, w].
            stream: whose space. Stages of several resolutions are resized to the finest one, each place of each stage
                is L2-normalised and they are concatenated, as `streams` does with regions.

        Returns:
            float32 [T, H, W, D], D that of the stream.

        Raises:
            ConfigError: no such stream, or an encoder without maps.
        """
        if stream not in self.streams:
            raise ConfigError(f"encoder {self.name} has no stream {stream!r}; it has {', '.join(self.streams)}")
        with torch.inference_mode(), in_precision(self.device, self.precision):
            maps = [self._map(part.to(self.device), stream).cpu() for part in torch.split(x, self.batch_size)]
        return np.asarray(torch.cat(maps).numpy(), dtype=np.float32)

    def _map(self, x: Tensor, stream: str) -> Tensor:
        values = self.compute_maps(normalised(x, self.mean, self.std), stream).float()
        return values if self._whitening is None else self._whitening.apply(values)
