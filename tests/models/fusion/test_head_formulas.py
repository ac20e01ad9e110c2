"""The learned heads against their formulas, one query and one pair at a time, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.product import HarrisFusion, ProductFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.types import QueryBatch, StoreDims, TextTokens, Tokens

DIMS = StoreDims(regions=2, dim=6, text_dim=5, fine_regions=3, fine_dim=4)
FRAMES, WORDS, TARGETS = (3, 5, 1, 4), (2, 1, 3, 2), (4, 1, 6)
HAS_VIDEO, HAS_TEXT = (True, True, True, False), (True, True, False, True)


def queries() -> QueryBatch:
    """Two queries with both parts, one with a video only, one with a text only."""
    generator = torch.Generator().manual_seed(0)
    video = Tokens.pack(
        [torch.randn(t if has else 0, 2, 6, generator=generator) for t, has in zip(FRAMES, HAS_VIDEO, strict=True)]
    )
    text = TextTokens.pack(
        [torch.randn(n if has else 0, 5, generator=generator) for n, has in zip(WORDS, HAS_TEXT, strict=True)]
    )
    return QueryBatch(tuple("abcd"), video, text, {"video": torch.tensor(HAS_VIDEO), "text": torch.tensor(HAS_TEXT)})


def database() -> tuple[Tokens, Tokens]:
    generator = torch.Generator().manual_seed(1)
    return tuple(  # type: ignore[return-value]
        Tokens.pack([torch.randn(t, *shape, generator=generator) for t in TARGETS]) for shape in ((2, 6), (3, 4))
    )


def model_of(head: Callable[..., FusionHead], network: SimilarityNetwork | None = None, **settings: Any) -> Retriever:
    """With every parameter of the head moved from where it starts."""
    torch.manual_seed(2)
    built = head(DIMS, **settings)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape))
    return Retriever(network or Chamfer(6, 2), built, DIMS).eval()


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def words_of(head: Any, query: QueryBatch, row: int) -> Tensor:
    """Unit vectors of the real mapped words of one query."""
    assert query.text is not None
    return unit(unit(query.text.x[row, query.text.mask[row]]) @ head.text_map.weight.T)


def frames_of(tokens: Tokens, row: int) -> Tensor:
    return unit(tokens.x[row, tokens.mask[row]])


def softmax_weights(head: QueryScoring, words: Tensor, frames: Tensor) -> Tensor:
    best = torch.stack([torch.stack([frame @ word for word in words]).max() for frame in frames])
    powers = (float(head.sharpness) * best / head.temperature).exp()
    return len(frames) * powers / powers.sum()


@torch.no_grad()
def test_query_scoring_weighs_the_query_s_frames():
    model, query = model_of(QueryScoring, temperature=0.2), queries()
    prepared = model.head.prepare(model.encode_query(query).query).video
    for row in range(2):
        expected = softmax_weights(model.head, words_of(model.head, query, row), frames_of(query.video, row))
        torch.testing.assert_close(prepared.weight[row, : len(expected)], expected)
        assert float(prepared.weight[row].sum()) == pytest.approx(len(expected))
    assert (prepared.weight[2:] == 1).all()


@torch.no_grad()
@pytest.mark.parametrize("side", ["target", "both"])
@pytest.mark.parametrize("network", [Chamfer(6, 2), S2VS(6, 2, residual=True, base="chamfer")])
def test_query_scoring_weighs_the_target_s_frames(side, network):
    if isinstance(network, S2VS):
        network.residual_scale.fill_(0.5)
    model, query, (raw, fine) = model_of(QueryScoring, network, side=side), queries(), database()
    holes = torch.tensor([[0, 1, 0, 2, 3, 0]]).bool().expand(3, -1)  # frames that move where the network compacts
    raw, fine = (replace(tokens, mask=tokens.mask & (holes | ~tokens.mask[:, 3:4])) for tokens in (raw, fine))
    found = model.score_parts(model.encode_query(query), model.encode_database(raw, fine))["video"]
    for row in range(3):
        for column in range(3):
            q, n = (
                Tokens(frames_of(x, i)[None], torch.ones(1, int(x.mask[i].sum())).bool())
                for x, i in ((query.video, row), (raw, column))
            )
            if HAS_TEXT[row]:
                words = words_of(model.head, query, row)
                n = replace(n, weight=softmax_weights(model.head, words, n.x[0])[None])
                q = replace(q, weight=softmax_weights(model.head, words, q.x[0])[None]) if side == "both" else q
            expected = network.similarity(network.index(q), network.index(n))
            torch.testing.assert_close(found[row, column], expected[0, 0], atol=1e-5, rtol=1e-5)


def test_target_weights_need_frames():
    model = model_of(QueryScoring, MeanPool(6, 2), side="target")
    with pytest.raises(ConfigError, match="keeps no frames"):
        model.score(model.encode_query(queries()), model.encode_database(*database()))


def test_target_weights_keep_what_losses_ask_for():
    network = S2VS(6, 2)
    plain, weighing = (model_of(QueryScoring, network, side=side).train() for side in ("query", "target"))
    for model in (plain, weighing):
        torch.nn.init.zeros_(model.head.sharpness)
    wanted = frozenset({"range_excess", "self"})
    both = [
        model.training_scores(model.encode_query(queries()), model.encode_database(*database()), wanted)[1]
        for model in (plain, weighing)
    ]
    torch.testing.assert_close(both[0], both[1], atol=1e-5, rtol=1e-5)
    assert both[0]["self"].abs().sum() > 0


@torch.no_grad()
def test_gated_weights():
    model, query = model_of(GatedFusion, hidden=7), queries()
    head, q, n = model.head, model.encode_query(query), model.encode_database(*database())
    parts, fused = model.score_parts(q, n), model.score(q, n)
    scaled = {name: parts[name] * head.log_scale[name].exp() + head.bias[name] for name in parts}
    for row in range(2):
        v = unit(frames_of(query.video, row).sum(dim=(0, 1))) * math.sqrt(6)
        t = unit(words_of(head, query, row).sum(dim=0)) * math.sqrt(6)
        video, text = (
            head.mlp(torch.cat([v, t, v * t])) + torch.stack([head.log_weight[p] for p in ("video", "text")])
        ).exp()
        expected = (video * scaled["video"][row] + text * scaled["text"][row]) / (video + text)
        torch.testing.assert_close(fused[row], expected)
    torch.testing.assert_close(fused[2], scaled["video"][2])
    torch.testing.assert_close(fused[3], scaled["text"][3])


@torch.no_grad()
def test_combiner():
    model, query = model_of(Combiner, hidden=7), queries()
    head, changed = model.head, model.head.prepare(model.encode_query(query).query).video
    for row in range(2):
        t = unit(words_of(head, query, row).sum(dim=0)) * math.sqrt(6)
        for place, frame in enumerate(frames_of(query.video, row)):
            for region, x in enumerate(frame):
                hidden = F.gelu(head.from_frame(x * math.sqrt(6)) + head.from_text(t))
                expected = x + torch.sigmoid(head.gate(hidden)) * head.change(hidden) / math.sqrt(6)
                torch.testing.assert_close(changed.x[row, place, region], expected)
    torch.testing.assert_close(changed.x[2, :1], frames_of(query.video, 2))


@torch.no_grad()
def test_cross_attention():
    """One query without padding, one head of attention after the other."""
    model, query = model_of(CrossAttention, width=8, heads=2, layers=2), queries()
    head, changed = model.head, model.head.prepare(model.encode_query(query).query).video
    for row in range(2):
        x = frames_of(query.video, row)
        words, frames = head.from_word(words_of(head, query, row) * math.sqrt(6)), head.from_frame(x * math.sqrt(6))
        for block in head.blocks:
            every = torch.cat([words, frames.flatten(0, 1)])
            context = block.norm_context(torch.cat([words, frames.mean(dim=1)]))
            key, value = block.answer(context).split(8, dim=-1)
            asked, seen = block.ask(block.norm(every)), []
            for part in (slice(0, 4), slice(4, 8)):
                seen.append((asked[:, part] @ key[:, part].T / 2).softmax(dim=-1) @ value[:, part])
            every = every + block.out(torch.cat(seen, dim=-1))
            every = every + block.mlp(every)
            words, frames = every[: len(words)], every[len(words) :].view(frames.shape)
        expected = x + head.change(head.norm(frames)) / math.sqrt(6)
        torch.testing.assert_close(changed.x[row, : len(x)], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(changed.x[2, :1], frames_of(query.video, 2))


class Noting(Chamfer):
    """Notes the extra maps that it is given."""

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        self.given = extra_maps
        return super().similarity(q, n)


@torch.no_grad()
def test_map_channel_says_where_the_text_is_true():
    network = Noting(6, 2)
    model, query, (raw, fine) = model_of(MapChannel, network), queries(), database()
    q, n = model.encode_query(query), model.encode_database(raw, fine)
    scores = model.score_modes(q, n, ["tv"])["tv"]
    assert scores.shape == (4, 3)
    assert network.given.shape == (4, 3, 1, 1, 6)
    for row in range(4):
        for column in range(3):
            for place, frame in enumerate(frames_of(raw, column).unbind()):
                both = HAS_TEXT[row] and HAS_VIDEO[row]
                expected = float((frame @ words_of(model.head, query, row).T).max()) if both else 0.0
                assert float(network.given[row, column, 0, 0, place]) == pytest.approx(expected, abs=1e-6)
    model.score_modes(model.encode_query(query[:3]), n, ["v"])
    assert network.given is None


@torch.no_grad()
def test_covr_compares_one_vector():
    model, query, (raw, fine) = model_of(CoVR, hidden=7), queries(), database()
    head, q, n = model.head, model.encode_query(query), model.encode_database(raw, fine)
    parts = model.score_parts(q, n)
    targets = torch.stack([unit(frames_of(raw, column).sum(dim=(0, 1))) for column in range(3)])
    middles = (1, 2, 0)  # of 3, 5 and 1 frames
    for row in range(4):
        v = unit(frames_of(query.video, row)[middles[row]].sum(dim=0)) if HAS_VIDEO[row] else torch.zeros(6)
        t = unit(words_of(head, query, row).sum(dim=0)) if HAS_TEXT[row] else torch.zeros(6)
        z = v + t
        if HAS_VIDEO[row] and HAS_TEXT[row]:
            z = z + head.change(
                F.gelu(head.from_frame(v * math.sqrt(6)) + head.from_text(t * math.sqrt(6)))
            ) / math.sqrt(6)
        expected = targets @ unit(z)
        for name, has in (("video", HAS_VIDEO), ("text", HAS_TEXT)):
            torch.testing.assert_close(parts[name][row], expected if has[row] else torch.zeros(3))


def flags(video: list[bool], text: list[bool]) -> QueryBatch:
    ids = tuple(f"q{row}" for row in range(len(video)))
    return QueryBatch(ids, None, None, {"video": torch.tensor(video), "text": torch.tensor(text)})


PARTS = {
    "video": torch.tensor([[0.2, 0.6], [0.4, -0.8], [0.0, 0.0]]),
    "text": torch.tensor([[0.4, 0.0], [0.0, 0.0], [0.1, -0.5]]),
}
SOME = flags([True, True, False], [True, False, True])


def test_product_and_harris_by_hand():
    u = [(0.6, 0.7), (0.8, 0.5)]  # (s + 1) / 2 of video and text
    alone = [[0.7**2, 0.1**2], [0.55**2, 0.25**2]]
    expected = torch.tensor([[v * t for v, t in u], *alone])
    torch.testing.assert_close(ProductFusion(DIMS).combine(PARTS, SOME), expected)
    expected[0] = torch.tensor([v * t - 0.1 * (v - t) ** 2 for v, t in u])
    torch.testing.assert_close(HarrisFusion(DIMS).combine(PARTS, SOME), expected)
    expected[0] = torch.tensor([v * t - 0.5 * (v - t) ** 2 for v, t in u])
    torch.testing.assert_close(HarrisFusion(DIMS, disagreement=0.5).combine(PARTS, SOME), expected)


def test_product_after_centring():
    """Two parts far below the centre are no match, and a part alone orders as it did, below the centre too."""
    head = ProductFusion(DIMS)
    with torch.no_grad():
        for name, centre in (("video", 0.3), ("text", 0.2)):
            head.centre[name].fill_(centre)
            head.log_scale[name].fill_(math.log(2))
    merged = head.combine(
        {"video": torch.tensor([[-0.9, 0.8]]), "text": torch.tensor([[-0.9, 0.7]])}, flags([True], [True])
    )
    torch.testing.assert_close(merged, torch.tensor([[0.0, 1.0]]))
    line = torch.linspace(-1, 1, 21)[None]
    assert (head.combine({"video": line}, flags([True], [False])).diff() > 0).all()
    assert (head.combine({"video": torch.zeros(1, 21), "text": line}, flags([False], [True])).diff() > 0).all()


@pytest.mark.parametrize("head", [GatedFusion, QueryScoring, CrossAttention, Combiner, MapChannel, CoVR])
def test_a_store_without_texts_is_refused_by_name(head):
    with pytest.raises(ConfigError, match=f"{head.__name__} reads the texts.*fusion=weighted"):
        head(StoreDims(regions=1, dim=8))


@pytest.mark.parametrize(
    ("head", "settings", "message"),
    [
        (QueryScoring, {"side": "left"}, "fusion.side='left'"),
        (QueryScoring, {"temperature": 0.0}, "fusion.temperature=0.0"),
        (CrossAttention, {"width": 10, "heads": 4}, "fusion.width=10"),
        (CrossAttention, {"heads": 0}, "fusion.heads=0"),
        (CrossAttention, {"layers": 0}, "fusion.layers=0"),
        (HarrisFusion, {"disagreement": -0.1}, "fusion.disagreement=-0.1"),
        (GatedFusion, {"hidden": 0}, "fusion.hidden=0"),
        (Combiner, {"hidden": 0}, "fusion.hidden=0"),
        (CoVR, {"hidden": 0}, "fusion.hidden=0"),
    ],
)
def test_settings_that_are_refused(head, settings, message):
    with pytest.raises(ConfigError, match=message):
        head(DIMS, **settings)


def test_map_channel_needs_a_network_that_reads_it():
    model = Retriever(Chamfer(6, 2), MapChannel(DIMS), DIMS).eval()
    with pytest.raises(ConfigError, match="cannot read extra maps"):
        model.score(model.encode_query(queries()), model.encode_database(*database()))


@pytest.mark.parametrize(("head", "settings"), [(MapChannel, {}), (QueryScoring, {"side": "both"})])
def test_heads_take_the_whole_fine_tokens_of_videos_that_training_has_cut(head, settings):
    """Training edits the frames that networks compare, not those that the text part looks at."""
    model = model_of(head, S2VS(6, 2, extra_maps=head.extra_maps), **settings).train()
    raw, fine = database()
    cut = Tokens(raw.x[:, 1:3], raw.mask[:, :2])
    scores, _ = model.training_scores(model.encode_query(queries()), model.encode_database(cut, fine))
    assert torch.isfinite(scores["fused"]).all()
