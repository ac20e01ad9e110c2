"""PCA-whitening as a part of an encoder, learned from a sample of the frames that are to be encoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.shards import write_bytes
from muvr_train.whitening import Whitening

FITTED = "whitening.safetensors"
"""Where a store keeps what its encoder learned."""


class LearnedWhitening:
    """`muvr_train.whitening.Whitening` of one stream, with its file.

    Args:
        settings: {dim: components kept}.
        width: size D of the stream's vectors.
        recipe: plain data that says how those vectors are made; a file of another recipe is refused.

    Raises:
        ConfigError: an unknown setting, or more components than the vectors have.
    """

    def __init__(self, settings: Mapping[str, Any], width: int, recipe: Mapping[str, Any]) -> None:
        dim = settings.get("dim")
        if set(settings) != {"dim"} or not isinstance(dim, int) or isinstance(dim, bool) or not 1 <= dim <= width:
            raise ConfigError(
                f"encoder.whitening must be null or {{dim: N}} with N from 1 to {width}, got {dict(settings)}"
            )
        self.dim, self.width = dim, width
        self._recipe = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
        self._map = Whitening(width, dim)

    @property
    def fitted(self) -> bool:
        """Whether it can be applied."""
        return bool(self._map.fitted)

    @property
    def hash(self) -> str:
        """SHA-256 of what was learned."""
        digest = hashlib.sha256()
        for values in (self._map.mean, self._map.projection):
            digest.update(values.cpu().contiguous().numpy().tobytes())
        return f"sha256:{digest.hexdigest()}"

    def to(self, device: torch.device) -> None:
        """Move what was learned."""
        self._map.to(device)

    def apply(self, x: Tensor) -> Tensor:
        """Whiten x [..., width] to unit vectors float32 [..., dim].

        Raises:
            DataError: nothing was learned or loaded yet.
        """
        if not self.fitted:
            raise DataError("the encoder's whitening has not been learned: call fit(frames) or load_fit(file) first")
        return self._map(x)  # type: ignore[no-any-return]

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Learn from batches of vectors [m, width], in one pass.

        Raises:
            DataError: too few vectors, values that are not finite, or vectors that vary in fewer directions than `dim`.
        """
        count = 0

        def counted() -> Iterable[Tensor]:
            nonlocal count
            for batch in batches:
                count += len(batch)
                yield batch

        self._map.fit(counted())
        alive = int((self._map.projection != 0).any(dim=0).sum())
        if count <= self.dim or alive < self.dim:
            self._map.fitted.fill_(False)
            raise DataError(
                f"whitening to {self.dim} dimensions cannot be learned from {count} vectors that vary in {alive} "
                "directions; set encoder.whitening.dim lower, or extract a folder of more and different videos"
            )

    def save(self, path: Path) -> None:
        """Write what was learned, atomically.

        Raises:
            DataError: nothing was learned yet.
        """
        if not self.fitted:
            raise DataError(f"{path}: there is no whitening to write, it has not been learned")
        tensors = {name: getattr(self._map, name).cpu().contiguous() for name in ("mean", "projection")}
        write_bytes(path, save(tensors, {"recipe": self._recipe}))

    def load(self, path: Path) -> None:
        """Read what `save` wrote.

        Raises:
            DataError: no such file, a broken one, or one of another encoder, weights or settings.
        """
        try:
            with safe_open(path, "pt") as file:
                recipe = (file.metadata() or {}).get("recipe")
                mean, projection = file.get_tensor("mean"), file.get_tensor("projection")
        except (SafetensorError, OSError) as error:
            raise DataError(f"{path}: is not a readable whitening file ({error})") from error
        if recipe != self._recipe or mean.shape != (self.width,) or projection.shape != (self.width, self.dim):
            raise DataError(
                f"{path}: was learned with another encoder, other weights or other settings "
                f"({' x '.join(map(str, projection.shape))} there, {self.width} x {self.dim} here); choose another out"
            )
        self._map.mean.copy_(mean)
        self._map.projection.copy_(projection)
        self._map.fitted.fill_(True)
