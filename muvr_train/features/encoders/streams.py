"""Which features an encoder gives of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from muvr_train.errors import ConfigError


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
