"""Fitting a calibration: what its steps may look at, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from muvr_train.benchmarks.types import Partition, Query
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import Retriever
from muvr_train.search.calibration.background import Background
from muvr_train.search.calibration.base import Floats
from muvr_train.search.calibration.model import CalibratedRetriever
from muvr_train.search.calibration.pipeline import CalibratedScores, Calibration
from muvr_train.search.planning import device_of
from muvr_train.search.sources import ModelScores

FIT_VIDEOS, SCORED_VIDEOS, SCORED_QUERIES = 4096, 1024, 256
"""At most so many videos for means and whitening; columns and rows of the training scores (drawn with a seed)."""


@dataclass(frozen=True)
class Sample:
    """Videos and queries that may be learned from; none of them is a test query or matches one.

    Attributes:
        store: holds their features.
        videos: ids.
        queries: whose video is one of them.
        digests: of the videos' features, where the store is not the evaluated one.
    """

    store: FeatureStore
    videos: tuple[str, ...]
    queries: tuple[Query, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def texts(self) -> tuple[Query, ...]:
        """The queries that have a text vector."""
        return tuple(query for query in self.queries if self.store.has(query.id, "text"))


def fit(calibration: Calibration, model: Retriever, video: Sample, text: Sample, seed: int = 0) -> None:
    """Fit all steps in order, each on what the steps before it give.

    Args:
        calibration: its steps and its background are set.
        model: on its device, already fitted or trained.
        video: what frames, the background and scores of videos are learned from.
        text: what texts and their scores are learned from; the same, unless a background holds no texts.
        seed: of the draws.

    Raises:
        DataError: there is too little to learn from.
    """
    if not video.videos:
        raise DataError(
            f"the calibration has no training video with features in {video.store.path}; "
            "give some with calibration_background=STORE"
        )
    wanted = max(step.background_videos for step in calibration.steps.values())
    if wanted:
        calibration.background = Background.read(video.store, drawn(video.videos, wanted, seed))
    was_training = model.training
    model.eval()
    for place, step in enumerate(calibration.steps.values()):
        with torch.inference_mode():
            step.fit(_Context(calibration, place, model, video, text, seed))
        step.state = {name: value.detach().clone().cpu().contiguous() for name, value in step.state.items()}
    model.train(was_training)


def drawn(ids: Sequence[str], limit: int, seed: int) -> list[str]:
    """At most `limit` of the ids, sorted; the same for the same set and seed."""
    ordered = sorted(ids)
    if len(ordered) <= limit:
        return ordered
    return [ordered[i] for i in sorted(np.random.default_rng(seed).choice(len(ordered), limit, replace=False))]


class _Context:
    """`base.FitContext` for the step at a place of the chain."""

    def __init__(
        self, calibration: Calibration, place: int, model: Retriever, video: Sample, text: Sample, seed: int
    ) -> None:
        earlier = list(calibration.steps.values())[:place]
        on_features = [step for step in earlier if step.kind == "features"]
        self.calibration, self.last = calibration, len(earlier) - len(on_features)
        self.model, self.seed = model, seed
        self.seen = CalibratedRetriever(model, on_features)
        self.samples = {"video": video, "frames": video, "text": text}

    def vectors(self, part: str) -> Iterator[Tensor]:
        """See `base.FitContext`."""
        sample, device = self.samples[part], device_of(self.model)
        if part == "text":
            ids = drawn([query.id for query in sample.texts], FIT_VIDEOS, self.seed)
            stream = "text"
        else:
            ids = drawn(sample.videos, FIT_VIDEOS, self.seed)
            stream = "fine" if part == "frames" and sample.store.dims.fine_dim is not None else "video"
        for start in range(0, len(ids), 64):
            tokens = sample.store.tokens(ids[start : start + 64], stream).to(device)
            yield self.seen.calibrated(tokens, part).x[tokens.mask.to(device)].flatten(0, 1)

    def scores(self) -> Mapping[str, Floats]:
        """See `base.FitContext`."""
        found: dict[str, Floats] = {}
        for part, mode in (("video", "v"), ("text", "t")):
            sample = self.samples[part]
            asked = {query.id: query for query in (sample.texts if part == "text" else sample.queries)}
            queries = tuple(asked[name] for name in drawn(list(asked), SCORED_QUERIES, self.seed))
            source = ModelScores(self.model, sample.store)
            if not queries or mode not in source.modes:
                continue
            database = tuple(drawn(sample.videos, SCORED_VIDEOS, self.seed))
            partition = Partition("training", queries, (), database)
            rows = CalibratedScores(source, self.calibration, self.last).rows(partition, [mode])[mode]
            own = np.array(rows.own, dtype=object)[:, None] == np.array(rows.database, dtype=object)[None]
            found[part] = rows.scores[~own]
        return found
