"""Recipes to pictures: the frames of sources, cut and edited in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.benchmarks.copies_recipes import Piece, Recipe
from muvr_train.features.decode import DecodeError, Frames, read_frames
from muvr_train.features.edits.apply import apply_edit
from muvr_train.features.edits.overlays import title_card
from muvr_train.features.edits.temporal import take
from muvr_train.features.sampling import FrameSampler

SOURCE_FRAMES = 48


class SourceFrames:
    """Frames of sources by name, uint8 [T, h, w, 3]: evenly sampled, shrunk, the last used ones kept in memory.

    Args:
        paths: name -> video file.
        frames: frames per source, from the centres of equal segments.
        short_side: pixels of the short side; smaller videos stay as they are.
        cache_mib: bound on the frames that are kept.
    """

    def __init__(
        self, paths: Mapping[str, Path], frames: int = SOURCE_FRAMES, short_side: int = 224, cache_mib: int = 1024
    ) -> None:
        self.paths, self.frames, self.short_side = paths, frames, short_side
        self._kept: OrderedDict[str, Frames] = OrderedDict()
        self._free = cache_mib * 2**20
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Frames:
        """The frames of a source; safe in threads.

        Raises:
            DecodeError: it cannot be decoded.
        """
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        if name not in self.paths:
            raise DecodeError(f"{name}: the plan names this source, but there is no file for it")
        decoded = read_frames(self.paths[name], FrameSampler(self.frames), lambda x: shrink(x, self.short_side))
        frames: Frames = decoded.frames
        with self._lock:
            if name in self._kept:  # another thread was faster
                return self._kept[name]
            self._kept[name] = frames
            self._free -= frames.nbytes
            while self._free < 0 and len(self._kept) > 1:
                self._free += self._kept.popitem(last=False)[1].nbytes
            return frames

    def manifest(self) -> dict[str, Any]:
        """What the store records."""
        return {"kind": "copies", "source_frames": self.frames, "short_side": self.short_side}


def shrink(frames: Frames, short_side: int) -> Frames:
    """Scale frames uint8 [T, H, W, 3] down (anti-aliased) to that short side; smaller ones stay as they are."""
    height, width = frames.shape[1:3]
    scale = short_side / min(height, width)
    if scale >= 1:
        return frames
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    x = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2)
    x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
    return x.permute(0, 2, 3, 1).contiguous().numpy()


def compose(recipe: Recipe, sources: SourceFrames) -> list[Frames]:
    """The frames of each piece of a recipe, edited; pieces may differ in size.

    Raises:
        DecodeError: a source cannot be decoded.
    """
    return [_compose_piece(piece, sources) for piece in recipe.pieces]


def _compose_piece(piece: Piece, sources: SourceFrames) -> Frames:
    if piece.card:
        return title_card(piece.source, piece.frames)
    frames = take(sources(piece.source), piece.start, piece.stop, piece.frames)
    for edit in piece.edits:
        settings = dict(edit.settings)
        if "host" in settings:
            start, stop = settings.pop("host_start"), settings.pop("host_stop")
            settings["host"] = take(sources(settings["host"]), start, stop, len(frames))
        frames = apply_edit(frames, edit.name, **settings)
    return frames
