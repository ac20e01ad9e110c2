"""What heads keep in memory is counted, and a video without a real frame sends them no NaN."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.product import HarrisFusion, ProductFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.search import exhaustive
from muvr_train.search.exhaustive import query_scorer, rewritten_modes, token_copies
from muvr_train.types import EncodedQuery, QueryBatch, StoreDims, TextTokens, Tokens

DIMS = StoreDims(2, 6, 5)
Q, N = 5, 4


def world() -> tuple[QueryBatch, Tokens]:
    generator = torch.Generator().manual_seed(3)
    video = Tokens(torch.randn(Q, 6, 2, 6, generator=generator), torch.ones(Q, 6, dtype=torch.bool))
    text = TextTokens(torch.randn(Q, 2, 5, generator=generator), torch.ones(Q, 2, dtype=torch.bool))
    present = {
        "video": torch.tensor([True, True, True, True, False]),
        "text": torch.tensor([True, True, True, False, True]),
    }
    database = [torch.randn(length, 2, 6, generator=generator) for length in (5, 9, 4, 7)]
    return QueryBatch(tuple("abcde"), video, text, present), Tokens.pack(database)


def model_of(head: type, network: type = Chamfer) -> Retriever:
    torch.manual_seed(1)
    built = head(DIMS)
    maps = {"extra_maps": built.extra_maps} if built.extra_maps else {}
    model = Retriever(network(6, 2, **maps), built, DIMS).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def step(
    model: Retriever, wanted: frozenset[str] = frozenset()
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Scores, extras, gradients by name."""
    queries, database = world()
    scores, extras = model.training_scores(model.encode_query(queries), model.encode_database(database), wanted)
    slopes = torch.randn(Q, N, generator=torch.Generator().manual_seed(5))
    sum(
        (value * slopes).sum() for value in [*scores.values(), *(extras[name].view(Q, -1) * 1.0 for name in wanted)]
    ).backward()
    grads = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {name: value.detach() for name, value in scores.items()}, extras, grads


@pytest.mark.parametrize(("network", "budget"), [(Chamfer, 40_000), (S2VS, 200_000)])
@pytest.mark.parametrize("side", ["target", "both"])
def test_under_a_budget_queries_are_weighed_one_at_a_time(side: str, network: type, budget: int) -> None:
    head = partial(QueryScoring, side=side)
    whole, tight = model_of(head, network), model_of(head, network)
    calls: list[int] = []
    compare = tight.head.compare

    def noting(query: EncodedQuery, *others: object) -> dict[str, Tensor]:
        calls.append(len(query.query))
        return compare(query, *others)

    tight.head.compare = noting
    tight.network.memory_budget = budget
    queries, database = world()
    encoded = tight.encode_query(queries), tight.encode_database(database)
    assert tight.head.training_bytes(*encoded) == 3 * encoded[1].index.x.nbytes
    expected, found = (step(model, frozenset({"self", "range_excess"})) for model in (whole, tight))
    assert calls[:Q] == [1] * Q
    for one, other in zip(found[:2], expected[:2], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert found[2].keys() == expected[2].keys()
    for name, grad in expected[2].items():
        torch.testing.assert_close(found[2][name], grad, atol=2e-6, rtol=1e-5, msg=name)


def test_without_a_budget_queries_are_weighed_one_at_a_time_where_it_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first pass keeps for the backward pass holds no weighted copy of the database."""

    def largest_kept() -> int:
        model, held = model_of(partial(QueryScoring, side="target")), []
        queries, database = world()
        q, n = model.encode_query(queries), model.encode_database(database)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: held.append(x.numel()) or x, lambda x: x):
            model.training_scores(q, n)
        return max(held, default=0)

    copy = N * 9 * 2 * 6
    assert largest_kept() >= copy
    monkeypatch.setattr("muvr_train.models.rows.RECOMPUTE_ABOVE", {"cpu": 1000})
    assert largest_kept() < copy


def test_heads_count_what_they_hold() -> None:
    queries, database = world()
    for head in (Combiner, CrossAttention, MeanFusion, WeightedFusion, QueryScoring):
        model = model_of(head)
        both = model.encode_query(queries), model.encode_database(database)
        silent = model.encode_query(QueryBatch(queries.ids, queries.video, None, {"video": torch.ones(Q).bool()}))
        own = model.head.training_bytes(*both)
        assert (own > 4 * 6 * 2 * 10 * 6) == (head in (Combiner, CrossAttention))
        assert model.head.training_bytes(silent, both[1]) == 0
        assert rewritten_modes(model.head, ["v", "t", "tv"]) == (0 if head in (MeanFusion, WeightedFusion) else 2)
        assert token_copies(model.head, DIMS, 100, 6) == exhaustive.COPIES


@pytest.mark.parametrize(
    ("head", "bytes_per_frame"),
    [(MapChannel(DIMS), 12 * 100), (QueryScoring(DIMS, "target"), 12 * 100 + 3 * 4 * 12), (QueryScoring(DIMS), 0)],
)
def test_blocks_of_the_database_leave_room_for_the_head(head: MapChannel | QueryScoring, bytes_per_frame: int) -> None:
    assert head.scoring_bytes(100, 6) == bytes_per_frame
    assert head.scoring_bytes(100, 0) == 0
    assert token_copies(head, DIMS, 100, 6) == pytest.approx(4 + bytes_per_frame / (4 * 12))
    assert token_copies(head, DIMS, 1000, 6) == token_copies(head, DIMS, 128, 6)


def test_maps_of_other_heads_are_counted_in_full() -> None:
    head = MeanFusion(DIMS)
    head.extra_maps = 2
    assert head.scoring_bytes(100, 6) == 12 * 2 * 100 * 6


@pytest.mark.parametrize(
    "head", [QueryScoring, Combiner, CrossAttention, WeightedFusion, partial(QueryScoring, side="both")]
)
def test_queries_are_prepared_once_for_all_blocks(head: type) -> None:
    model = model_of(head).eval()
    queries, database = world()
    queries = QueryBatch(
        queries.ids, queries.video, queries.text, dict.fromkeys(("video", "text"), torch.ones(Q).bool())
    )
    calls: list[str] = []
    prepare, index = model.head.prepare, model.network.index
    model.head.prepare = lambda query: calls.append("prepare") or prepare(query)
    modes = ["tv", "v", "t"]
    with torch.inference_mode():
        encoded = model.encode_database(database)
        expected = {mode: model.score_modes(model.encode_query(queries), encoded, [mode])[mode] for mode in modes}
        score = query_scorer(model, queries, modes, query_block=3)
        calls.clear()
        model.network.index = lambda tokens: calls.append("index") or index(tokens)
        blocks = [score(encoded[slice(start, start + 2)]) for start in (0, 2)]
    assert calls == []
    for mode in modes:
        torch.testing.assert_close(
            torch.cat([block[mode] for block in blocks], dim=1), expected[mode], atol=1e-6, rtol=0
        )


@pytest.mark.parametrize(
    "head",
    [
        WeightedFusion,
        GatedFusion,
        ProductFusion,
        HarrisFusion,
        QueryScoring,
        CoVR,
        Combiner,
        CrossAttention,
        MeanFusion,
    ],
)
def test_a_blank_video_gives_no_nan(head: type) -> None:
    model = model_of(head)
    queries, database = world()
    database.mask[2] = False
    scores, _ = model.training_scores(model.encode_query(queries), model.encode_database(database))
    assert torch.isneginf(scores["fused"][:, 2]).all()
    others = scores["fused"][:, [0, 1, 3]]
    assert torch.isfinite(others).all()
    seen = torch.where(torch.isneginf(scores["fused"]), 0.0, scores["fused"])
    (seen * torch.randn(Q, N) + scores["fused"].softmax(dim=1)).sum().backward()
    bad = [name for name, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()]
    assert bad == []
    whole = Tokens(database.x[[0, 1, 3]], database.mask[[0, 1, 3]])
    alone, _ = model.training_scores(model.encode_query(queries), model.encode_database(whole))
    torch.testing.assert_close(alone["fused"], others, atol=1e-6, rtol=0)
