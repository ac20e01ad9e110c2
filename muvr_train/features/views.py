"""Jobs that give a video's frames and its edited views in one pass over the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.copies_draw import topic_of
from muvr_train.benchmarks.copies_recipes import Edit, Piece, Recipe
from muvr_train.errors import ConfigError
from muvr_train.features.compose import SOURCE_FRAMES, SourceFrames, compose, shrink
from muvr_train.features.decode import BACKENDS, DecodeError, Frames, stream_frames
from muvr_train.features.edits.views import choose_donors, draw_view
from muvr_train.features.jobs import PlainJob, Sink
from muvr_train.features.listing import Videos
from muvr_train.features.sampling import FrameSampler, uniform
from muvr_train.features.status import VideoStatus

DONOR_FRAMES = 16
DETAIL = 1.25  # pixels of the short side at which views are edited, as a multiple of what the encoder takes
SPARES = 3  # donors that are tried where one cannot be decoded
WINDOW = 64  # frames in a row of which views are made where the sampler has no fixed number


@dataclass(frozen=True)
class ViewSampler(FrameSampler):
    """The frames of another sampler, and those that views are made of.

    Views have a finer choice of frames than the video, so that slow motion shows other frames: `SOURCE_FRAMES`, or
    twice the sampler's number. Where that has no number (fps, all), they are made of at most `WINDOW` of its frames in
    a row, at a place drawn from the id.
    """

    plain: FrameSampler = field(default_factory=FrameSampler)
    place: float = 0.0
    chosen: dict[str, list[int]] = field(default_factory=dict)
    """What the last call of `select` chose: "plain", "views" and "all" of them, ascending."""

    @classmethod
    def of(cls, plain: FrameSampler, id_: str) -> ViewSampler:
        """Extend a sampler for the video of that id."""
        same = {part.name: getattr(plain, part.name) for part in fields(FrameSampler)}
        return cls(**same, plain=plain, place=Random(f"{id_}/window").random())

    def select(self, times: Sequence[float] | NDArray[np.floating]) -> list[int]:
        """All indices that are needed."""
        plain = self.plain.select(times)
        if self.frames is None:
            start = int(self.place * (max(0, len(plain) - WINDOW) + 1))
            views = plain[start : start + WINDOW]
        else:
            views = uniform(len(times), max(SOURCE_FRAMES, 2 * self.frames))
        every = sorted({*plain, *views})
        self.chosen.update({"plain": plain, "views": views, "all": every})
        return every


@dataclass(frozen=True)
class ViewsJob:
    """A video as `PlainJob` gives it (stream "video"), and its edited views, one per recipe.

    Attributes:
        id: its key in the store.
        path: the video file.
        sampler: of the plain video.
        recipes: of the views.
        donors: frames of the other videos that the recipes show, and of spare ones.
        short_side: pixels to which frames are shrunk before they are edited.
    """

    id: str
    path: Path
    sampler: FrameSampler
    recipes: tuple[Recipe, ...]
    donors: SourceFrames
    short_side: int

    @property
    def streams(self) -> tuple[str, ...]:
        """The plain one and one per view."""
        return ("video", *(recipe.stream for recipe in self.recipes))

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Decode and edit. A donor that cannot be decoded is replaced or left out, and named in the reason.

        Raises:
            DecodeError: the video itself cannot be decoded.
        """
        status, own = self._decode(sink, backends)
        share = 1.0 if self.sampler.frames is None else min(1.0, status.used / len(own))
        notes = [status.reason] if status.reason else []
        for recipe in self.recipes:

            def source(name: str) -> Frames:
                return own if name == self.id else self.donors(name, sink.beat, backends)

            usable, told = self._with_donors(_thinned(recipe, share), source)
            for frames in compose(usable, source, sink.beat):
                sink.emit(recipe.stream, frames)
            notes += [f"{recipe.stream}: {text}" for text in told]
        return replace(status, reason="; ".join(notes))

    def _decode(self, sink: Sink, backends: Sequence[str]) -> tuple[VideoStatus, Frames]:
        """Emit the plain video and give what views are made of, in one pass wherever the reader keeps to the choice."""
        sampler = ViewSampler.of(self.sampler, self.id)
        parts: list[Frames] = []
        done = 0

        def emit(frames: Frames) -> None:
            nonlocal done
            indices = sampler.chosen["all"][done : done + len(frames)]
            done += len(frames)
            plain, views = (np.isin(indices, sampler.chosen[name]) for name in ("plain", "views"))
            if plain.any():
                sink.emit("video", frames[: len(plain)][plain])
            if views.any():
                parts.append(shrink(frames[: len(views)][views], self.short_side))

        def restart() -> None:
            nonlocal done
            done = 0
            parts.clear()
            sink.restart()

        made = stream_frames(self.path, sampler, emit, restart, sink.beat, backends)
        if list(made.indices) == sampler.chosen["all"] == sampler.chosen["all"][:done]:
            used, counts = len(sampler.chosen["plain"]), (made.declared, made.found)
            status = VideoStatus(self.id, str(self.path), made.status, made.reason, *counts, used, made.backend)
            return status, np.concatenate(parts)
        sink.restart()  # the reader gave other frames than were chosen, as from a damaged file: two passes
        status = PlainJob(self.id, self.path, self.sampler).run(sink, backends)
        finer = SourceFrames({self.id: self.path}, max(SOURCE_FRAMES, status.used), self.short_side)
        return status, finer(self.id, sink.beat, backends)

    def _with_donors(self, recipe: Recipe, source: Callable[[str], Frames]) -> tuple[Recipe, list[str]]:
        """The recipe with donors that can be decoded, and what had to be changed."""
        names = sorted({name for piece in recipe.pieces for name, _, _ in piece.shown()} - {self.id})
        found: dict[str, str | None] = {}
        notes = []
        for name in names:
            for candidate in (name, *self._spares(name)):
                try:
                    source(candidate)
                except DecodeError as error:
                    notes.append(f"{candidate} cannot be shown in it ({error})")
                    continue
                found[name] = candidate
                if candidate != name:
                    notes.append(f"{candidate} is shown instead")
                break
            else:
                found[name] = None
                notes.append("no other video is shown instead")
        return (recipe if not notes else _replaced(recipe, found)), notes

    def _spares(self, name: str) -> list[str]:
        return _spares(list(self.donors.paths), name, self.id)


def _spares(donors: Sequence[str], name: str, id_: str) -> list[str]:
    """The donors that come after one, in a circle, without those of the same upload as the video."""
    ordered = sorted(donors)
    place = sum(donor <= name for donor in ordered)
    circle = [*ordered[place:], *ordered[:place]]
    return [donor for donor in circle if donor != name and topic_of(donor) != topic_of(id_)][:SPARES]


def _thinned(recipe: Recipe, share: float) -> Recipe:
    """The recipe with the share that its edit "thin" keeps."""
    return _edited(recipe, lambda edit: Edit("thin", {"share": share}) if edit.name == "thin" else edit)


def _replaced(recipe: Recipe, found: Mapping[str, str | None]) -> Recipe:
    """Rename donors; what shows one that became None is left out."""

    def renamed(edit: Edit) -> Edit | None:
        if "host" not in edit.settings:
            return edit
        host = found.get(edit.settings["host"], edit.settings["host"])
        return None if host is None else Edit(edit.name, {**edit.settings, "host": host})

    pieces = []
    for piece in recipe.pieces:
        source = piece.source if piece.card else found.get(piece.source, piece.source)
        if source is not None:
            pieces.append(replace(piece, source=source))
    return _edited(replace(recipe, pieces=tuple(pieces)), renamed)


def _edited(recipe: Recipe, change: Callable[[Edit], Edit | None]) -> Recipe:
    def edits(piece: Piece) -> tuple[Edit, ...]:
        return tuple(changed for edit in piece.edits if (changed := change(edit)))

    return replace(recipe, pieces=tuple(replace(piece, edits=edits(piece)) for piece in recipe.pieces))


def views_jobs(
    videos: Videos,
    sampler: FrameSampler,
    views: int,
    strength: float = 1.0,
    seed: int = 0,
    size: int = 224,
    folder: Iterable[tuple[str, Path]] | None = None,
) -> list[ViewsJob]:
    """Jobs that extract (id, path) pairs with `views` edited versions of each.

    Args:
        videos: what to extract.
        sampler: of the plain videos.
        views: how many.
        strength: of the edits, in [0, 1].
        seed: of the edits.
        size: pixels that the encoder takes; views are edited at `DETAIL` times as many.
        folder: the videos that may be shown in others' views; default `videos`.

    Raises:
        ConfigError: impossible numbers.
    """
    if views < 1 or not 0 <= strength <= 1:
        raise ConfigError(f"needs views >= 1 and a view_strength in [0, 1], got {views} and {strength}")
    paths = dict(videos if folder is None else folder)
    pool = choose_donors(paths, seed)
    donors = SourceFrames({name: paths[name] for name in pool}, DONOR_FRAMES, size)
    jobs = []
    for id_, path in videos:
        recipes = tuple(draw_view(id_, view, pool, seed, strength) for view in range(1, views + 1))
        shown = {name for recipe in recipes for piece in recipe.pieces for name, _, _ in piece.shown()} - {id_}
        spares = {spare for name in shown for spare in _spares(pool, name, id_)}
        jobs.append(ViewsJob(id_, path, sampler, recipes, donors.only(shown | spares), round(DETAIL * size)))
    return jobs


def views_manifest(strength: float, seed: int, size: int) -> dict[str, Any]:
    """What the store records of its views."""
    return {"strength": strength, "seed": seed, "short_side": round(DETAIL * size), "donor_frames": DONOR_FRAMES}
