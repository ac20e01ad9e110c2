"""Several processes share a batch: their shares, side by side, are the batch of a single process bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.data import augment
from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import Batch
from muvr_train.data.dataset import SelfSupervisedBatches, SupervisedBatches
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.processes import SINGLE, Group
from muvr_train.types import Tokens

ALL = FeatureAugment(**dict.fromkeys(augment.EDITS, 0.5), max_frames=7)
TOPICS = 3
SIZES = (1, 2, 3, 5, 11)


def toy_benchmark() -> Benchmark:
    """Topics of one query, two matches and a hard negative; query 1 has no text."""
    queries = tuple(Query(f"q{t}", "p", f"p/{t}", split="train") for t in range(TOPICS))
    judged = tuple(
        Judgement(f"q{t}", {f"m{t}0": "match", f"m{t}1": "match"}, frozenset({f"h{t}"}), frozenset({f"h{t}"}))
        for t in range(TOPICS)
    )
    database = tuple(f"{kind}{t}{i}" for t in range(TOPICS) for kind, i in (("m", 0), ("m", 1), ("h", "")))
    return Benchmark("toy", (Partition("p", queries, judged, database, {}),))


def write_store(path: Path, cards: bool) -> FeatureStore:
    rng = np.random.default_rng(0)

    def some(frames: int, regions: int = 2, dim: int = 8) -> np.ndarray:
        return rng.standard_normal((frames, regions, dim)).astype(np.float16)

    with StoreWriter(path, {"encoder": "random numbers"}, shard_mib=0.0005) as writer:
        for number, video in enumerate(toy_benchmark().video_ids):
            writer.add(video, some(1 + number % 9))
            writer.add(video, some(1 + number % 9, 3, 4), "fine")
            if number % 2:
                writer.add(video, some(5), "view1")
                writer.add(video, some(4), "view2")
        for query in ("q0", "q2"):
            writer.add(query, some(2, 1, 4), "text")
        for number in range(2 if cards else 0):
            writer.add(f"card {number}", some(3), "cards")
    return FeatureStore(path)


@pytest.fixture(scope="module", params=[True, False], ids=["cards", "no cards"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return write_store(tmp_path_factory.mktemp("store") / "toy", request.param)


def supervised(store: FeatureStore, group: Group = SINGLE) -> SupervisedBatches:
    plan = OneToManyPlan(toy_benchmark(), topics=TOPICS, positives=1, hard_negatives=1, seed=4)
    return SupervisedBatches(store, plan, ALL, group)


def self_supervised(store: FeatureStore, group: Group = SINGLE) -> SelfSupervisedBatches:
    weak = FeatureAugment(temporal_crop=0.5, max_frames=7)
    return SelfSupervisedBatches(store, store.ids(), 4, weak, ALL, 4, shared_intros=0.5, group=group)


def assert_same_rows(whole: Tokens | None, parts: list[Tokens]) -> None:
    assert whole is not None
    joined = Tokens.cat(parts)
    assert torch.equal(joined.mask, whole.mask)
    assert torch.equal(joined.x, whole.x)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("regime", [supervised, self_supervised])
def test_shares_side_by_side_are_the_whole_batch(store: FeatureStore, regime: type, size: int) -> None:
    groups = [Group(rank, size) for rank in range(size)]
    for n in range(6):
        whole: Batch = regime(store)[n]
        shares: list[Batch] = [regime(store, group)[n] for group in groups]
        for group, share in zip(groups, shares, strict=True):
            assert share.query_ids == whole.queries.ids
            assert share.database_ids == whole.database_ids
            assert torch.equal(share.relevance, whole.relevance)
            assert share.queries.ids == whole.queries.ids[group.share(len(whole.queries))]
        assert_same_rows(whole.database, [share.database for share in shares])
        assert_same_rows(whole.queries.video, [part.queries.video for part in shares if part.queries.video])
        for part in ("video", "text"):
            flags = torch.cat([share.queries.present[part] for share in shares])
            assert torch.equal(flags, whole.queries.present[part])
        if regime is supervised:
            assert_same_rows(whole.fine, [share.fine for share in shares if share.fine is not None])
            assert whole.queries.text is not None
            rows = [
                row for share in shares if share.queries.text for row in share.queries.text.x[share.queries.text.mask]
            ]
            assert torch.equal(torch.stack(rows), whole.queries.text.x[whole.queries.text.mask])


def test_a_process_without_a_video_holds_an_empty_batch(store: FeatureStore) -> None:
    share = supervised(store, Group(0, 11))[0]
    assert len(share.query_ids) == TOPICS
    assert len(share.queries) == len(share.database) == 0
    assert share.database.x.shape == (0, 1, 2, 8)
    assert share.queries.video is not None
    assert share.queries.video.x.shape == (0, 1, 2, 8)
    assert share.fine is not None
    assert share.fine.x.shape == (0, 1, 3, 4)
