"""A chain of calibration steps, and scores that have passed through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from muvr_train.benchmarks.muvr_filter import FilterRow
from muvr_train.benchmarks.types import Benchmark, Partition, Query
from muvr_train.data.batch import load_queries
from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.search.calibration.background import Background
from muvr_train.search.calibration.base import CalibrationStep, Floats, Rows
from muvr_train.search.calibration.model import CalibratedRetriever, keeps_its_input
from muvr_train.search.calibration.order import Kind, check_order
from muvr_train.search.exhaustive import Places, evaluating, query_scorer, score_blocks
from muvr_train.search.filter import TagPlaces
from muvr_train.search.planning import device_of
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import TAGGED, ModelScores
from muvr_train.types import EncodedDatabase

BACKGROUND_BLOCK = 64
KINDS = get_args(Kind)
HOOKS: dict[Kind, str] = {"features": "features", "fusion": "fuse", "scores": "scores"}
MODES = {"v": "v", "t": "t", "tv": "tv", TAGGED: "tv"}
"""The modes that a calibration knows, and in which steps change their scores: what tags add is changed by no step."""
_MODES_OF_PARTS = {"video": ("v", "tv"), "frames": ("t", "tv"), "text": ("t", "tv")}


class Calibration:
    """Named steps in the order in which they act: those on features first, then those on scores.

    Args:
        steps: by name.

    Raises:
        ConfigError: see `order.check_order`, a step is of no known kind, or it lacks the hook of its kind.
    """

    def __init__(self, steps: Mapping[str, CalibrationStep]) -> None:
        for name, step in steps.items():
            if step.kind not in KINDS:
                raise ConfigError(f"calibration.{name}: {type(step).__name__}.kind={step.kind!r} is none of {KINDS}")
            hook = HOOKS[step.kind]
            if getattr(type(step), hook) is getattr(CalibrationStep, hook):
                raise ConfigError(
                    f"calibration.{name}: {type(step).__name__} is of kind {step.kind} but has no method {hook}() of "
                    "its own, so it would change nothing"
                )
        check_order({name: step.kind for name, step in steps.items()}, None)
        self.steps = dict(steps)
        self.on_features = [step for step in steps.values() if step.kind == "features"]
        self.on_scores = [step for step in steps.values() if step.kind != "features"]
        self.background: Background | None = None

    def changed_modes(self, network: SimilarityNetwork) -> tuple[str, ...]:
        """Give the modes in which scores of a network change at all.

        Raises:
            ConfigError: a step acts on nothing but the input of a network that must get it as it is.
        """
        fixed = keeps_its_input(network)
        changed: set[str] = set()
        for name, step in self.steps.items():
            if step.kind != "features":
                changed |= set(step.modes)
                continue
            parts = [part for part in step.parts if not (fixed and part == "video")]
            if not parts:
                raise ConfigError(
                    f"calibration={name} changes what the network compares, but {type(network).__name__} has weights "
                    "or a whitening of its own, which expect the features as they are: leave the step out"
                )
            changed.update(mode for part in parts for mode in _MODES_OF_PARTS[part])
        return tuple(mode for mode, scored in MODES.items() if mode == scored and mode in changed)

    def state(self) -> dict[str, Tensor]:
        """All that was learned, as plain tensors by `<step>/<name>`; the background under the name ""."""
        parts = {name: step.state for name, step in self.steps.items()}
        if self.background is not None:
            parts[""] = self.background.state()
        return {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over a `state()` of the same steps."""
        parts: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, inner = key.rpartition("/")
            parts.setdefault(name, {})[inner] = value
        self.background = Background.from_state(parts.pop("")) if "" in parts else None
        for name, step in self.steps.items():
            step.state = parts.get(name, {})


class CalibratedScores:
    """The scores of a model after the steps of a fitted calibration; float32, like all final scores.

    A fusion step changes mode tv only: it merges the scores of modes v and t, and a query without a text keeps its
    video's vote. All other scores pass as they are.

    Args:
        source: of the raw scores.
        calibration: fitted.
        last: how many of the steps on scores are applied; None for all.
    """

    def __init__(self, source: ModelScores, calibration: Calibration, last: int | None = None) -> None:
        self.source, self.calibration = source, calibration
        self.modes = tuple(mode for mode in source.modes if mode in MODES)
        self.steps = calibration.on_scores[:last]
        self.pairwise = all(step.pairwise for step in self.steps)
        model = source.model
        if calibration.on_features:
            model = CalibratedRetriever(model, calibration.on_features)
        self.inner = ModelScores(model, source.store, source.frames_as_text, source.memory_budget, source.group)

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise if features are missing; see `ModelScores`."""
        self.source.refuse_missing(benchmark, modes)

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the queries whose video has features; see `ModelScores`."""
        return self.source.known_queries(partition)

    def has_tag(self, query: str, tag: str) -> bool:
        """Whether the store holds the vector of this tag of this query."""
        return self.source.has_tag(query, tag)

    def tag_scores(self, partition: Partition, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Scores of tags, which no step changes; see `ModelScores`."""
        return self.source.tag_scores(partition, pairs)

    @property
    def learns_tags(self) -> bool:
        """Whether the head learns the weight of tags."""
        return self.source.learns_tags

    def mean_tag_scores(
        self, partition: Partition, pairs: Sequence[tuple[str, str]], known: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Scores of tags as training compares them, which no step changes; see `ModelScores`."""
        return self.source.mean_tag_scores(partition, pairs, known)

    def tag_adjustments(
        self, rows: Sequence[FilterRow], places: Sequence[TagPlaces], tags: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What the head adds to the calibrated scores of mode tv; see `ModelScores`."""
        return self.source.tag_adjustments(rows, places, tags)

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """Calibrated scores of every query against every database video of a partition; float32 matrices."""
        rows = self.rows(partition, modes)
        return {
            mode: ScoreMatrix(rows[mode].queries, rows[mode].database, rows[mode].scores.astype(np.float32))
            for mode in modes
        }

    def rows(self, partition: Partition, modes: Sequence[str]) -> dict[str, Rows]:
        """Run all steps on the modes."""
        fused = "tv" in modes and any(step.kind == "fusion" for step in self.steps)
        return self._run(partition, self._raw(partition, ("v", "t") if fused else modes), modes)

    def _run(self, partition: Partition, rows: dict[str, Rows], modes: Sequence[str]) -> dict[str, Rows]:
        for place, step in enumerate(self.steps):
            if step.kind == "fusion":
                if "tv" in modes:
                    rows["tv"] = _fused(step, rows)
                rows = {mode: rows[mode] for mode in modes}
                continue
            for mode in [mode for mode in rows if mode in step.modes]:  # all processes in one order: a step may score
                rows[mode] = step.scores(replace(rows[mode], as_queries=self._asker(partition, mode, place)))
        return rows

    def _asker(self, partition: Partition, mode: str, place: int) -> Callable[[Sequence[str]], Rows]:
        """Database videos as queries: by their video alone, through the steps before `place`."""
        earlier = CalibratedScores(self.source, self.calibration, place)

        def ask(ids: Sequence[str]) -> Rows:
            queries = tuple(Query(id=video, partition=partition.name, topic="") for video in ids)
            part = replace(partition, queries=queries, judgements=())
            raw = earlier._raw(part, ["v"])
            fuses = any(step.kind == "fusion" for step in earlier.steps)
            return earlier._run(part, raw if fuses else {mode: raw["v"]}, [mode])[mode]

        return ask

    def _raw(self, partition: Partition, modes: Sequence[str]) -> dict[str, Rows]:
        """Scores after the steps on features."""
        queries = {query.id: query for query in partition.queries}
        result = {}
        for mode, matrix in self.inner.score(partition, modes).items():
            chosen = [queries[query] for query in matrix.queries]
            background, ids = self._background(chosen, mode)
            own = tuple(query.video_id for query in chosen)
            scores = matrix.scores.astype(np.float64)
            result[mode] = Rows(matrix.queries, own, matrix.database, scores, background, ids, _nobody)
        return result

    def _background(self, queries: Sequence[Query], mode: str) -> tuple[Floats, tuple[str, ...]]:
        background, model = self.calibration.background, self.inner.model
        if background is None:
            return np.zeros((len(queries), 0)), ()
        if not queries:
            return np.zeros((0, len(background.ids))), background.ids
        device, total = device_of(model), len(background.ids)

        def blocks() -> Iterator[tuple[Places, EncodedDatabase]]:
            for start in range(0, total, BACKGROUND_BLOCK):
                stop = min(start + BACKGROUND_BLOCK, total)
                yield np.arange(start, stop), background.encoded(model, device, start, stop)

        as_text = self.source.frames_as_text and mode != "v"
        batch = load_queries(self.source.store, queries, frames_as_text=as_text).to(device)
        with evaluating(model):
            (scores,) = score_blocks([query_scorer(model, batch, [mode])], blocks(), total)
        return scores[mode].astype(np.float64), background.ids


def _fused(step: CalibrationStep, rows: Mapping[str, Rows]) -> Rows:
    """Fuse the rows of v and t; queries without a text are fused by their video alone."""
    video, text = rows["v"], rows.get("t")
    place = {query: row for row, query in enumerate(video.queries)}
    both = [] if text is None else [place[query] for query in text.queries]
    alone = [row for row in place.values() if row not in set(both)]

    def merge(name: str) -> Floats:
        of_video: Floats = getattr(video, name)
        merged = np.empty_like(of_video)
        if text is not None:
            merged[both] = step.fuse({"video": of_video[both], "text": getattr(text, name)})
        if alone:
            merged[alone] = step.fuse({"video": of_video[alone]})
        return merged

    return replace(video, scores=merge("scores"), background=merge("background"))


def _nobody(ids: Sequence[str]) -> Rows:  # noqa: ARG001
    raise RuntimeError("rows of database videos are for steps on scores")
