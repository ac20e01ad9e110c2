"""Training scores over chunks of queries: the loss of the whole batch, its gradient, dropout as in the first pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.recompute import devices_of, run_piece
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.types import EncodedDatabase, EncodedQuery, QueryBatch, StoreDims, TextTokens, Tokens
from tests.models.test_s2vs_training import SliceGradients

DIMS = StoreDims(regions=2, dim=6, text_dim=5)
COUNT = 5
ALL = (True,) * COUNT
SOME = (True, False, True, False, False)
REST = (False, True, True, True, True)


class Dropping(SimilarityNetwork):
    """A user's network: projected frames under dropout, the mean of all products; it notes how often it scores."""

    def __init__(self, rate: float = 0.5) -> None:
        super().__init__(DIMS.dim, DIMS.regions)
        self.projection, self.dropout = nn.Linear(DIMS.dim, 7), nn.Dropout(rate)
        self.calls: list[int] = []

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        self._no_extra_maps(extra_maps)
        self.calls.append(len(q))
        a, b = (self.projection(side.x).flatten(1, 2) for side in (q, n))
        return self.dropout(torch.einsum("qid,njd->qnij", a, b).tanh()).mean(dim=(2, 3))

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        raise NotImplementedError


def queries(video: tuple[bool, ...] = ALL, text: tuple[bool, ...] = ALL) -> QueryBatch:
    generator = torch.Generator().manual_seed(3)
    videos = Tokens(torch.randn(COUNT, 6, 2, 6, generator=generator), torch.tensor(video)[:, None].repeat(1, 6))
    texts = TextTokens(torch.randn(COUNT, 2, 5, generator=generator), torch.tensor(text)[:, None].repeat(1, 2))
    ids, present = tuple("abcde"), {"video": torch.tensor(video), "text": torch.tensor(text)}
    return QueryBatch(ids, videos if any(video) else None, texts if any(text) else None, present)


def database() -> Tokens:
    generator = torch.Generator().manual_seed(4)
    return Tokens.pack([torch.randn(length, 2, 6, generator=generator) for length in (5, 9, 4, 7)])


RELEVANCE = torch.tensor([[1, 0, 0, 0], [0, 1, 0, -1], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]]).float()


def model(network: SimilarityNetwork, chunk: int | None, head: type = WeightedFusion) -> Retriever:
    torch.manual_seed(1)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    built = Retriever(network, head(DIMS), DIMS).train()
    built.query_chunk = chunk
    return built


def losses() -> CompositeLoss:
    return CompositeLoss(
        {
            "video": InfoNCELoss("video", temperature=0.1),
            "fused": InfoNCELoss("fused", temperature=0.1),
            "text": InfoNCELoss("text", temperature=0.1),
            "self": SelfSimilarityLoss("video"),
            "range": RangeRegularizationLoss("video"),
        },
        {},
    )


def step(built: Retriever, batch: QueryBatch) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Scores, extras, gradients by name."""
    torch.manual_seed(7)
    loss = losses()
    q, n = built.encode_query(batch), built.encode_database(database())
    scores, extras = built.training_scores(q, n, loss.needs)
    loss(scores, RELEVANCE, extras).total.backward()
    grads = {name: p.grad for name, p in built.named_parameters() if p.grad is not None}
    return {key: value.detach() for key, value in scores.items()}, extras, grads


def networks() -> list[SimilarityNetwork]:
    return [Dropping(0.0), S2VS(6, 2), S2VS(6, 2, residual=True), S2VS(6, 2, checkpointing=True, pair_chunk=3)]


@pytest.mark.parametrize("parts", [(ALL, ALL), (SOME, REST), (ALL, (False,) * COUNT), ((False,) * COUNT, ALL)])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("number", range(4))
def test_chunks_give_the_scores_and_gradients_of_the_whole_batch(number, chunk, parts):
    batch = queries(*parts)
    whole, chunked = (step(model(networks()[number], size), batch) for size in (None, chunk))
    for one, other in zip(chunked[:2], whole[:2], strict=True):
        assert one.keys() == other.keys()
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert chunked[2].keys() == whole[2].keys()
    assert chunked[2]
    largest = max(float(grad.norm()) for grad in whole[2].values())
    for name, grad in whole[2].items():
        assert float((chunked[2][name] - grad).norm()) <= 1e-5 * float(grad.norm()) + 1e-6 * largest, name


def test_dropout_is_replayed():
    """The gradient belongs to the scores that the loss saw: it is that of a twin with the first pass's masks."""
    kept: list[Tensor] = []

    class Noting(nn.Dropout):
        def forward(self, x: Tensor) -> Tensor:
            mask = super().forward(torch.ones_like(x))
            kept.append(mask.detach())
            return x * mask

    class Replaying(nn.Dropout):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.cat(kept[:3])

    chunked, plain = model(Dropping(), 2), model(Dropping(), None)
    chunked.network.dropout = Noting(0.5)
    only_video = queries(text=(False,) * COUNT)

    def grads(built: Retriever) -> dict[str, Tensor]:
        scores, _ = built.training_scores(built.encode_query(only_video), built.encode_database(database()))
        InfoNCELoss("video", temperature=0.1)(scores["video"], RELEVANCE).backward()
        return {name: p.grad for name, p in built.network.named_parameters()}

    ours = grads(chunked)
    assert chunked.network.calls[:3] == [2, 2, 1]
    assert sorted(chunked.network.calls) == [1, 1, 2, 2, 2, 2]
    assert len(kept) == 6
    again = sorted(kept[3:], key=len, reverse=True)
    assert all(any(torch.equal(mask, other) for other in again if len(other) == len(mask)) for mask in kept[:3])
    assert not torch.equal(kept[0], kept[1])
    plain.network.dropout = Replaying()
    theirs = grads(plain)
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, atol=1e-7, rtol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("chunk", [1, 2])
def test_dropout_is_replayed_on_a_gpu(chunk):
    """The mean of a dropout's output has the gradient that its own mask gives."""
    built = model(Dropping(), chunk).cuda()
    masks: list[Tensor] = []

    class Noting(nn.Dropout):
        def forward(self, x: Tensor) -> Tensor:
            masks.append(super().forward(torch.ones_like(x)).detach())
            return x * masks[-1]

    built.network.dropout = Noting(0.5)
    only_video = queries(text=(False,) * COUNT).to("cuda")
    built.training_scores(built.encode_query(only_video), built.encode_database(database().to("cuda")))[0][
        "video"
    ].sum().backward()
    first, again = masks[: len(masks) // 2], masks[len(masks) // 2 :]
    assert len(first) == len(again) == -(-COUNT // chunk)
    assert all(any(torch.equal(mask, other) for other in again if len(other) == len(mask)) for mask in first)


def test_the_queries_device_is_told_to_checkpoint(monkeypatch):
    """Which replays random numbers on the devices of tensors that it sees, and looks into no dataclass."""
    found, infer = [], torch.utils.checkpoint._infer_device_type

    def noting(*args: object) -> str:
        found.append(infer(*args))
        return found[-1]

    monkeypatch.setattr(torch.utils.checkpoint, "_infer_device_type", noting)
    videos = queries().to("meta")
    tokens = Tokens(videos.video.x.requires_grad_(), videos.video.mask)
    encoded = EncodedQuery(videos, tokens), EncodedDatabase(tokens, tokens, tokens)
    assert devices_of(encoded) == {torch.device("meta")}
    result = run_piece(lambda q, n: q.index.x.sum() * n.raw.x.sum(), *encoded)
    assert found == ["meta"]
    assert result.device.type == "meta"


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ((), set()),
        ((3, "a", None, frozenset({"self"}), slice(1)), set()),
        (torch.zeros(1), {"cpu"}),
        ([{"a": (torch.zeros(1, device="meta"), None)}, torch.zeros(1)], {"cpu", "meta"}),
        (queries(text=(False,) * COUNT), {"cpu"}),
    ],
)
def test_devices_of_nested_values(value, devices):
    assert {device.type for device in devices_of(value)} == devices


def test_a_budget_picks_the_chunk():
    built = model(Dropping(), None, MeanFusion)
    only_video = queries(text=(False,) * COUNT)
    each = 4 * 16 * (6 * 2) * (9 * 2)
    for queries_at_once, budget in ((2, 2 * each + 1), (5, 5 * each), (5, None)):
        built.network.memory_budget = budget
        built.network.calls.clear()
        built.training_scores(built.encode_query(only_video), built.encode_database(database()))
        assert built.network.calls[0] == queries_at_once
    built.network.memory_budget = each - 1
    with pytest.raises(
        ConfigError, match=r"memory_budget=13.8 kB is too small for scoring one query against 4 videos: .* 14.7 kB, or"
    ):
        built.training_scores(built.encode_query(only_video), built.encode_database(database()))


@pytest.mark.parametrize("chunk", [1, 2])
def test_chunks_share_one_gradient_of_the_index(chunk):
    built = model(S2VS(6, 2), chunk)
    q = built.encode_query(queries())
    scores, _ = built.training_scores(q, built.encode_database(database()), frozenset({"self"}))
    with SliceGradients() as seen:
        scores["video"].sum().backward()
    assert max(seen.sizes, default=0) < q.index.x.numel()


def test_a_network_whose_scores_depend_on_the_batch_is_not_split():
    built = model(S2VS(6, 2, batch_norm=True), 2)
    with pytest.raises(ConfigError, match=r"query_chunk=2 would split a batch of 5 queries, .* S2VS"):
        step(built, queries())
    built.query_chunk = 5
    step(built, queries())


def test_memory_until_the_backward_pass_is_that_of_the_scores():
    """With chunks, what the first pass keeps for the backward pass does not hold the products of the network."""

    def largest_kept(chunk: int | None) -> int:
        built, held = model(Dropping(), chunk), []
        q, n = built.encode_query(queries(text=(False,) * COUNT)), built.encode_database(database())
        with torch.autograd.graph.saved_tensors_hooks(lambda x: held.append(x.numel()) or x, lambda x: x):
            built.training_scores(q, n)
        return max(held, default=0)

    assert largest_kept(None) >= COUNT * 4 * 12 * 18
    assert largest_kept(1) < 12 * 18
