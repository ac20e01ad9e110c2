"""Small worlds of feature vectors in which one thing is wrong with raw scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.search.calibration.base import CalibrationStep
from muvr_train.search.calibration.fitting import Sample, fit
from muvr_train.search.calibration.pipeline import CalibratedScores, Calibration
from muvr_train.search.sources import ModelScores

Vectors = NDArray[Any]


@dataclass
class World:
    """Videos [T, D] (or [D], one frame); texts [D] and positives by query id. Training ids begin with `train/`."""

    videos: dict[str, Vectors] = field(default_factory=dict)
    texts: dict[str, Vectors] = field(default_factory=dict)
    positives: dict[str, list[str]] = field(default_factory=dict)

    def queries(self, training: bool) -> tuple[Query, ...]:
        names = [name for name in self.positives if name.startswith("train/") == training]
        return tuple(Query(name, "all", "topic", text="words" if name in self.texts else None) for name in names)

    @property
    def benchmark(self) -> Benchmark:
        queries = self.queries(training=False)
        judgements = tuple(Judgement(q.id, dict.fromkeys(self.positives[q.id], "match")) for q in queries)
        database = tuple(name for name in self.videos if not name.startswith("train/") and name not in self.positives)
        return Benchmark("world", (Partition("all", queries, judgements, database),))

    def write(self, folder: Path) -> FeatureStore:
        with StoreWriter(folder, {"encoder": "numbers", "text_aligned": True}, dtype="float32") as writer:
            for name, vectors in self.videos.items():
                writer.add(name, np.atleast_2d(vectors)[:, None].astype(np.float32))
            for name, vector in self.texts.items():
                writer.add(name, np.atleast_2d(vector)[:, None].astype(np.float32), stream="text")
        return FeatureStore(folder)

    def sample(self, store: FeatureStore) -> Sample:
        videos = tuple(name for name in self.videos if name.startswith("train/"))
        return Sample(store, videos, self.queries(training=True))


def frame_max(store: FeatureStore) -> Retriever:
    """MUVR's untrained scorer."""
    return Retriever(FrameMax(store.dims.dim, store.dims.regions), MeanFusion(store.dims), store.dims)


def fitted(world: World, store: FeatureStore, steps: Mapping[str, CalibrationStep]) -> CalibratedScores:
    """Scores behind steps that were fitted on the world's training videos."""
    model, calibration = frame_max(store), Calibration(steps)
    fit(calibration, model, world.sample(store), world.sample(store))
    return CalibratedScores(ModelScores(model, store), calibration)


def raw_and_calibrated(
    world: World, folder: Path, steps: Mapping[str, CalibrationStep], mode: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Metrics of a mode without and with steps."""
    store = world.write(folder)
    protocol = Protocol(modes=(mode,), ks=(1,))
    raw = evaluate_scores(ModelScores(frame_max(store), store), world.benchmark, protocol)
    after = evaluate_scores(fitted(world, store, steps), world.benchmark, protocol)
    return raw.metrics(mode), after.metrics(mode)


def unit(vector: Vectors) -> Vectors:
    """L2-normalised."""
    return np.asarray(vector / np.linalg.norm(vector))
