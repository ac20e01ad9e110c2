"""What each process of tests/search/test_shares.py does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.processes import Group
from muvr_train.search import exhaustive
from muvr_train.search.calibration.fitting import Sample, fit
from muvr_train.search.calibration.pipeline import CalibratedScores, Calibration
from muvr_train.search.calibration.query_expansion import QueryExpansion
from muvr_train.search.calibration.z_fusion import ZFusion
from muvr_train.search.filter_scores import TagSettings
from muvr_train.search.sources import ModelScores
from muvr_train.types import Tokens
from tests.together import outcome

DIM, REGIONS = 8, 2
OFFICIAL = Protocol(on_missing="official")
MODES = ("v", "t", "tv")
VIDEOS = {f"é/{i}": 1 + (7 * i) % 5 for i in range(90)}
QUERIES = ("é/0", "é/1", "é/2", "é/3")
DATABASE = tuple(name for name in VIDEOS if name not in QUERIES)
PAIRS = ((QUERIES[0], "a"), (QUERIES[1], "b"), (QUERIES[1], "a"))
SIZES = (1, 2, 3, 7, 41, len(DATABASE))
BLOCKS = (1, 10**9)
"""Bytes of a block: of one video each, and as many as there may be."""


def write_store(path: Path) -> None:
    """Videos of 1 to 5 frames; the last query has no text, one tag is shared by two queries."""
    rng = np.random.default_rng(0)
    with StoreWriter(path, make_manifest("test"), "float32") as writer:
        for name, frames in VIDEOS.items():
            writer.add(name, rng.standard_normal((frames, REGIONS, DIM)))
        for name in QUERIES[:3]:
            writer.add(name, rng.standard_normal((2, 1, DIM)), stream="text")
        for name, tag in PAIRS:
            writer.add(tag_key(name, tag), np.full((1, 1, DIM), 1.0 if tag == "a" else -2.0), stream="tags")


def partition(size: int) -> Partition:
    queries = tuple(Query(id=name, partition="é", topic=name, text="x") for name in QUERIES)
    return Partition("é", queries, tuple(Judgement(query=name, positives={}) for name in QUERIES), DATABASE[:size])


def retriever(store: FeatureStore, kind: type) -> Retriever:
    torch.manual_seed(0)
    return Retriever(kind(DIM, REGIONS), MeanFusion(store.dims), store.dims)


class Noting(FeatureStore):
    """Notes which database videos are read, and refuses those of `broken`."""

    def __init__(self, path: Path, broken: Sequence[str] = (), error: type[Exception] = DataError) -> None:
        super().__init__(path)
        self.noted: list[str] = []
        self.broken, self.error = frozenset(broken), error

    def tokens(self, ids: Sequence[str], stream: str = "video") -> Tokens:
        self.noted += [name for name in ids if name in DATABASE]
        if lost := self.broken & set(ids):
            raise self.error(f"cannot read {sorted(lost)[0]}")
        return super().tokens(ids, stream)


def everything(group: Group, path: Path, poor: Path, toy: tuple[Path, Path]) -> dict[str, dict[Any, Any]]:
    """All of the below in one start of the processes."""
    return {
        "scores": score_all(group, path),
        "results": evaluate_all(group, *toy),
        "errors": fail_all(group, path, poor) if group.size > 1 else {},
    }


def score_all(group: Group, path: Path) -> dict[tuple[Any, ...], Any]:
    """Scores of several databases, block sizes and networks, and the database videos that this process has read."""
    found: dict[tuple[Any, ...], Any] = {}
    for kind in (FrameMax, S2VS):
        for size in SIZES if kind is FrameMax else (3, 41):
            for largest in BLOCKS:
                exhaustive.LARGEST_BLOCK["cpu"] = largest
                store = Noting(path)
                source = ModelScores(retriever(store, kind), store, group=group)
                scored = source.score(partition(size), MODES)
                key = (kind.__name__, size, largest)
                found[(*key, "read")] = tuple(store.noted)
                store.noted = []
                found[(*key, "tags")] = source.tag_scores(partition(size), PAIRS)
                found[(*key, "read tags")] = tuple(store.noted)
                found |= {(*key, mode): matrix.scores for mode, matrix in scored.items()}
    return found


def evaluate_all(group: Group, annotations: Path, path: Path) -> dict[str, Any]:
    """Rows of several evaluations of a toy data set with tags and regions."""
    store = FeatureStore(path)
    dims = store.dims
    model = Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims)
    exhaustive.LARGEST_BLOCK["cpu"] = 2000
    base = read_muvr(annotations).select("all", "full")
    tags = read_muvr(annotations, filters=True).select("all", "full")
    beside = read_muvr(annotations, filters="beside").select("all", "full")
    learned = Retriever(FrameMax(dims.dim, dims.regions), WeightedFusion(dims), dims)
    fewer = replace(base, partitions=(replace(base.partitions[0], database=base.partitions[0].database[:1]),))
    calibration = Calibration({"query_expansion": QueryExpansion(2), "z_fusion": ZFusion()})
    videos = tuple(name for name in store.ids() if name.startswith("dance/"))
    sample = Sample(store, videos, tuple(query for query in base.queries if query.id.startswith("dance/")))
    fit(calibration, model, sample, sample)
    calibrated = CalibratedScores(ModelScores(model, store, group=group), calibration)
    results = {
        "base": evaluate(model, store, base, replace(OFFICIAL, bootstrap=20, modes=MODES), group),
        "one video": evaluate(model, store, fewer, replace(OFFICIAL, modes=MODES), group),
        "tags": evaluate(model, store, tags, replace(OFFICIAL, tags=TagSettings((0.3, 10))), group),
        "beside": evaluate(learned, store, beside, OFFICIAL, group),
        "calibrated": evaluate_scores(calibrated, base, OFFICIAL),
    }
    return {name: (result.rows, result.per_query, result.notes) for name, result in results.items()}


def fail_all(group: Group, path: Path, poor: Path) -> dict[str, Any]:
    """What each process raises where one of them, or all, cannot go on; a good call afterwards must still work."""
    last = group.rank == group.size - 1
    whole = partition(41)

    def score(store: FeatureStore, part: Partition = whole, **settings: Any) -> Any:
        return outcome(
            lambda: ModelScores(retriever(store, FrameMax), store, group=group, **settings).score(part, ["v"])
        )

    nan = retriever(FeatureStore(path), FrameMax)
    assert nan.text_part is not None
    torch.nn.init.constant_(nan.text_part.projection.weight, float("nan") if last else 1.0)
    other = FeatureStore(poor if last else path)
    exhaustive.LARGEST_BLOCK["cpu"] = 1
    return {
        "a broken video": score(Noting(path, [DATABASE[0], DATABASE[1], DATABASE[2]] if last else [])),
        "a bug": score(Noting(path, DATABASE if last else [], ZeroDivisionError)),
        "queries": score(Noting(path, QUERIES if last else [])),
        "budget": score(FeatureStore(path), memory_budget=1),
        "other features": score(other),
        "nothing": score(FeatureStore(path), replace(whole, database=("é/none",))),
        "not a number": outcome(
            lambda: [
                matrix.refuse_nan()
                for matrix in ModelScores(nan, FeatureStore(path), group=group).score(whole, ["t"]).values()
            ]
        ),
        "missing": outcome(lambda: evaluate(nan, other, Benchmark("toy", (whole,)), None, group)),
        "good": score(FeatureStore(path))["v"].scores,
    }
