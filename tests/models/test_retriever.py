"""The retriever against MUVR's official scores, and the rules for parts and modes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, TextTokens, Tokens

DIM = 8
DIMS = StoreDims(regions=1, dim=DIM, text_dim=DIM)
TOPICS = ("news", "others", "instance", "region", "dance")


def official(shared: Path, topic: str) -> tuple[QueryBatch, Tokens, dict[str, Tensor]]:
    folder = shared / "golden" / "muvr_small" / "features" / "toyclip" / topic

    def frames(names: np.ndarray) -> Tokens:
        return Tokens.pack([torch.from_numpy(np.load(folder / f"{name}.npy"))[:, None] for name in names])

    with np.load(shared / "golden" / "muvr_small" / "scores.npz", allow_pickle=False) as file:
        scores = {key: torch.from_numpy(file[f"{topic}/{key}"]) for key in ("v", "t")}
        names, targets = file[f"{topic}/queries"], file[f"{topic}/targets"]
    prompts = [pickle.loads((folder / f"{name}_query_dict.pkl").read_bytes())["query_prompt"] for name in names]
    text = TextTokens.pack([torch.from_numpy(np.asarray(prompt)).float() for prompt in prompts])
    present = torch.ones(len(names), dtype=torch.bool)
    query = QueryBatch(tuple(names.tolist()), frames(names), text, {"video": present, "text": present})
    scores["tv"] = ((scores["v"].double() + scores["t"].double()) / 2).float()
    return query, frames(targets), scores


@pytest.mark.parametrize("head", [MeanFusion, WeightedFusion])
@pytest.mark.parametrize("topic", TOPICS)
def test_untrained_equals_official_scores(shared, topic, head):
    query, database, expected = official(shared, topic)
    dims = StoreDims(regions=1, dim=64, text_dim=64)
    model = Retriever(FrameMax(64), head(dims), dims).eval()
    with torch.no_grad():
        q, n = model.encode_query(query), model.encode_database(database)
        scores = model.score_modes(q, n, ["v", "t", "tv"])
        for mode, value in expected.items():
            torch.testing.assert_close(scores[mode], value, atol=1e-6, rtol=0)
        torch.testing.assert_close(model.score(q, n), expected["tv"], atol=1e-6, rtol=0)
        pieces = [model.score(q, n[i : i + 50]) for i in range(0, len(n), 50)]
        torch.testing.assert_close(torch.cat(pieces, dim=1), scores["tv"], atol=1e-6, rtol=0)


def queries(video: tuple[bool, ...] = (True, True, True), text: tuple[bool, ...] = (True, True, True)) -> QueryBatch:
    generator = torch.Generator().manual_seed(0)
    frames = torch.randn(3, 5, 1, DIM, generator=generator)
    words = torch.randn(3, 1, DIM, generator=generator)
    has_video, has_text = torch.tensor(video), torch.tensor(text)
    return QueryBatch(
        ("a", "b", "c"),
        Tokens(frames * has_video[:, None, None, None], has_video[:, None].expand(3, 5)),
        TextTokens(words * has_text[:, None, None], has_text[:, None]),
        {"video": has_video, "text": has_text},
    )


def database(count: int = 4) -> Tokens:
    return Tokens.pack([torch.randn(6, 1, DIM, generator=torch.Generator().manual_seed(9 + i)) for i in range(count)])


NETWORKS: list[SimilarityNetwork] = [FrameMax(DIM), S2VS(DIM), S2VS(DIM, residual=True)]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("training", [False, True])
def test_missing_parts_have_no_vote_and_no_gradient_harm(network, training):
    model = Retriever(network, WeightedFusion(DIMS), DIMS).train(training)
    mixed = model.encode_query(queries(video=(True, True, False), text=(True, False, True)))
    n = model.encode_database(database())
    scores, extras = model.training_scores(mixed, n, frozenset({"range_excess", "self", "teacher"}))
    full = model.score_parts(model.encode_query(queries()), n)
    torch.testing.assert_close(scores["fused"][0], (full["video"][0] + full["text"][0]) / 2)
    torch.testing.assert_close(scores["fused"][1], full["video"][1])
    torch.testing.assert_close(scores["fused"][2], full["text"][2])
    assert (scores["video"][2] == 0).all()
    assert (scores["text"][1] == 0).all()
    assert set(extras) == {"range_excess", "self", "present/video", "present/text"}
    assert extras["present/video"].tolist() == [True, True, False]
    assert extras["range_excess"].shape == (3, 4)
    assert float(extras["self"][2].detach()) == 0
    if training:
        scores["fused"].sum().backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert grads
        assert all(torch.isfinite(grad).all() for grad in grads)


def test_text_only_and_video_only_batches():
    model = Retriever(FrameMax(DIM), MeanFusion(DIMS), DIMS).eval()
    n = model.encode_database(database())
    both = queries()
    text_only = QueryBatch(both.ids, None, both.text, {"text": torch.ones(3, dtype=torch.bool)})
    video_only = QueryBatch(both.ids, both.video, None, {"video": torch.ones(3, dtype=torch.bool)})
    expected = model.score_modes(model.encode_query(both), n, ["v", "t"])
    torch.testing.assert_close(model.score(model.encode_query(text_only), n), expected["t"])
    torch.testing.assert_close(model.score(model.encode_query(video_only), n), expected["v"])
    scores, extras = model.training_scores(model.encode_query(text_only), n, frozenset({"range_excess", "self"}))
    assert set(scores) == {"fused", "text"}
    assert (extras["range_excess"] == 0).all()
    assert extras["self"].tolist() == [0, 0, 0]


def test_a_query_without_any_part_of_the_mode_is_an_error_with_ids():
    model = Retriever(FrameMax(DIM), MeanFusion(DIMS), DIMS).eval()
    q = model.encode_query(queries(text=(True, False, False)))
    n = model.encode_database(database())
    assert set(model.score_modes(q, n, ["v", "tv"])) == {"v", "tv"}
    with pytest.raises(DataError, match=r"mode t: 2 queries .*\(b, c\)"):
        model.score_modes(q, n, ["v", "t"])
    with pytest.raises(ConfigError, match="unknown mode 'vt'"):
        model.score_modes(q, n, ["vt"])
    with pytest.raises(DataError, match=r"\(c\)"):
        model.score(model.encode_query(queries(video=(True, True, False), text=(True, True, False))), n)


def test_store_without_text():
    dims = StoreDims(regions=1, dim=DIM)
    model = Retriever(FrameMax(DIM), WeightedFusion(dims), dims).eval()
    q, n = model.encode_query(queries()), model.encode_database(database())
    scores = model.score_modes(q, n, ["v", "tv"])
    torch.testing.assert_close(scores["tv"], scores["v"])
    with pytest.raises(DataError, match="mode t"):
        model.score_modes(q, n, ["t"])


def test_text_looks_at_the_finer_tokens_and_never_at_whitened_ones():
    dims = StoreDims(regions=1, dim=DIM, text_dim=6, fine_regions=2, fine_dim=6)
    model = Retriever(FrameMax(DIM, whiten=4), MeanFusion(dims), dims).eval()
    assert model.needs_fit
    model.fit([database(9)])
    assert not model.needs_fit
    text = TextTokens.pack([torch.randn(1, 6) for _ in range(3)])
    both = queries()
    q = model.encode_query(QueryBatch(both.ids, both.video, text, both.present))
    fine = Tokens.pack([torch.randn(6, 2, 6) for _ in range(4)])
    n = model.encode_database(database(), fine)
    expected = torch.einsum(
        "qd,ntrd->qntr",
        torch.nn.functional.normalize(text.x[:, 0], dim=-1),
        torch.nn.functional.normalize(fine.x, dim=-1),
    ).amax((2, 3))
    torch.testing.assert_close(model.score_parts(q, n)["text"], expected, atol=1e-6, rtol=0)


class TextWeightedFrames(FusionHead):
    """A user's early-fusion head: frames that the text describes count more."""

    def prepare(self, query: QueryBatch) -> QueryBatch:
        if query.video is None or query.text is None:
            return query
        match = torch.einsum("qtrd,qld->qt", query.video.x, query.text.x).sigmoid()
        both = (query.present["video"] & query.present["text"])[:, None]
        video = Tokens(query.video.x, query.video.mask, torch.where(both, match, torch.ones_like(match)))
        return QueryBatch(query.ids, video, query.text, query.present)


class OnlyText(FusionHead):
    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: object) -> dict[str, Tensor]:
        text = scorers.text(query, database)
        return {"video": torch.zeros(len(query.query), len(database)) if text is None else text}


def test_early_fusion_sees_only_the_parts_of_the_mode():
    n = Retriever(FrameMax(DIM), MeanFusion(DIMS), DIMS).eval().encode_database(database())
    plain = Retriever(FrameMax(DIM), MeanFusion(DIMS), DIMS).eval()
    early = Retriever(FrameMax(DIM), TextWeightedFrames(DIMS), DIMS).eval()
    modes = ["v", "t", "tv"]
    expected = plain.score_modes(plain.encode_query(queries()), n, modes)
    scores = early.score_modes(early.encode_query(queries()), n, modes)
    torch.testing.assert_close(scores["v"], expected["v"])
    torch.testing.assert_close(scores["t"], expected["t"])
    assert (scores["tv"] - expected["tv"]).abs().max() > 1e-3
    own = Retriever(FrameMax(DIM), OnlyText(DIMS), DIMS).eval()
    shown = own.score_modes(own.encode_query(queries()), n, ["v", "tv"])
    assert (shown["v"] == 0).all()
    torch.testing.assert_close(shown["tv"], expected["t"])


def test_autocast_does_not_touch_evaluation():
    model = Retriever(S2VS(DIM, residual=True), WeightedFusion(DIMS), DIMS).eval()
    with torch.no_grad():
        model.network.residual_scale.fill_(1.0)
        expected = model.score(model.encode_query(queries()), model.encode_database(database()))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = model.score(model.encode_query(queries()), model.encode_database(database()))
    assert torch.equal(scores, expected)


def test_stored_half_precision_is_scored_in_float32():
    model = Retriever(FrameMax(DIM), MeanFusion(DIMS), DIMS).eval()
    both, stored = queries(), database().to(dtype=torch.float16)
    half = QueryBatch(both.ids, both.video.to(dtype=torch.float16), both.text.to(dtype=torch.float16), both.present)
    scores = model.score(model.encode_query(half), model.encode_database(stored))
    assert scores.dtype == torch.float32
    exact = model.score(model.encode_query(both), model.encode_database(database()))
    torch.testing.assert_close(scores, exact, atol=2e-3, rtol=0)


def test_checkpoint_restores_every_score(tmp_path):
    def build() -> Retriever:
        return Retriever(S2VS(DIM, whiten=5, residual=True), WeightedFusion(DIMS), DIMS).eval()

    model = build()
    model.fit([database(9)])
    with torch.no_grad():
        model.network.residual_scale.fill_(0.5)
        model.head.bias["text"].fill_(0.2)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    fresh = build()
    fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True), strict=True)
    pairs = [(m.encode_query(queries()), m.encode_database(database())) for m in (model, fresh)]
    assert torch.equal(model.score(*pairs[0]), fresh.score(*pairs[1]))
