"""Queries whose video has another id than they: two may show one video, with different texts and matches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.holes import without_missing
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.table import read_table
from muvr_train.benchmarks.types import Benchmark
from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import load_queries
from muvr_train.data.dataset import SupervisedBatches
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.evaluation import Protocol, evaluate
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.reports.picture import save_similarity_picture
from tests.tables import write_csv

VIDEOS = {"a": (1, 0, 0, 0), "b": (1, 1, 0, 0), "c": (1, 0, 1, 0), "d": (0, 0, 0, 1), "e": (0.9, 0, 0.1, 0)}
TEXTS = {"qb": (0, 1, 0, 0), "qc": (0, 0, 1, 0)}
"""Both show video a; the text of qb asks for b, that of qc for c. The video alone finds e before both."""


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    folder = tmp_path / "table"
    folder.mkdir()
    write_csv(folder / "videos.csv", ["video"], [[video] for video in VIDEOS])
    entries = [{"id": query, "video": "a", "text": f"like {query[1]}"} for query in TEXTS]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, entries)))
    rows = [("qb", "b", 1), ("qc", "c", 1), ("qb", "d", 0), ("qc", "d", 0), ("qc", "e", -1)]
    write_csv(folder / "relevance.csv", ["query", "video", "label"], rows)
    return apply_splits(read_table(folder), "topic", (1.0, 0.0, 0.0))


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    with StoreWriter(tmp_path / "store", make_manifest("toy", text_aligned=True), "float32") as writer:
        for stream, vectors in (("video", VIDEOS), ("text", TEXTS)):
            for name, vector in vectors.items():
                writer.add(name, np.array(vector, np.float32)[None, None], stream)
    return FeatureStore(tmp_path / "store")


def test_each_query_has_the_frames_of_its_video_and_its_own_text(benchmark: Benchmark, store: FeatureStore) -> None:
    batch = load_queries(store, benchmark.queries)
    assert batch.ids == ("qb", "qc")
    assert batch.video is not None
    assert batch.text is not None
    assert batch.video.x[:, 0, 0].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]
    assert batch.text.x[:, 0].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert batch.present["video"].tolist() == batch.present["text"].tolist() == [True, True]


def test_they_are_ranked_without_their_video_and_without_what_nobody_judged(
    benchmark: Benchmark, store: FeatureStore
) -> None:
    dims = store.dims
    model = Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims)
    results = evaluate(model, store, benchmark.select("all", "full"), Protocol(ks=(1,), keep_scores=True))
    per_query = {(row["mode"], row["query"]): row["AP"] for row in results.per_query}
    # v: e 0.99, b and c 0.71, d 0. For qb b ties with c behind e; e is not judged for qc, so c ties with b for the top.
    assert per_query["v", "qb"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert per_query["v", "qc"] == pytest.approx((1 / 1 + 1 / 2) / 2)
    assert per_query["t", "qb"] == per_query["t", "qc"] == pytest.approx(1.0)
    assert per_query["tv", "qb"] == per_query["tv", "qc"] == pytest.approx(1.0)
    judged = next(kept.judged for kept in results.kept if kept.mode == "v")
    assert judged.database == tuple("abcde")
    assert judged.relevance.tolist() == [[-1, 1, 0, 0, 0], [-1, 0, 1, 0, -1]]
    assert judged.n_positive.tolist() == [1, 1]


def test_a_training_batch_holds_the_video_once_and_as_nobodys_match(benchmark: Benchmark, store: FeatureStore) -> None:
    plan = OneToManyPlan(
        benchmark.select("train", "split"), topics=2, queries_per_topic=2, positives=2, hard_negatives=2
    )
    batch = SupervisedBatches(store, plan, FeatureAugment())[0]
    assert sorted(batch.queries.ids) == ["qb", "qc"]
    assert sorted(batch.database_ids) == ["a", "b", "c", "d"]
    where = {video: column for column, video in enumerate(batch.database_ids)}
    relevance = {query: batch.relevance[row] for row, query in enumerate(batch.queries.ids)}
    for query, match, other in (("qb", "b", "c"), ("qc", "c", "b")):
        assert relevance[query][where["a"]] == -1
        assert relevance[query][where[match]] == 1
        assert relevance[query][where["d"]] == 0
        assert (
            relevance[query][where[other]] == -1
        )  # a match of the other query of the topic: nobody looked at the pair
    assert batch.queries.video is not None
    assert torch.equal(batch.queries.video.x[0], batch.queries.video.x[1])


def test_without_the_video_both_queries_go(benchmark: Benchmark) -> None:
    left, missing = without_missing(benchmark, lambda video: video != "a")
    assert missing == 1
    assert left.queries == left.judgements == ()
    assert left.video_ids == ("b", "c", "d", "e")
    assert left.video_topics == {"b": {"all/qb"}, "c": {"all/qb"}}


def test_search_topics_of_a_query_video_are_those_of_all_its_queries(benchmark: Benchmark) -> None:
    assert benchmark.video_topics["a"] == {"all/qb"}
    assert set(benchmark.video_topics) == {"a", "b", "c"}


def test_the_picture_finds_the_frames(benchmark: Benchmark, store: FeatureStore, tmp_path: Path) -> None:
    dims = store.dims
    model = Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims)
    path = save_similarity_picture(tmp_path / "map.png", model, store, benchmark.select("all", "full"))
    assert path is not None
    assert path.stat().st_size > 1000
