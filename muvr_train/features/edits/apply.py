"""The edits by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muvr_train.errors import ConfigError
from muvr_train.features.edits import colours, geometry, overlays, quality, temporal
from muvr_train.features.edits.arrays import Frames

APPLIED: dict[str, Callable[..., Frames]] = {
    edit.__name__: edit
    for edit in (
        *(geometry.crop, geometry.flip, geometry.turn, geometry.rotate, geometry.stretch, geometry.perspective),
        *(geometry.letterbox, overlays.pad),
        *(colours.colour, colours.brightness, colours.contrast, colours.saturation, colours.warmth, colours.hue),
        *(colours.gamma, colours.grey, colours.invert),
        *(quality.blur, quality.motion_blur, quality.sharpen, quality.noise, quality.low_resolution),
        *(quality.compress, quality.h264),
        *(overlays.text_bar, overlays.caption, overlays.watermark, overlays.logo, overlays.emoji),
        *(overlays.inset, overlays.guest, overlays.beside),
        *(temporal.speed, temporal.shuffle, temporal.reverse, temporal.pause, temporal.trim, temporal.thin),
    )
}
"""The edits that a recipe may name."""


TEMPORAL = ("speed", "shuffle", "reverse", "pause", "trim", "thin")
"""Edits that only choose frames: they do the same to an array of their numbers."""


def apply_edit(frames: Frames, name: str, **settings: Any) -> Frames:
    """Apply the edit of that name to frames uint8 [T, H, W, 3]; the result may share memory with them.

    Raises:
        ConfigError: there is no such edit.
    """
    if name not in APPLIED:
        raise ConfigError(f"there is no edit {name!r}; known: {', '.join(APPLIED)}")
    return APPLIED[name](frames, **settings)
