"""The copies benchmark's videos as jobs of decoder processes: composed in memory from the frames of their sources."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muvr_train.benchmarks.copies import CopiesPlan
from muvr_train.benchmarks.copies_draw import NAME
from muvr_train.benchmarks.copies_recipes import Recipe
from muvr_train.errors import DataError
from muvr_train.features.compose import SourceFrames, compose
from muvr_train.features.decode import BACKENDS
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.events import Done
from muvr_train.features.jobs import Sink
from muvr_train.features.manifest import make_manifest
from muvr_train.features.pool import TIMEOUT_SECONDS, DecodePool
from muvr_train.features.progress import track
from muvr_train.features.status import OK, TRUNCATED, VideoStatus

PLAN = "copies.json"
COMPOSED = "composed"  # stands for the reader in the statuses


@dataclass(frozen=True)
class ComposeJob:
    """The composed videos of one id: `recipes`, one per stream."""

    id: str
    path: Path
    recipes: tuple[Recipe, ...]
    sources: SourceFrames

    @property
    def streams(self) -> tuple[str, ...]:
        """One per recipe."""
        return tuple(recipe.stream for recipe in self.recipes)

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Compose them; a source that is damaged is used as far as it decodes, and named.

        Raises:
            DecodeError: a source cannot be decoded.
        """
        counts = []
        for recipe in self.recipes:
            pieces = compose(recipe, lambda name: self.sources(name, sink.beat, backends), sink.beat)
            for frames in pieces:
                sink.emit(recipe.stream, frames)
            counts.append(sum(map(len, pieces)))
        notes = "; ".join(note for name in self.sources.paths if (note := self.sources.note(name)))
        status = TRUNCATED if notes else OK
        return VideoStatus(self.id, str(self.path), status, notes, 0, counts[0], counts[0], COMPOSED)


@dataclass(frozen=True)
class SourceJob:
    """Decodes a source and gives nothing: to learn whether it can be used. No stream lacks it, so it is never to do."""

    id: str
    path: Path
    sources: SourceFrames
    streams: tuple[str, ...] = ()

    def run(self, sink: Sink, backends: Sequence[str] = BACKENDS) -> VideoStatus:
        """Decode it.

        Raises:
            DecodeError: it cannot be decoded.
        """
        name = next(iter(self.sources.paths))
        found = len(self.sources(name, sink.beat, backends))
        note = self.sources.note(name)
        return VideoStatus(self.id, str(self.path), TRUNCATED if note else OK, note, 0, found, found)


def find_usable(
    sources: SourceFrames, workers: int | None = None, progress: bool = True, timeout: float = TIMEOUT_SECONDS
) -> tuple[list[str], list[VideoStatus]]:
    """Decode every source once, in processes that are killed when they hang.

    Returns:
        The names of those that can be used, and the statuses of the others (ids `copies/<name>`).
    """
    names = sorted(sources.paths)
    jobs = [SourceJob(f"{NAME}/{name}", sources.paths[name], sources.only([name])) for name in names]
    pool = DecodePool(jobs, _as_it_is, workers or len(os.sched_getaffinity(0)), timeout)
    statuses = (event.status for event in pool if isinstance(event, Done))
    usable, failures = [], []
    for name, status in track(zip(names, statuses, strict=True), len(names), "decoding sources", progress):
        if status.failed:
            failures.append(status)
        else:
            usable.append(name)
    return usable, failures


def compose_jobs(plan: CopiesPlan, sources: SourceFrames) -> list[ComposeJob]:
    """The jobs of all videos of a plan, those of one source side by side."""
    by_id: dict[str, list[Recipe]] = {}
    for recipe in plan.recipes:
        by_id.setdefault(recipe.id, []).append(recipe)
    return [_job(id_, tuple(recipes), sources) for id_, recipes in by_id.items()]


def _job(id_: str, recipes: tuple[Recipe, ...], sources: SourceFrames) -> ComposeJob:
    names = [name for recipe in recipes for piece in recipe.pieces for name, _, _ in piece.shown()]
    first = names[0] if names else recipes[0].pieces[0].source  # a title card shows no source
    return ComposeJob(id_, Path(sources.paths.get(first, first)), recipes, sources.only(names))


def copies_manifest(plan: CopiesPlan, sources: SourceFrames, encoder: FrameEncoder) -> dict[str, Any]:
    """The manifest of the store that `training.copies.extract_copies` makes."""
    described = encoder.manifest()
    if isinstance(described.get("features"), Mapping):
        described["features"] = {"video": described["features"].get("video")}
    return make_manifest(**{**described, "sampling": {**sources.manifest(), "plan": plan.digest}})


def read_plan(store: Path) -> CopiesPlan:
    """The plan of a store that `training.copies.extract_copies` made.

    Raises:
        DataError: the store holds none.
    """
    file = store / PLAN
    if not file.is_file():
        raise DataError(
            f"data.features={store} holds no {PLAN}: it was not made for the copies benchmark. "
            "Give data.videos=DIR, from which it is made"
        )
    try:
        return CopiesPlan.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, DataError) as error:
        raise DataError(f"{file}: {error}") from error


def _as_it_is(frames: Any) -> Any:
    return frames
