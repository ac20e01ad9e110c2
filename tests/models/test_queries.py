"""Tags and regions of queries in the retrieval model: values by hand, and what absent parts must not do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.queries import MODES, prepared, restrict
from muvr_train.models.retriever import Retriever
from muvr_train.types import EncodedDatabase, QueryBatch, StoreDims, Tags, TextTokens, Tokens

DIMS = StoreDims(regions=2, dim=6, text_dim=6)
YES, SOME = torch.ones(3, dtype=torch.bool), torch.tensor([True, True, False])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tags_of(sign: Tensor, either: tuple[bool, ...] = (False, False, False)) -> Tags:
    rows = torch.tensor(either)[:, None].expand(sign.shape)
    return Tags(normal(*sign.shape, 6, seed=5).masked_fill(sign[:, :, None] == 0, 0.0), sign != 0, sign, rows)


def queries(tags: Tags | None = None, region: Tokens | None = None) -> QueryBatch:
    """Three queries with video and text; the first two have tags, the first and the last a region."""
    present = {"video": YES, "text": YES}
    if tags is not None:
        present["tags"] = SOME
    if region is not None:
        present["region"] = torch.tensor([True, False, True])
    video = Tokens(normal(3, 5, 2, 6), torch.ones(3, 5, dtype=torch.bool))
    text = TextTokens(normal(3, 1, 6, seed=1), torch.ones(3, 1, dtype=torch.bool))
    return QueryBatch(("a", "b", "c"), video, text, present, tags, region)


def model(head: FusionHead | None = None) -> Retriever:
    return Retriever(Chamfer(6, 2), head or MeanFusion(DIMS), DIMS).eval()


def database(retriever: Retriever) -> EncodedDatabase:
    mask = torch.ones(4, 7, dtype=torch.bool)
    mask[1, 3:] = False
    return retriever.encode_database(Tokens(normal(4, 7, 2, 6, seed=3), mask))


SIGNS = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -1.0], [0.0, 0.0, 0.0]])


def cosine_to_best_frame(tag: Tensor, n: EncodedDatabase) -> Tensor:
    """Slow twin of the score of a tag: [N]."""
    unit = tag / tag.norm()
    return torch.stack([(n.raw.x[i][n.raw.mask[i]] @ unit).max() for i in range(len(n))])


@torch.no_grad()
def test_tags_of_the_mean_are_the_official_sum_with_weight_0_3() -> None:
    tags, m = tags_of(SIGNS), model()
    n = database(m)
    scores = m.score_modes(m.encode_query(queries(tags)), n, ["tv", "tv+tag"])
    for row in range(2):
        signed = sum(SIGNS[row, k] * cosine_to_best_frame(tags.x[row, k], n) for k in range(3) if SIGNS[row, k])
        torch.testing.assert_close(scores["tv+tag"][row], scores["tv"][row] + 0.3 * signed, atol=1e-6, rtol=0)
    torch.testing.assert_close(scores["tv+tag"][2], scores["tv"][2], atol=0, rtol=0)


@torch.no_grad()
def test_of_conditions_joined_by_or_the_best_counts() -> None:
    tags, m = tags_of(SIGNS, either=(False, True, False)), model(WeightedFusion(DIMS))
    m.head.tag_weight.fill_(0.5)
    m.head.tag_threshold.fill_(0.1)
    n = database(m)
    scores = m.score_modes(m.encode_query(queries(tags)), n, ["tv", "tv+tag"])
    conditions = [SIGNS[1, k] * (cosine_to_best_frame(tags.x[1, k], n) - 0.1) for k in range(3)]
    best = torch.stack(conditions).amax(dim=0)
    torch.testing.assert_close(scores["tv+tag"][1], scores["tv"][1] + 0.5 * best, atol=1e-6, rtol=0)


def test_a_learned_head_learns_the_weight_of_tags_and_the_mean_does_not() -> None:
    m = model(WeightedFusion(DIMS)).train()
    scores, extras = m.training_scores(m.encode_query(queries(tags_of(SIGNS))), database(m))
    assert extras["present/tags"].tolist() == [True, True, False]
    assert scores["tags"][2].abs().max() == 0
    scores["fused"].square().sum().backward()
    for name in ("tag_weight", "tag_threshold"):
        assert m.head.get_parameter(name).grad.abs() > 0
    assert not list(MeanFusion(DIMS).parameters())
    assert not list(MeanFusion(DIMS).state_dict())
    assert dict(WeightedFusion(StoreDims(1, 6)).named_parameters()).keys().isdisjoint({"tag_weight", "tag_threshold"})


@torch.no_grad()
def test_a_region_takes_the_place_of_the_video_only_where_the_mode_asks_for_it() -> None:
    region = Tokens(normal(3, 2, 1, 6, seed=7), torch.tensor([[True, True], [False, False], [True, False]]))
    m, plain = model(), queries()
    n = database(m)
    scores = m.score_modes(m.encode_query(queries(region=region)), n, ["v", "tv+region", "tv", "t"])
    assert list(scores) == ["v", "tv+region", "tv", "t"]
    without = m.score_modes(m.encode_query(plain), n, ["v", "tv", "t"])
    for mode, expected in without.items():
        torch.testing.assert_close(scores[mode], expected, atol=0, rtol=0)
    own = [region.x[0, :2].expand(2, 2, 6), plain.video.x[1], region.x[2, :1].expand(1, 2, 6)]
    asked = m.score(m.encode_query(replace(plain, video=Tokens.pack(own))), n)
    torch.testing.assert_close(scores["tv+region"], asked, atol=1e-6, rtol=0)
    torch.testing.assert_close(m.score(m.encode_query(queries(region=region)), n), asked, atol=1e-6, rtol=0)


def test_a_region_has_no_say_where_the_video_is_hidden() -> None:
    region = Tokens(normal(3, 2, 1, 6, seed=7), torch.ones(3, 2, dtype=torch.bool))
    q, m = queries(region=region), model()
    hidden = replace(q, present={**q.present, "video": torch.tensor([False, True, True])})
    texts = m.score_modes(m.encode_query(queries()), database(m), ["t"])["t"]
    torch.testing.assert_close(m.score(m.encode_query(hidden), database(m))[0], texts[0], atol=0, rtol=0)


@pytest.mark.parametrize("part", ["video", "text", "tags", "region"])
@pytest.mark.parametrize("garbage", [7.0, float("nan")])
def test_what_an_absent_part_holds_changes_neither_score_nor_gradient(part: str, garbage: float) -> None:
    region = Tokens(normal(3, 5, 1, 6, seed=7), torch.ones(3, 5, dtype=torch.bool))

    def result(dirty: bool) -> list[Tensor]:
        q = queries(tags_of(SIGNS), region)
        q = replace(q, present={**q.present, part: torch.tensor([False, True, True])})
        tokens = getattr(q, part)
        x = tokens.x.clone()
        x[0] = garbage if dirty else 0.0
        m = model(WeightedFusion(DIMS)).train()
        fused = m.training_scores(m.encode_query(replace(q, **{part: replace(tokens, x=x)})), database(m))[0]["fused"]
        fused.square().sum().backward()
        return [fused.detach(), *(p.grad for p in m.parameters() if p.grad is not None)]

    for ours, theirs in zip(result(True), result(False), strict=True):
        torch.testing.assert_close(ours, theirs, atol=0, rtol=0)


def test_queries_in_chunks_have_the_same_tags_and_gradients() -> None:
    def result(chunk: int | None) -> list[Tensor]:
        m = model(WeightedFusion(DIMS)).train()
        m.query_chunk = chunk
        scores, _ = m.training_scores(m.encode_query(queries(tags_of(SIGNS))), database(m))
        sum(value.square().sum() for value in scores.values()).backward()
        return [*scores.values(), *(p.grad for p in m.parameters() if p.grad is not None)]

    for ours, theirs in zip(result(1), result(None), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_video_without_a_real_frame_stays_minus_infinity_under_tags() -> None:
    m = model()
    mask = torch.ones(2, 3, dtype=torch.bool)
    mask[0] = False
    n = m.encode_database(Tokens(normal(2, 3, 2, 6), mask))
    scores = m.score(m.encode_query(queries(tags_of(SIGNS))), n)
    assert torch.isneginf(scores[:, 0]).all()
    assert torch.isfinite(scores[:, 1]).all()


def test_tags_alone_ask_for_nothing() -> None:
    q = queries(tags_of(SIGNS))
    m = model()
    off = torch.zeros(3, dtype=torch.bool)
    with pytest.raises(DataError, match="have none of the parts"):
        m.score(m.encode_query(replace(q, present={"video": off, "text": off, "tags": SOME})), database(m))


def test_modes_keep_their_parts_only() -> None:
    m = model()
    region = Tokens(normal(3, 2, 1, 6), torch.ones(3, 2, dtype=torch.bool))
    q = m.encode_query(queries(tags_of(SIGNS), region))
    for mode, parts in MODES.items():
        kept = restrict(q, parts)
        assert {name for name, flag in kept.query.present.items() if flag.any()} == set(parts)
        assert (kept.query.tags is not None) == ("tags" in parts)
        assert (kept.index is None) == (mode == "t")


def test_queries_can_be_chosen_and_moved_with_all_their_parts() -> None:
    q = queries(tags_of(SIGNS), Tokens(normal(3, 2, 1, 6), torch.ones(3, 2, dtype=torch.bool)))
    chosen = q[torch.tensor([2, 0])].to("cpu")
    assert chosen.ids == ("c", "a")
    for name in ("video", "text", "tags", "region"):
        torch.testing.assert_close(getattr(chosen, name).x, getattr(q, name).x[[2, 0]])
    torch.testing.assert_close(chosen.tags.sign, SIGNS[[2, 0]])
    assert prepared(q).tags.x.norm(dim=-1)[SIGNS != 0].sub(1).abs().max() < 1e-6
