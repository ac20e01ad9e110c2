"""Small results, kept scores and report contents for tests of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.reports.content import Limits, ReportContent
from muvr_train.results import Results
from muvr_train.search.scores import ScoreMatrix

NASTY = "<script>alert(1)</script>&\"'"
RTL = "שאילתה \u202e猫 ünï"
KS = (1, 2, 10)


class Table:
    """A score source of given matrices: partition -> mode -> [Q, N]."""

    pairwise = False

    def __init__(self, scores: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        self.scores = scores
        self.modes = tuple(next(iter(scores.values())))

    def refuse_missing(self, benchmark: Benchmark, modes: Any) -> None:
        pass

    def known_queries(self, partition: Partition) -> tuple[str, ...]:
        return partition.query_ids

    def score(self, partition: Partition, modes: Any) -> dict[str, ScoreMatrix]:
        own = self.scores[partition.name]
        return {mode: ScoreMatrix(partition.query_ids, partition.database, own[mode]) for mode in modes}


def make_partition(name: str, queries: int = 3, database: int = 6, nasty: str = "") -> Partition:
    """Query i matches the videos i and i + 1 of the database (modulo its size)."""
    ids = [f"{name}/q{i}{nasty}" for i in range(queries)]
    videos = tuple(f"{name}/v{i}{nasty}" for i in range(database))
    rows = tuple(
        Judgement(query, {videos[i % database]: "copy", videos[(i + 1) % database]: "event" + nasty}, frozenset())
        for i, query in enumerate(ids)
    )
    return Partition(name, tuple(Query(i, name, f"{name}/t", f"find {nasty} {RTL}") for i in ids), rows, videos)


def make_results(
    partitions: tuple[Partition, ...], modes: tuple[str, ...] = ("v", "tv"), seed: int = 0, name: str = "muvr_base"
) -> Results:
    rng = np.random.default_rng(seed)
    scores = {
        part.name: {mode: rng.random((len(part.queries), len(part.database))).astype(np.float32) for mode in modes}
        for part in partitions
    }
    protocol = Protocol(ks=KS, keep_scores=True)
    return evaluate_scores(Table(scores), Benchmark(name, partitions), protocol)


def make_content(nasty: str = "", **more: Any) -> ReportContent:
    """Two partitions, two modes, a baseline, a published row."""
    partitions = (make_partition("news" + nasty, nasty=nasty), make_partition("dance", 4, 7, nasty))
    model = "trained" + nasty
    named = {"frame_max": make_results(partitions, seed=1), model: make_results(partitions)}
    named[model].rows[0]["intervals"] = {"mAP": [0.125, 0.75]}
    for results in named.values():
        results.notes.append(f"{nasty}dance: left out of mode t")
    named["frame_max"].notes.append(nasty + "news: left out of mode t")
    named[model].breakdowns.append(
        {
            "benchmark": "muvr_base",
            "mode": "v",
            "partition": "mean",
            "group": "level" + nasty,
            "name": "copy" + nasty,
            "metrics": {"mAP": 0.375},
            "counts": {"positives": 12},
        }
    )
    meta = {
        "version": "0.1.0",
        "command": "evaluate.py out=" + nasty,
        "config": {"out": nasty},
        "store": {"path": "/x/" + nasty, "manifest": {"encoder": nasty}},
        "protocol": {"split": "all", "gallery": "full", "source": nasty},
        "ties": "average",
        "annotation_warnings": ["odd: " + nasty],
        "notes": ["how to read: " + nasty],
        "model": model,
    }
    references = [PublishedRow("S_1 & co" + nasty, "muvr_base", "v", "mean", {"mAP": 0.58, "recall@1": 0.25})]
    return ReportContent(model, named, meta, KS, references, **{"limits": Limits(queries=6, results=3), **more})
