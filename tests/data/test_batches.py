"""Batches: right by id, pure functions of their number, the same in every worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import Batch, load_queries, scatter_rows
from muvr_train.data.dataset import SelfSupervisedBatches, SupervisedBatches
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.types import Tokens

TOPICS = 6


def make_benchmark() -> Benchmark:
    """Two queries per topic; the second lists only one of the topic's three matches, the others are not judged."""
    queries, judgements, database, topics = [], [], [], {}
    for t in range(TOPICS):
        matches = [f"p/m{t}{i}" for i in range(3)]
        database += [*matches, f"p/hard{t}"]
        topics |= {video: frozenset({f"p/{t}"}) for video in matches}
        for i in range(2):
            query = f"p/q{t}{i}"
            queries.append(Query(query, "p", f"p/{t}", split="train"))
            positives = dict.fromkeys(matches if i == 0 else matches[:1], "match")
            hard = frozenset({f"p/hard{t}"})
            judgements.append(Judgement(query, positives, hard | {"p/easy"}, hard))
    partition = Partition("p", tuple(queries), tuple(judgements), (*database, "p/easy"), topics)
    return Benchmark("toy", (partition,))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    out = tmp_path_factory.mktemp("store") / "toy"
    rng = np.random.default_rng(0)
    benchmark = make_benchmark()
    with StoreWriter(out, {"encoder": "random numbers"}, dtype="float32") as writer:
        for video in benchmark.video_ids:
            writer.add(video, rng.standard_normal((rng.integers(1, 6), 2, 8), dtype=np.float32))
        for video in ("p/m00", "p/m10"):
            writer.add(video, np.full((3, 2, 8), 7.0, dtype=np.float32), stream="view1")
        for query in benchmark.queries[:-1]:
            writer.add(query.id, rng.standard_normal((1, 1, 4), dtype=np.float32), stream="text")
    return FeatureStore(out)


def equal(one: Batch, other: Batch) -> bool:
    same = one.database_ids == other.database_ids and one.queries.ids == other.queries.ids
    return same and torch.equal(one.database.x, other.database.x) and torch.equal(one.relevance, other.relevance)


def test_relevance_comes_from_ids() -> None:
    plan = OneToManyPlan(make_benchmark(), topics=3, queries_per_topic=2, positives=3, hard_negatives=2, seed=3)
    seen = set()
    for n in range(20):
        batch = plan(n)
        for row, query in enumerate(batch.queries):
            for column, video in enumerate(batch.database):
                value = batch.relevance[row, column]
                topic, second = query.id[3], query.id[4] == "1"
                if video == query.id:
                    expected = -1
                elif video.startswith(f"p/m{topic}"):
                    expected = -1 if second and not video.endswith("0") else 1
                elif video.startswith(f"p/q{topic}"):
                    expected = -1
                else:
                    expected = 0
                assert value == expected, (query.id, video)
                seen.add(expected)
    assert seen == {-1, 0, 1}


def test_every_topic_is_drawn_once_in_a_pass() -> None:
    plan = OneToManyPlan(make_benchmark(), topics=2, queries_per_topic=1, seed=1)
    assert plan.batches_per_pass == 3
    for start in (0, 3, 6):
        topics = [query.topic for n in range(start, start + 3) for query in plan(n).queries]
        assert sorted(topics) == [f"p/{t}" for t in range(TOPICS)]


def test_a_batch_stays_in_one_partition() -> None:
    first = make_benchmark()
    second = make_benchmark().partitions[0]
    renamed = tuple(
        replace(query, id="o" + query.id, partition="op", topic="o" + query.topic) for query in second.queries
    )
    judged = tuple(replace(row, query="o" + row.query) for row in second.judgements)
    both = Benchmark("toy", (*first.partitions, replace(second, name="op", queries=renamed, judgements=judged)))
    for apart in (True, False):
        plan = OneToManyPlan(both, topics=3, queries_per_topic=1, one_partition=apart)
        assert plan.batches_per_pass == 4
        mixed = [len({query.partition for query in plan(n).queries}) for n in range(8)]
        assert (set(mixed) == {1}) == apart
        assert len({query.topic for n in range(4) for query in plan(n).queries}) == 2 * TOPICS


def test_hard_negatives_come_first_and_numbers_hold() -> None:
    plan = OneToManyPlan(
        make_benchmark(), topics=1, queries_per_topic=1, positives=2, hard_negatives=2, query_videos=False
    )
    batch = plan(0)
    topic = batch.queries[0].id[3]
    assert f"p/hard{topic}" in batch.database
    assert "p/easy" in batch.database
    assert len(batch.database) == len(set(batch.database))


def test_a_batch_is_a_function_of_seed_and_number(store: FeatureStore) -> None:
    augment = FeatureAugment(temporal_crop=0.5, frame_mixing=0.5, foreign_intro=0.5, noise=0.5)
    first, second, other = (
        SupervisedBatches(store, OneToManyPlan(make_benchmark(), topics=3, seed=seed), augment) for seed in (1, 1, 2)
    )
    assert equal(first[5], second[5])
    assert not equal(first[5], first[6])
    assert not equal(first[5], other[5])


def test_no_positives_is_an_error() -> None:
    benchmark = make_benchmark()
    empty = tuple(Judgement(row.query, {}, row.negatives) for row in benchmark.judgements)
    bare = Benchmark("toy", (Partition("p", benchmark.queries, empty, ()),))
    with pytest.raises(DataError, match="no query with a positive"):
        OneToManyPlan(bare)


def test_self_supervised_pairs(store: FeatureStore) -> None:
    videos = store.ids()[:8]
    strong = FeatureAugment(noise=1.0)
    batch = SelfSupervisedBatches(store, videos, 4, FeatureAugment(), strong, seed=0)[0]
    assert batch.relevance.shape == (8, 8)
    for row in range(8):
        assert batch.relevance[row, row] == -1
        assert batch.relevance[row, (row + 4) % 8] == 1
    assert (batch.relevance == 0).sum() == 8 * 6
    assert batch.queries.ids[:4] == batch.queries.ids[4:]
    plain = store.tokens(batch.database_ids[:4])
    length = plain.x.shape[1]
    assert torch.equal(batch.database.x[:4, :length], plain.x)
    assert not torch.equal(batch.database.x[4:, :length], plain.x)


def test_shared_intros_are_cards_where_there_are_some(store: FeatureStore, tmp_path: Path) -> None:
    videos = [f"p/m{t}0" for t in range(TOPICS)]
    width = store.shape()
    with StoreWriter(tmp_path / "cards", {"encoder": "x"}, "float32") as writer:
        for video in videos:
            writer.add(video, store.array(video))
        for number in range(2):
            writer.add(f"card {number}", np.full((3, *width), 100.0 + number, np.float32), "cards")
    with_cards = FeatureStore(tmp_path / "cards")
    batches = SelfSupervisedBatches(with_cards, videos, 4, FeatureAugment(), FeatureAugment(), 0, shared_intros=0.5)
    first = torch.cat([batches[n].database.x[:, 0, 0, 0] for n in range(20)])
    assert {100.0, 101.0} <= set(first.tolist())
    assert 0.3 < float((first >= 100).float().mean()) < 0.7
    batch = batches[3]
    for row, video in enumerate(batch.database_ids):
        x = batch.database.x[row][batch.database.mask[row]]
        kept = x[3:] if x[0, 0, 0] >= 100 else x
        assert torch.equal(kept, with_cards.tensors([video])[0])
    without = SelfSupervisedBatches(store, videos, 4, FeatureAugment(), FeatureAugment(), 0, shared_intros=1.0)[0]
    lengths = torch.tensor([store.length(video) for video in without.database_ids])
    assert (without.database.mask.sum(1) > lengths).all(), "parts of other videos stand in"
    again = SelfSupervisedBatches(with_cards, videos, 4, FeatureAugment(), FeatureAugment(), 0, shared_intros=0.5)[3]
    assert torch.equal(again.database.x, batch.database.x)


def test_stored_views_are_drawn(store: FeatureStore) -> None:
    batches = SelfSupervisedBatches(store, ["p/m00", "p/m10"], 2, FeatureAugment(), FeatureAugment(), seed=0)
    strong = [bool((batches[n].database.x[2 + i, :3] == 7.0).all()) for n in range(20) for i in range(2)]
    weak = [bool((batches[n].database.x[i, :3] == 7.0).all()) for n in range(20) for i in range(2)]
    assert 5 < sum(strong) < 35
    assert not any(weak)


def test_queries_without_a_part(store: FeatureStore) -> None:
    benchmark = make_benchmark()
    batch = load_queries(store, benchmark.queries)
    assert batch.present["text"].tolist() == [True] * 11 + [False]
    assert batch.present["video"].all()
    assert batch.text is not None
    assert batch.text.x.shape == (12, 1, 4)
    assert not batch.text.mask[-1].any()
    stranger = Query("p/nowhere", "p", "p/0", text="somewhere else")
    lost = load_queries(store, [stranger, benchmark.queries[0]])
    assert lost.present["video"].tolist() == [False, True]
    assert lost.video is not None
    assert not lost.video.mask[0].any()


def test_scatter_rows_keeps_values() -> None:
    tokens = Tokens(torch.ones(2, 3, 1, 2), torch.ones(2, 3, dtype=torch.bool))
    spread = scatter_rows(tokens, [0, 2], 4)
    assert spread.mask.any(dim=1).tolist() == [True, False, True, False]
    assert torch.equal(spread.x[[0, 2]], tokens.x)


def test_a_folder_of_one_video_cannot_be_trained_on(store: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least 2 training videos, got 1"):
        SelfSupervisedBatches(store, ["p/m00"], 4, FeatureAugment(), FeatureAugment())
