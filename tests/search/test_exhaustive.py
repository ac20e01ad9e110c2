"""Streamed scoring against plain loops: no block size, order or precision changes a score, and memory is bounded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.budget import demands, refuse_small_budget
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.search import exhaustive
from muvr_train.search.exhaustive import Demand, block_bytes, plan_blocks
from muvr_train.search.sources import ModelScores
from muvr_train.types import Tokens
from tests.reference import similarity as slow

DIM, REGIONS = 8, 2
CPU = torch.device("cpu")
VIDEOS = {f"é/{i}": 1 + (7 * i) % 5 for i in range(40)}
QUERIES = ("é/0", "é/1", "é/2", "é/3")
PARTITION = Partition(
    "é",
    tuple(Query(id=name, partition="é", topic=name, text="x") for name in QUERIES),
    tuple(Judgement(query=name, positives={f"é/{10 + i}": "match"}) for i, name in enumerate(QUERIES)),
    tuple(name for name in VIDEOS if name not in QUERIES),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """Videos of 1 to 5 frames; the last query has no text, one tag is shared by two queries."""
    path = tmp_path_factory.mktemp("scores") / "store"
    rng = np.random.default_rng(0)
    with StoreWriter(path, make_manifest("test"), shard_mib=0.002) as writer:
        for name, frames in VIDEOS.items():
            writer.add(name, rng.standard_normal((frames, REGIONS, DIM)).astype(np.float16))
        for name in QUERIES[:3]:
            writer.add(name, rng.standard_normal((2, 1, DIM)).astype(np.float16), stream="text")
        shared = rng.standard_normal((1, 1, DIM)).astype(np.float16)
        for name, tag in ((QUERIES[0], "a"), (QUERIES[1], "a"), (QUERIES[1], "b")):
            vector = shared if tag == "a" else shared[:, :, ::-1]
            writer.add(tag_key(name, tag), vector, stream="tags")
    return FeatureStore(path)


def retriever(store: FeatureStore, kind: type = FrameMax, **arguments: object) -> Retriever:
    torch.manual_seed(0)
    return Retriever(kind(DIM, REGIONS, **arguments), MeanFusion(store.dims), store.dims).train()


def video(store: FeatureStore, name: str) -> torch.Tensor:
    return torch.from_numpy(store.array(name).astype(np.float64))


def test_scores_equal_plain_loops(store):
    scored = ModelScores(retriever(store), store, memory_budget=20_000).score(PARTITION, ["v", "t", "tv"])
    assert scored["t"].queries == QUERIES[:3]
    assert scored["v"].queries == scored["tv"].queries == QUERIES
    for row, query in enumerate(QUERIES):
        for column, target in enumerate(PARTITION.database):
            v = slow.frame_max(video(store, query), video(store, target))
            assert scored["v"].scores[row, column] == pytest.approx(v, abs=1e-6)
            if query == QUERIES[3]:
                assert scored["tv"].scores[row, column] == pytest.approx(v, abs=1e-6)
                continue
            text = torch.from_numpy(store.array(query, "text").astype(np.float64))
            t = slow.frame_max(text, video(store, target))
            assert scored["t"].scores[row, column] == pytest.approx(t, abs=1e-6)
            assert scored["tv"].scores[row, column] == pytest.approx((v + t) / 2, abs=1e-6)


KINDS = [(FrameMax, {}), (Chamfer, {}), (S2VS, {"attention": True}), (FrameMax, {"block_elements": 50})]


@pytest.mark.parametrize(("kind", "arguments"), KINDS)
def test_block_size_and_order_change_no_score(store, kind, arguments):
    model = retriever(store, kind, **arguments)
    whole = ModelScores(model, store).score(PARTITION, ["v", "t", "tv"])
    tags = ModelScores(model, store).tag_scores(PARTITION, [(QUERIES[0], "a"), (QUERIES[1], "b"), (QUERIES[1], "a")])

    @settings(max_examples=12)
    @given(st.permutations(PARTITION.database), st.permutations(PARTITION.queries), st.integers(1, 4000))
    def check(database: list[str], queries: list[Query], block: int) -> None:
        mixed = replace(PARTITION, database=tuple(database), queries=tuple(queries))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exhaustive, "LARGEST_BLOCK", {"cpu": block})
            source = ModelScores(model, store)
            scored = source.score(mixed, ["v", "t", "tv"])
            pairs = [(QUERIES[1], "a"), (QUERIES[1], "b"), (QUERIES[0], "a")]
            again = source.tag_scores(mixed, pairs)[::-1]
        for mode, matrix in whole.items():
            assert scored[mode].database == tuple(database)
            back = scored[mode].take(matrix.queries, matrix.database)
            np.testing.assert_allclose(back.scores, matrix.scores, atol=1e-6, rtol=0)
        columns = [database.index(name) for name in PARTITION.database]
        np.testing.assert_allclose(again[:, columns], tags, atol=1e-6, rtol=0)

    check()


def test_equal_tags_of_two_queries_score_the_same(store):
    pairs = [(QUERIES[0], "a"), (QUERIES[1], "b"), (QUERIES[1], "a")]
    scores = ModelScores(retriever(store), store).tag_scores(PARTITION, pairs)
    assert scores.dtype == np.float32
    assert (scores[0] == scores[2]).all()
    assert (scores[0] != scores[1]).any()


@pytest.mark.parametrize("kind", [FrameMax, S2VS])
def test_scores_are_float32_under_autocast(store, kind):
    source = ModelScores(retriever(store, kind), store)
    plain = source.score(PARTITION, ["v", "tv"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = source.score(PARTITION, ["v", "tv"])
        tags = source.tag_scores(PARTITION, [(QUERIES[0], "a")])
    assert tags.dtype == np.float32
    for mode, matrix in plain.items():
        assert low[mode].scores.dtype == np.float32
        np.testing.assert_array_equal(low[mode].scores, matrix.scores)


def test_every_video_is_read_once_for_all_modes(store):
    class Noting(FeatureStore):
        read: list[str]

        def tokens(self, ids: Sequence[str], stream: str = "video") -> Tokens:
            self.read.extend(ids if stream == "video" else ())
            return super().tokens(ids, stream)

    noting = Noting(store.path)
    noting.read = []
    ModelScores(retriever(store), noting).score(PARTITION, ["v", "t", "tv"])
    assert sorted(noting.read) == sorted((*QUERIES, *PARTITION.database))


class LargestTensor(TorchDispatchMode):
    """Notes the entries of the largest tensor that an operation makes."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.entries = max(self.entries, result.numel())
        return result


def test_neither_all_frame_products_nor_all_tokens_exist_at_once(store):
    model = retriever(store, FrameMax, block_elements=100)
    most = max(VIDEOS.values())
    scores = 4 * len(QUERIES) * len(PARTITION.database)
    queries = 3 * 4 * DIM * (len(QUERIES) * most * REGIONS + len(QUERIES) * 2)
    with LargestTensor() as seen:
        ModelScores(model, store, memory_budget=scores + queries + 5 * 4 * 4 * DIM * REGIONS).score(PARTITION, ["v"])
    tokens_of_queries = len(QUERIES) * most * REGIONS * DIM
    assert seen.entries == tokens_of_queries
    assert tokens_of_queries < len(PARTITION.database) * DIM * REGIONS


def test_the_model_is_left_in_its_mode_whatever_happens(store):
    model = retriever(store)
    ModelScores(model, store).score(PARTITION, ["v"])
    assert model.training
    with pytest.raises(ConfigError):
        ModelScores(model, store, memory_budget=10).score(PARTITION, ["v"])
    assert model.training
    model.eval()
    ModelScores(model, store).tag_scores(PARTITION, [(QUERIES[0], "a")])
    assert not model.training


def test_a_budget_that_is_too_small_says_what_is_needed(store):
    with pytest.raises(
        ConfigError, match=r"memory_budget=1.0 kB is too small: .* give at least (\d+\.\d) kB"
    ) as caught:
        ModelScores(retriever(store), store, memory_budget=1000).score(PARTITION, ["v", "t", "tv"])
    needed = float(str(caught.value).split("at least ")[1].split(" ")[0])
    ModelScores(retriever(store), store, memory_budget=int(needed * 1000)).score(PARTITION, ["v", "t", "tv"])


@pytest.mark.parametrize("kind", [FrameMax, Chamfer])
def test_a_budget_that_the_network_shares(store, kind):
    model = retriever(store, kind)
    expected = ModelScores(model, store).score(PARTITION, ["v", "t", "tv"])
    model.network.memory_budget = 1000
    with pytest.raises(ConfigError, match=r"memory_budget=1.0 kB is too small") as caught:
        ModelScores(model, store, memory_budget=1000).score(PARTITION, ["v", "t", "tv"])
    needed = float(str(caught.value).split("at least ")[1].split(" ")[0])
    model.network.memory_budget = int(needed * 1000)
    scored = ModelScores(model, store, memory_budget=int(needed * 1000)).score(PARTITION, ["v", "t", "tv"])
    for mode, matrix in expected.items():
        np.testing.assert_allclose(scored[mode].scores, matrix.scores, atol=1e-6, rtol=0)


@pytest.mark.parametrize("source", ["at the start", "score"])
def test_a_budget_too_small_for_the_longest_pair_is_refused_before_anything_is_scored(store, source, monkeypatch):
    """It says what is needed in all, not what the part of the budget that a network gets would have to be."""
    model = retriever(store, S2VS)
    monkeypatch.setattr(model, "encode_database", lambda *_: pytest.fail("a block was read"))

    def check(scores: ModelScores) -> None:
        refuse_small_budget(scores, demands(scores, Benchmark("toy", (PARTITION,)), ["v"]))

    longest = max(VIDEOS[name] for name in QUERIES), max(VIDEOS[name] for name in PARTITION.database)
    tokens = 4 * 4 * 5 * REGIONS * DIM + 3 * 4 * DIM * (len(QUERIES) * 5 * REGIONS) + 4 * len(QUERIES) * len(VIDEOS)
    model.network.memory_budget = 30_000
    assert model.network.least_budget(*longest) > 30_000 > 4 * tokens / 3
    scores = ModelScores(model, store, memory_budget=30_000)
    with pytest.raises(ConfigError, match=r"memory_budget=30.0 kB is too small.*longest query") as caught:
        check(scores) if source == "at the start" else scores.score(PARTITION, ["v"])
    assert "max_frames" not in str(caught.value)
    monkeypatch.undo()
    needed = int(1000 * float(str(caught.value).split("at least ")[1].split(" ")[0]))
    model.network.memory_budget = needed
    scores = ModelScores(model, store, memory_budget=needed)
    check(scores)
    scores.score(PARTITION, ["v"])


def test_a_network_without_a_budget_needs_none(store):
    model = retriever(store, S2VS)
    assert model.network.least_budget(500, 500) == retriever(store).network.least_budget(500, 500) == 0
    model.network.memory_budget = 1
    cells = 4 * 600
    assert model.network.least_budget(3, 600) == 8 * cells * (model.network.head.cell_bytes(False) + 12 * REGIONS**2)


def test_block_bytes_are_bounded_by_budget_and_caches():
    assert block_bytes(CPU, 10_000, Demand(2_000, 100)) == 2_000
    assert block_bytes(CPU, 10_000, Demand(2_000, 100, work=4_000)) == 1_000
    assert block_bytes(CPU, 10**12, Demand(0, 100)) == exhaustive.LARGEST_BLOCK["cpu"]
    assert block_bytes(CPU, None, Demand(10**15, 100)) == 1
    assert block_bytes(CPU, None, Demand(0, 100)) > 1
    assert block_bytes(CPU, 10_000, Demand(2_000, 100, least=10_000)) == 2_000
    with pytest.raises(ConfigError, match=r"longest query .*; give at least 10.6 kB"):
        block_bytes(CPU, 9_999, Demand(2_000, 100, least=10_001))


def test_what_a_demand_says_is_enough_is_enough():
    """Of a budget a quarter is the network's work space, so that more is needed than what is held."""
    for held, largest, copies in ((2_000, 100, 4), (0, 10_000, 4.5), (123_456, 1, 4)):
        needed = Demand(held, largest, 1_000 // 4, copies=copies).enough(1_000)
        assert held + copies * largest < needed < 1.5 * (held + copies * largest)
        assert Demand(held, largest, needed // 4, copies=copies).enough(needed) == needed


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 40))
def test_blocks_hold_every_video_once_within_the_limit(sizes, limit):
    blocks = plan_blocks(np.array(sizes, dtype=np.int64), limit)
    assert sorted(place for block in blocks for place in block.tolist()) == list(range(len(sizes)))
    for block in blocks:
        assert len(block)
        assert len(block) == 1 or len(block) * max(sizes[place] for place in block) <= limit
    for one, other in itertools.pairwise(blocks):
        assert (len(one) + 1) * sizes[other[0]] > limit


def test_nothing_with_features_is_refused(store):
    with pytest.raises(DataError, match="no query has features"):
        ModelScores(retriever(store), store).score(replace(PARTITION, queries=()), ["v"])
    with pytest.raises(DataError, match="no database video has features"):
        ModelScores(retriever(store), store).score(replace(PARTITION, database=("é/none",)), ["v"])


def test_a_score_that_is_no_number_names_query_and_video(store):
    model = retriever(store)
    assert model.text_part is not None
    torch.nn.init.constant_(model.text_part.projection.weight, float("nan"))
    source = ModelScores(model, store)
    assert np.isfinite(source.score(PARTITION, ["v"])["v"].scores).all()
    with pytest.raises(DataError, match=r"query é/0 against video é/4: .* at the model \(FrameMax, MeanFusion\)"):
        source.score(PARTITION, ["v", "t"])


def test_texts_look_at_the_fine_grid_where_there_is_one(tmp_path: Path):
    rng = np.random.default_rng(1)
    with StoreWriter(tmp_path / "store", make_manifest("test")) as writer:
        for name in ("p/q", "p/a", "p/b", "p/c"):
            frames = 1 + ord(name[-1]) % 3
            writer.add(name, rng.standard_normal((frames, 1, 6)).astype(np.float32))
            writer.add(name, rng.standard_normal((frames, 3, 4)).astype(np.float32), stream="fine")
        writer.add("p/q", rng.standard_normal((1, 1, 4)).astype(np.float32), stream="text")
    store = FeatureStore(tmp_path / "store")
    queries = (Query(id="p/q", partition="p", topic="q", text="x"),)
    part = Partition("p", queries, (Judgement(query="p/q", positives={}),), ("p/a", "p/b", "p/c"))
    model = Retriever(FrameMax(6), MeanFusion(store.dims), store.dims)
    scored = ModelScores(model, store, memory_budget=2_000).score(part, ["v", "t"])
    for column, name in enumerate(part.database):
        text, fine = (torch.from_numpy(np.array(store.array(*key))) for key in (("p/q", "text"), (name, "fine")))
        assert scored["t"].scores[0, column] == pytest.approx(slow.frame_max(text, fine), abs=1e-6)
        frames = torch.from_numpy(np.array(store.array(name)))
        expected = slow.frame_max(video(store, "p/q"), frames.double())
        assert scored["v"].scores[0, column] == pytest.approx(expected, abs=1e-6)
