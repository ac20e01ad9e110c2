"""Recipes to pictures: the frames of sources, cut and edited in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.benchmarks.copies_recipes import Piece, Recipe
from muvr_train.features.decode import BACKENDS, DecodeError, Frames, stream_frames
from muvr_train.features.edits.apply import TEMPORAL, apply_edit
from muvr_train.features.edits.overlays import title_card
from muvr_train.features.edits.temporal import take
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import OK, SHORT

SOURCE_FRAMES = 48
Sources = Callable[[str], Frames]
"""Gives the frames uint8 [T, H, W, 3] of a source by its name, or raises a DecodeError."""


@dataclass(frozen=True)
class SourceFrames:
    """Frames of sources by name, uint8 [T, h, w, 3], read-only: evenly sampled and shrunk.

    Small and picklable: the frames used last are kept once per process, whoever asks.

    Attributes:
        paths: name -> video file.
        frames: frames per source, from the centres of equal segments.
        short_side: pixels of the short side; smaller videos stay as they are.
        cache_mib: bound on the frames that this process keeps.
    """

    paths: Mapping[str, Path]
    frames: int = SOURCE_FRAMES
    short_side: int = 224
    cache_mib: int = 512

    def __call__(
        self, name: str, beat: Callable[[], None] = lambda: None, backends: Sequence[str] = BACKENDS
    ) -> Frames:
        """The frames of a source; safe in threads.

        Args:
            name: of the source.
            beat: called while it works.
            backends: readers to try.

        Raises:
            DecodeError: it cannot be decoded.
        """
        return self._get(name, beat, backends).frames

    def note(self, name: str) -> str:
        """What is wrong with a source that has been asked for and could be decoded in part; "" where nothing is."""
        return self._get(name, lambda: None, BACKENDS).note

    def only(self, names: Iterable[str]) -> SourceFrames:
        """The same with these sources alone, those that there are."""
        return replace(self, paths={name: self.paths[name] for name in sorted(set(names)) if name in self.paths})

    def manifest(self) -> dict[str, Any]:
        """What the store records."""
        return {"kind": "copies", "source_frames": self.frames, "short_side": self.short_side}

    def _get(self, name: str, beat: Callable[[], None], backends: Sequence[str]) -> _Kept:
        if name not in self.paths:
            raise DecodeError(f"{name}: the plan names this source, but there is no file for it")
        path = self.paths[name]
        try:
            file = path.stat()
        except OSError as error:
            raise DecodeError(f"{path}: {error.strerror}") from error
        key = (str(path), file.st_size, file.st_mtime_ns, self.frames, self.short_side)
        with _LOCK:
            if key in _KEPT:
                _KEPT.move_to_end(key)
                return _KEPT[key]
        made = self._decode(path, beat, backends)
        with _LOCK:
            _KEPT[key] = made
            while len(_KEPT) > 1 and sum(kept.frames.nbytes for kept in _KEPT.values()) > self.cache_mib * 2**20:
                _KEPT.popitem(last=False)
        return made

    def _decode(self, path: Path, beat: Callable[[], None], backends: Sequence[str]) -> _Kept:
        parts: list[Frames] = []
        made = stream_frames(
            path,
            FrameSampler(self.frames),
            lambda frames: parts.append(shrink(frames, self.short_side)),
            parts.clear,
            beat,
            backends,
        )
        frames: Frames = np.concatenate(parts)
        frames.flags.writeable = False
        return _Kept(frames, "" if made.status in (OK, SHORT) else f"{path.name} is {made.status}: {made.reason}")


@dataclass(frozen=True)
class _Kept:
    frames: Frames
    note: str


_KEPT: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()
_LOCK = threading.Lock()


def shrink(frames: Frames, short_side: int) -> Frames:
    """Scale frames uint8 [T, H, W, 3] down (anti-aliased) to that short side; smaller ones stay as they are."""
    height, width = frames.shape[1:3]
    scale = short_side / min(height, width)
    if scale >= 1:
        return frames
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    x = torch.from_numpy(np.require(frames, requirements=["C", "W"])).permute(0, 3, 1, 2)
    x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
    return x.permute(0, 2, 3, 1).contiguous().numpy()


def compose(recipe: Recipe, sources: Sources, beat: Callable[[], None] = lambda: None) -> list[Frames]:
    """The frames of each piece of a recipe, edited; pieces may differ in size.

    Raises:
        DecodeError: a source cannot be decoded.
    """
    return [_compose_piece(piece, sources, beat) for piece in recipe.pieces]


def _compose_piece(piece: Piece, sources: Sources, beat: Callable[[], None]) -> Frames:
    if piece.card:
        return title_card(piece.source, piece.frames)
    source = sources(piece.source)
    numbers: Any = np.arange(len(source))
    chosen = take(numbers, piece.start, piece.stop, piece.frames)
    first = next((place for place, edit in enumerate(piece.edits) if edit.name not in TEMPORAL), len(piece.edits))
    for edit in piece.edits[:first]:  # on the frames' numbers: pictures are copied once
        chosen = apply_edit(chosen, edit.name, **edit.settings)
    frames: Frames = source[chosen]
    for edit in piece.edits[first:]:
        settings = dict(edit.settings)
        if "host" in settings:
            start, stop = settings.pop("host_start"), settings.pop("host_stop")
            settings["host"] = take(sources(settings["host"]), start, stop, len(frames))
        frames = apply_edit(frames, edit.name, **settings)
        beat()
    return frames
