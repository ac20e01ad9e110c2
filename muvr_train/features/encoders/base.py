"""What every frame encoder has in common: prepare pictures, run in batches, split by video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from muvr_train.errors import ConfigError

Frames = NDArray[np.uint8]
Features = dict[str, NDArray[np.float32]]
Preprocess = Callable[[Frames], Frames]
PRECISIONS: dict[str, torch.dtype | None] = {"32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class FrameEncoder(ABC):
    """Frames uint8 [T, H, W, 3] RGB to features [T, R, D], one or several streams in one pass.

    A subclass sets `preprocess`, `mean` and `std`, and writes `compute`, `compute_maps`, `streams` and `manifest`.
    Results do not depend on the batch beyond rounding.

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
        mean: pixel mean per channel on a scale of 0 to 1.
        std: pixel deviation per channel on a scale of 0 to 1.

    Raises:
        ConfigError: settings that cannot work.
    """

    preprocess: Preprocess
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
        if str(precision) not in PRECISIONS:
            raise ConfigError(f"precision={precision} is not possible: choose from {', '.join(PRECISIONS)}")
        self.name = name
        self.model: Any = model.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.batch_size = batch_size
        self.precision = str(precision)
        self.compile = compile
        self._compiled: Any = None
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
        return False

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Learn from a sample of prepared frames, uint8 [n, 3, h, w] per batch; one pass, bounded memory."""
        raise NotImplementedError(f"encoder {self.name} learns nothing from frames")

    def save_fit(self, path: Path) -> None:
        """Write what `fit` learned as safetensors, atomically."""
        raise NotImplementedError(f"encoder {self.name} learns nothing from frames")

    def load_fit(self, path: Path) -> None:
        """Read what `save_fit` wrote."""
        raise NotImplementedError(f"encoder {self.name} learns nothing from frames")

    def settings(self) -> dict[str, Any]:
        """Entries of the manifest that stand there only where a setting is not the default."""
        return {} if self.precision == "32" else {"precision": self.precision}

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

    def prepare(self, frames: Frames) -> Tensor:
        """Preprocess frames uint8 [T, H, W, 3] to uint8 [T, 3, h, w], channels last in memory. Safe in a thread."""
        return torch.from_numpy(self.preprocess(frames)).permute(0, 3, 1, 2)

    def forward_batch(self, x: Tensor) -> dict[str, Tensor]:
        """Features float32 [n, R, D] per stream for prepared frames uint8 [n, 3, h, w] on the encoder's device.

        Raises:
            ConfigError: `compile` is asked for and impossible.
        """
        if not self.compile:
            return self._run(x, self.compute)
        count = len(x)
        if count < self.batch_size:  # one shape, one compilation
            x = torch.cat([x, x[-1:].expand(self.batch_size - count, -1, -1, -1)])
        if self._compiled is None:
            self._compiled = torch.compile(self.compute, dynamic=False)
        try:
            found = self._run(x, self._compiled)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise ConfigError(
                f"compile=true: {self.name} cannot be compiled here ({reason}); use compile=false"
            ) from error
        return {name: values[:count] for name, values in found.items()}

    def try_settings(self, size: tuple[int, int]) -> None:
        """Run one black picture of `size` (height, width), not compiled, so that impossible settings fail early."""
        with torch.inference_mode():
            self._run(torch.zeros(1, 3, *size, dtype=torch.uint8, device=self.device), self.compute)

    def _run(self, x: Tensor, compute: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, Tensor]:
        with self._in_precision():
            return {name: values.float() for name, values in compute(self._normalised(x)).items()}

    def _normalised(self, x: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=x.device).view(1, 3, 1, 1) * 255
        std = torch.tensor(self.std, device=x.device).view(1, 3, 1, 1) * 255
        return ((x.float() - mean) / std).contiguous(memory_format=torch.channels_last)

    @contextmanager
    def _in_precision(self) -> Iterator[None]:
        dtype = PRECISIONS[self.precision]
        now = torch.backends.cudnn
        with (
            torch.autocast(self.device.type, dtype or torch.bfloat16, enabled=dtype is not None),
            now.flags(now.enabled, now.benchmark, now.benchmark_limit, now.deterministic, allow_tf32=dtype is not None),
        ):
            yield

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
        with torch.inference_mode(), self._in_precision():
            maps = [
                self.compute_maps(self._normalised(part.to(self.device)), stream).float().cpu()
                for part in torch.split(x, self.batch_size)
            ]
        return np.asarray(torch.cat(maps).numpy(), dtype=np.float32)
