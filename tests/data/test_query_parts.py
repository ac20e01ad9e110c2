"""Tags, regions and hidden parts of training queries: right values, the same in one process and in several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.expressions import parse
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.data import augment
from muvr_train.data.augment import FeatureAugment
from muvr_train.data.batch import Batch, has_regions, load_queries, unfit_regions
from muvr_train.data.dataset import SupervisedBatches
from muvr_train.data.one_to_many import OneToManyPlan
from muvr_train.data.part_dropout import PartDropout
from muvr_train.data.tags import load_tags
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.processes import SINGLE, Group
from muvr_train.types import Masked, QueryBatch
from tests.parts import MARKED, make_parts
from tests.toy import DIM

EDITS = FeatureAugment(**dict.fromkeys(augment.EDITS, 0.3), max_frames=5)
SIZES = (1, 2, 3, 5)
World = tuple[Path, FeatureStore]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def batches(world: World) -> SupervisedBatches:
    return made(world)


def made(
    world: World, group: Group = SINGLE, dropout: PartDropout | None = None, tag_rows: int = 2
) -> SupervisedBatches:
    part = apply_splits(read_muvr(world[0], filters="beside")).select("train", "split")
    plan = OneToManyPlan(part, topics=4, tag_rows=tag_rows, seed=3)
    return SupervisedBatches(world[1], plan, EDITS, group, dropout, regions=True)


def test_conditions_by_hand(world: World) -> None:
    store = world[1]
    texts = ["+night", "-crowd", "AND +night -crowd", "OR +night +crowd", None]
    queries = ["news/t0q0", "news/t0q1", "news/t1q0", "news/t1q0", "dance/t0q0"]
    tags = load_tags(store, queries, [None if text is None else parse(text) for text in texts])
    assert tags is not None
    assert tags.sign.tolist() == [[1, 0], [-1, 0], [1, -1], [1, 1], [0, 0]]
    assert torch.equal(tags.mask, tags.sign != 0)
    assert tags.either.tolist() == [[False] * 2] * 3 + [[True] * 2, [False] * 2]
    night, crowd = (store.array(tag_key("news/t1q0", tag), "tags")[0, 0] for tag in ("night", "crowd"))
    expected = torch.from_numpy(np.stack([night / np.linalg.norm(night), crowd / np.linalg.norm(crowd)]))
    assert torch.allclose(tags.x[2], expected, atol=1e-6)
    assert torch.allclose(tags.x[3], expected, atol=1e-6)
    assert not tags.x[4].any()
    assert not tags.x[0, 1].any()
    assert load_tags(store, queries[:2], [None, None]) is None
    assert load_tags(store, [], []) is None


def test_a_tag_of_several_tokens_is_their_mean(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", {"encoder": "x"}, "float32") as writer:
        writer.add("q", np.ones((1, 1, 2), np.float32))
        writer.add(tag_key("q", "a"), np.array([[[3.0, 0.0]], [[0.0, 3.0]], [[3.0, 0.0]]], np.float32), "tags")
        writer.add(tag_key("q", "夜景"), np.array([[[0.0, 5.0]]], np.float32), "tags")
    tags = load_tags(FeatureStore(tmp_path / "store"), ["q"], [parse("+a -夜景")])
    assert tags is not None
    assert torch.allclose(tags.x[0], torch.tensor([[2.0, 1.0], [0.0, 5**0.5]]) / 5**0.5)


def test_a_tag_without_a_vector_is_named_once(world: World) -> None:
    wrong = [parse("+night -夜 景"), parse("+夜 景")]
    with pytest.raises(DataError, match=r"1 tags of queries have no vector: news/t0q0 '夜 景'"):
        load_tags(world[1], ["news/t0q0", "news/t0q0"], wrong)


def test_tags_and_regions_only_where_they_are_asked_for(world: World) -> None:
    benchmark, store = read_muvr(world[0]), world[1]
    plain = load_queries(store, benchmark.queries)
    assert (plain.tags, plain.region) == (None, None)
    assert set(plain.present) == {"video", "text"}
    full = load_queries(store, benchmark.queries, expressions=[None] * len(benchmark.queries), regions=True)
    assert full.tags is None
    assert full.present["tags"].tolist() == [False] * 20
    assert [name for name, flag in zip(full.ids, full.present["region"].tolist(), strict=True) if flag] == [*MARKED]
    assert full.region is not None
    row = full.ids.index("news/t1q0")
    assert torch.equal(full.region.x[row][full.region.mask[row]], torch.tensor(store.array("news/t1q0", "region")))
    assert not full.region.mask[1].any()


def test_regions_of_another_size_are_not_used(tmp_path: Path) -> None:
    annotations, store = make_parts(tmp_path, region_dim=DIM + 1)
    assert not has_regions(store)
    assert "the features of marked regions are 1 x 17 numbers a frame and those of videos 1 x 16" in str(
        unfit_regions(store)
    )
    batch = load_queries(store, read_muvr(annotations).queries, regions=True)
    assert batch.region is None
    assert "region" not in batch.present


def test_a_batch_holds_the_tags_of_its_rows(batches: SupervisedBatches) -> None:
    rows = 0
    for n in range(6):
        batch, plan = batches[n], batches.plan(n)
        tagged = [expression is not None for expression in plan.expressions]
        assert batch.queries.present["tags"].tolist() == tagged
        assert batch.queries.ids == tuple(query.id for query in plan.queries)
        tags = batch.queries.tags
        assert (tags is not None) == any(tagged)
        if tags is not None:
            assert tags.mask.any(dim=1).tolist() == tagged
        marked = [name in MARKED for name in batch.queries.ids]
        assert batch.queries.present["region"].tolist() == marked
        rows += sum(tagged)
    assert rows > 6


def every(queries: QueryBatch) -> dict[str, Masked | None]:
    return {"video": queries.video, "text": queries.text, "tags": queries.tags, "region": queries.region}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dropout", [None, PartDropout(0.5, 0.5, 0.5, 0.5)], ids=["whole", "hidden"])
def test_shares_side_by_side_are_the_whole_batch(world: World, size: int, dropout: PartDropout | None) -> None:
    for n in range(3):
        whole = made(world, dropout=dropout)[n]
        shares = [made(world, Group(rank, size), dropout)[n] for rank in range(size)]
        for share in shares:
            assert torch.equal(share.relevance, whole.relevance)
            assert torch.equal(share.tag_relevance, whole.tag_relevance)  # type: ignore[arg-type]
            assert share.query_ids == whole.queries.ids
        for part, flags in whole.queries.present.items():
            assert torch.equal(torch.cat([share.queries.present[part] for share in shares]), flags)
        for part, tokens in every(whole.queries).items():
            parts = [every(share.queries)[part] for share in shares]
            rows = [row for one in parts if one is not None for row in one.x[one.mask]]
            wanted = [] if tokens is None else list(tokens.x[tokens.mask])
            assert len(rows) == len(wanted)
            assert all(torch.equal(a, b) for a, b in zip(rows, wanted, strict=True)), part
            if part == "tags" and tokens is not None:
                signs = [one.sign[one.mask] for one in parts if one is not None]  # type: ignore[attr-defined]
                assert torch.equal(torch.cat(signs), tokens.sign[tokens.mask])  # type: ignore[attr-defined]


def hidden_rows(whole: Batch, cut: Batch, part: str) -> list[bool]:
    before, after = whole.queries.present[part], cut.queries.present[part]
    assert not (after & ~before).any()
    return (before & ~after).tolist()


def test_hidden_parts_are_zeros_under_a_false_mask(world: World, batches: SupervisedBatches) -> None:
    cutting = made(world, dropout=PartDropout(0.5, 0.5, 0.5, 0.5))
    counts = dict.fromkeys(("video", "text", "tags", "region"), 0)
    for n in range(30):
        whole, cut = batches[n], cutting[n]
        assert cut.database_ids == whole.database_ids
        assert torch.equal(cut.database.x, whole.database.x)
        for part in counts:
            gone = torch.tensor(hidden_rows(whole, cut, part))
            tokens, before = every(cut.queries)[part], every(whole.queries)[part]
            counts[part] += int(gone.sum())
            if tokens is None or before is None:
                assert not gone.any()
                continue
            assert not tokens.mask[gone].any()
            assert not tokens.x[gone].any()
            assert torch.equal(tokens.x[~gone], before.x[~gone])
            assert torch.equal(tokens.mask[~gone], before.mask[~gone])
        votes = cut.queries.present["video"] | cut.queries.present["text"]
        assert votes.all()
    assert all(count > 5 for count in counts.values()), counts


@pytest.mark.parametrize(
    ("chance", "shares"), [((1.0, 1.0), (0.5, 0.5)), ((1.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (0, 1))]
)
def test_one_of_video_and_text_stays(chance: tuple[float, float], shares: tuple[float, float]) -> None:
    count = 4000
    mask = torch.ones(count, 1, dtype=torch.bool)
    queries = QueryBatch(tuple(map(str, range(count))), None, None, {"video": mask[:, 0], "text": mask[:, 0]})
    dropout = PartDropout(*chance)
    cut = dropout.hide(queries, dropout.rolls(0, 0, count))
    assert (cut.present["video"] | cut.present["text"]).all()
    for part, share in zip(("video", "text"), shares, strict=True):
        assert float((~cut.present[part]).float().mean()) == pytest.approx(share, abs=0.03)
    alone = QueryBatch(
        ("a", "b"), None, None, {"video": torch.tensor([True, False]), "text": torch.tensor([False, True])}
    )
    kept = PartDropout(1.0, 1.0).hide(alone, np.zeros((2, 5)))
    assert kept.present["video"].tolist() == [True, False]
    assert kept.present["text"].tolist() == [False, True]


def test_a_row_whose_tags_are_hidden_is_judged_without_them(world: World) -> None:
    whole, cut = made(world), made(world, dropout=PartDropout(tags=0.6))
    seen = 0
    for n in range(10):
        before, after, plan = whole[n], cut[n], whole.plan(n)
        gone = hidden_rows(before, after, "tags")
        for row, expression in enumerate(plan.expressions):
            plain = next(r for r, query in enumerate(plan.queries) if query.id == plan.queries[row].id)
            assert plan.expressions[plain] is None
            expected = before.relevance[plain if gone[row] else row]
            assert torch.equal(after.relevance[row], expected)
            seen += gone[row] and not torch.equal(before.relevance[plain], before.relevance[row])
            assert not (gone[row] and expression is None)
    assert seen > 3


def test_nothing_hidden_is_the_same_batch(world: World, batches: SupervisedBatches) -> None:
    assert not PartDropout()
    assert not made(world).dropout
    for n in range(3):
        one, other = batches[n], made(world, dropout=PartDropout(region=1e-12))[n]
        assert torch.equal(one.relevance, other.relevance)
        for part, tokens in every(one.queries).items():
            same = every(other.queries)[part]
            assert (tokens is None) == (same is None)
            assert tokens is None or same is None or torch.equal(tokens.x, same.x)


def test_moving_a_batch_takes_every_part_along(batches: SupervisedBatches) -> None:
    batch = next(batches[n] for n in range(9) if batches[n].queries.tags is not None and batches[n].queries.region)
    moved = batch.to("meta")
    for part, tokens in every(moved.queries).items():
        assert tokens is not None
        assert {value.device.type for value in vars(tokens).values() if value is not None} == {"meta"}, part
    assert {flags.device.type for flags in moved.queries.present.values()} == {"meta"}
    assert moved.queries.tags is not None
    assert batch.queries.tags is not None
    assert moved.queries.tags.sign.shape == batch.queries.tags.sign.shape
    assert batch.tag_relevance is not None
    assert moved.tag_relevance is not None
    assert moved.tag_relevance.device.type == "meta"
    assert moved.tag_relevance.shape == batch.tag_relevance.shape == batch.relevance.shape


@pytest.mark.parametrize("kind", ["chamfer", "s2vs"])
def test_gradients_stay_finite_where_parts_are_hidden(world: World, kind: str) -> None:
    dims = world[1].dims
    torch.manual_seed(0)
    network = Chamfer(dims.dim, dims.regions) if kind == "chamfer" else S2VS(dims.dim, dims.regions)
    model = Retriever(network, WeightedFusion(dims), dims).train()
    hiding = made(world, dropout=PartDropout(0.7, 0.3, 0.3, 0.3))
    for n in range(3):
        batch = hiding[n]
        encoded = model.encode_batch(batch.queries, batch.database)
        scores, extras = model.training_scores(*encoded, frozenset({"range_excess", "self"}))
        assert torch.isfinite(scores["fused"]).all()
        assert not scores["video"][~batch.queries.present["video"]].any()
        model.zero_grad()
        (sum(value.square().sum() for value in (*scores.values(), extras["range_excess"], extras["self"]))).backward()
        grads = [value.grad for value in model.parameters() if value.grad is not None]
        assert grads
        assert all(torch.isfinite(grad).all() for grad in grads)
    assert model.head.tag_weight.grad is not None
