"""Videos of the copies benchmark, which are no files: composed of their sources when a question is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from muvr_train.benchmarks.copies_recipes import Recipe
from muvr_train.errors import DataError
from muvr_train.rerank.digests import digest_of
from muvr_train.rerank.kept import KeptPixels
from muvr_train.rerank.pictures import VERSION, shrink
from muvr_train.rerank.types import Clip, Picture, Pixels, Visual
from muvr_train.rerank.visuals import Absent, Media

if TYPE_CHECKING:
    from muvr_train.features.compose import SourceFrames

SHORT_SIDE = 448
"""Pixels of the short side in which sources are cut and edited; smaller ones stay as they are."""
KEPT = KeptPixels()


@dataclass(frozen=True)
class Composition:
    """Frames of a composed video, made when they are asked for.

    Attributes:
        recipe: of the video.
        sources: name -> video file, with all that the recipe shows.
        frames: how many, from the centres of equal segments.
        resolution: most pixels of the long side, None for as many as there are.
        still: one frame as a `Picture`.
    """

    recipe: Recipe
    sources: SourceFrames
    frames: int
    resolution: int | None
    still: bool = False

    def key(self) -> str:
        """What determines the pixels: the recipe, the content of its sources and how they are sampled.

        Raises:
            DataError: a file is not there.
        """
        names = sorted(sources_of(self.recipe))
        facts = {
            "recipe": self.recipe.to_json(),
            "sources": {name: digest_of(self.sources.paths[name]) for name in names},
            "source_frames": self.sources.frames,
            "short_side": self.sources.short_side,
            "frames": self.frames,
            "resolution": self.resolution,
            "still": self.still,
            "version": VERSION,
        }
        return json.dumps(facts, sort_keys=True)

    def load(self) -> Picture | Clip:
        """Compose it, or give what is kept of it; the pixels are read-only.

        Raises:
            DataError: a source cannot be decoded.
        """
        return KEPT.get(self.key(), self._compose)

    def _compose(self) -> Picture | Clip:
        from muvr_train.features.compose import compose
        from muvr_train.features.decode import DecodeError
        from muvr_train.features.sampling import uniform

        try:
            frames = [frame for piece in compose(self.recipe, self.sources) for frame in piece]
        except DecodeError as error:
            raise DataError(f"video {self.recipe.id}: {error}") from error
        chosen = [shrink(frames[place], self.resolution) for place in uniform(len(frames), self.frames)]
        chosen = [letterboxed(frame, *chosen[0].shape[:2]) for frame in chosen]
        for picture in chosen:
            picture.flags.writeable = False  # other questions see the same ones
        return Picture(chosen[0]) if self.still else Clip(tuple(chosen))


def letterboxed(frame: Pixels, height: int, width: int) -> Pixels:
    """Scale a frame uint8 [H, W, 3] into [height, width, 3], black where it has another shape: a copy.

    The pieces of a composed video may differ in size; the frames of a video have one.
    """
    from PIL import Image

    if frame.shape[:2] == (height, width):
        return frame.copy()
    scale = min(height / frame.shape[0], width / frame.shape[1])
    rows, columns = (
        max(1, min(most, round(size * scale))) for size, most in zip(frame.shape, (height, width), strict=False)
    )
    made = np.zeros((height, width, 3), np.uint8)
    top, left = (height - rows) // 2, (width - columns) // 2
    scaled = Image.fromarray(frame).resize((columns, rows), Image.Resampling.BICUBIC)
    made[top : top + rows, left : left + columns] = np.asarray(scaled)
    return made


def sources_of(recipe: Recipe) -> set[str]:
    """Names of all videos that are seen in a composed one."""
    return {name for piece in recipe.pieces for name, _, _ in piece.shown()}


@dataclass(frozen=True)
class ComposedMedia(Media):
    """Finds the videos of the copies benchmark.

    Attributes:
        recipes: of its videos, by id.
    """

    recipes: Mapping[str, Recipe] = field(default_factory=dict)

    @classmethod
    def of_store(cls, store: Path, videos: Path) -> ComposedMedia:
        """Those of the plan that a store was made by.

        Args:
            store: with the features.
            videos: the folder of the sources.

        Raises:
            DataError: the store has no plan, or there are no videos.
        """
        from muvr_train.features.copies import read_plan
        from muvr_train.features.listing import list_videos

        recipes = {recipe.id: recipe for recipe in read_plan(store).recipes if recipe.stream == "video"}
        return cls(dict(list_videos(videos)), recipes=recipes)

    def video(self, name: str, frames: int, resolution: int | None = None) -> Visual:
        """A `Clip` of a video; where a source is missing, a visual that says so when it is loaded."""
        return self._visual(name, frames, resolution, still=False)

    def query(self, name: str, masks: Path | None, frames: int = 1, resolution: int | None = None) -> Visual:  # noqa: ARG002 (copies have no masks)
        """The same of a query's video; one frame is a `Picture`."""
        return self._visual(name, frames, resolution, still=frames == 1)

    def _visual(self, name: str, frames: int, resolution: int | None, still: bool) -> Visual:
        kind = "image" if still else "video"
        if name not in self.recipes:
            return Absent(f"video {name}: not in the plan that the features were made by").visual(kind, name)
        recipe = self.recipes[name]
        if lacking := sorted(sources_of(recipe) - self.videos.keys()):
            return Absent(f"video {name}: no such file in data.videos: {lacking[0]}").visual(kind, name)
        made = Composition(recipe, self._sources, frames, resolution, still)
        return Visual("image" if still else "video", name, made.key, made.load)

    @cached_property
    def _sources(self) -> SourceFrames:
        from muvr_train.features.compose import SourceFrames

        return SourceFrames(self.videos, short_side=SHORT_SIDE)
