"""Late interaction: MeanMaxSim against loops over single pairs, its start, its learned scale, bounded memory."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models import region_max
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.late_interaction import LateInteraction
from muvr_train.types import Tokens
from tests.reference import similarity as slow

DIM = 12
CASES: dict[str, dict[str, object]] = {
    "regions": {},
    "frames": {"over": "frames"},
    "symmetric": {"symmetric": True},
    "smaller": {"size": 5},
    "temporal": {"temporal_layers": 2, "temporal_width": 8, "temporal_heads": 2},
}


def videos(seed: int, lengths: tuple[int, ...], regions: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, regions, DIM, generator=generator) for length in lengths]


def moved(regions: int, **options: object) -> LateInteraction:
    """With weights that are not those of the start."""
    torch.manual_seed(0)
    network = LateInteraction(DIM, regions, **options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


def plain(network: LateInteraction, q: Tokens, n: Tokens) -> Tensor:
    """The full tensor of similarities of indexed videos without padding, with gradients."""

    def one_way(q: Tokens, n: Tokens) -> Tensor:
        full = torch.einsum("aiod,bjpd->abiojp", q.x, n.x)
        for weight, shape in ((q.weight, (len(q), 1, -1, 1, 1, 1)), (n.weight, (1, len(n), 1, 1, -1, 1))):
            full = full if weight is None else full * weight.view(shape)
        return full.flatten(4).amax(dim=4).flatten(2).mean(dim=2)

    scores = (one_way(q, n) + one_way(n, q).T) / 2 if network.symmetric else one_way(q, n)
    return scores * (4 ** math.tanh(float(network.log_scale.detach())))


@pytest.mark.parametrize("regions", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_starts_as_chamfer_on_the_same_tokens(name, regions):
    """Regions are tokens, so videos are compared as if every region were a frame."""
    queries, database = videos(0, (1, 2, 5), regions), videos(1, (4, 1, 7, 2, 3), regions)
    network = LateInteraction(DIM, regions, **CASES[name])
    q, n = Tokens.pack(queries), Tokens.pack(database).pad_to(9)
    scores = network.similarity(network.index(q), network.index(n))
    assert scores.dtype == torch.float32
    if name == "smaller":
        weight = network.projection.weight
        torch.testing.assert_close(weight @ weight.T, torch.eye(5), atol=1e-6, rtol=0)
        queries, database = ([video @ weight.T.detach() for video in side] for side in (queries, database))
    if name == "frames":
        twins = [[slow.merged(video) for video in side] for side in (queries, database)]
        own = Chamfer(DIM, regions, over="frames")
        torch.testing.assert_close(scores, own.similarity(own.index(q), own.index(n)), atol=1e-6, rtol=0)
    else:
        twins = [[video.flatten(0, 1)[:, None] for video in side] for side in (queries, database)]
    expected = slow.matrix(slow.chamfer, *twins, symmetric=network.symmetric)
    torch.testing.assert_close(scores.double(), expected, atol=1e-6, rtol=0)
    if regions == 1 and name != "smaller":
        own = Chamfer(DIM, symmetric=network.symmetric)
        torch.testing.assert_close(scores, own.similarity(own.index(q), own.index(n)), atol=1e-6, rtol=0)
    assert network.range == (-1.0, 1.0)


@pytest.mark.parametrize("budget", [None, 40_000])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_scores_and_gradients_equal_those_of_the_full_tensor(name, weights, budget):
    network = moved(3, **CASES[name]).train()
    network.memory_budget = budget
    q, n = (Tokens.pack(videos(seed, (length,) * count, 3)) for seed, length, count in ((0, 6, 3), (1, 5, 4)))
    w_q, w_n = (torch.rand(side.mask.shape).requires_grad_() for side in (q, n))
    found = []
    for score in (network.similarity, lambda q, n: plain(network, q, n)):
        index_q, index_n = network.index(q), network.index(n)
        if weights:
            index_q, index_n = Tokens(index_q.x, index_q.mask, w_q), Tokens(index_n.x, index_n.mask, w_n)
        scores = score(index_q, index_n)
        loss = (scores * torch.linspace(-1, 2, scores.numel()).view(scores.shape)).sum()
        learned = [p for name, p in network.named_parameters() if name != "log_scale"] + [w_q, w_n] * weights
        found.append((scores, *torch.autograd.grad(loss, learned)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)


def test_the_scale_is_learned_between_bounds_and_tells_the_range():
    network = LateInteraction(DIM)
    x = network.index(Tokens.pack(videos(0, (3, 4), 1)))
    plain = network.similarity(x, x)
    (slope,) = torch.autograd.grad(plain.sum(), [network.log_scale])
    assert float(slope) == pytest.approx(math.log(4) * float(plain.sum().detach()), rel=1e-5)
    for value, scale in ((0.5, 4 ** math.tanh(0.5)), (-50.0, 0.25), (50.0, 4.0)):
        with torch.no_grad():
            network.log_scale.fill_(value)
        assert network.range == pytest.approx((-scale, scale))
        torch.testing.assert_close(network.similarity(x, x), scale * plain)
        torch.testing.assert_close(network.pair_similarity(x, x), torch.full((2,), scale))
    assert LateInteraction(DIM, learned_scale=False).log_scale is None


def test_the_order_of_frames_counts_only_with_a_temporal_encoder():
    q, n = Tokens.pack(videos(0, (6,), 2)), Tokens.pack(videos(1, (5, 7), 2))
    turned = Tokens(q.x.flip(1), q.mask)
    for options, counts in (({}, False), (CASES["temporal"], True)):
        network = moved(2, **options)
        one, other = (network.similarity(network.index(side), network.index(n)) for side in (q, turned))
        assert (float((one - other).detach().abs().max()) > 1e-3) == counts


@pytest.mark.parametrize("name", CASES)
def test_frames_may_have_holes(name):
    network = moved(2, **CASES[name])
    x = torch.randn(2, 9, 2, DIM)
    mask = torch.rand(2, 9, generator=torch.Generator().manual_seed(3)) > 0.4
    whole = Tokens.pack([video[real] for video, real in zip(x, mask, strict=True)])
    other = network.index(Tokens.pack(videos(0, (5, 3), 2)))
    for one, two in ((network.index(Tokens(x, mask)), network.index(whole)),):
        torch.testing.assert_close(network.similarity(other, one), network.similarity(other, two), atol=1e-5, rtol=0)
        torch.testing.assert_close(network.similarity(one, other), network.similarity(two, other), atol=1e-5, rtol=0)


def test_training_keeps_a_byte_or_two_of_each_token_and_no_product():
    network = LateInteraction(DIM, 9)
    x = network.index(Tokens.pack(videos(0, (32,) * 3, 9)))
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
        network.similarity(x, x).sum().backward()
    each, fixed = network.training_bytes(x, x)
    assert each == 32 * 9 * (8 + 2)
    assert fixed == 12 * (32 * 9) ** 2
    products = 4 * 9 * (32 * 9) ** 2
    assert sum(kept) < products / 10


def test_a_budget_bounds_the_blocks(monkeypatch):
    network = LateInteraction(DIM, 3).eval()
    q, n = (network.index(Tokens.pack(videos(seed, (8, 3, 8), 3))) for seed in (0, 1))
    expected = network.similarity(q, n)
    network.memory_budget = 1
    network.memory_budget, sizes = network.least_budget(8, 8), []
    products = region_max.products
    monkeypatch.setattr(region_max, "products", lambda *a: sizes.append((out := products(*a)).numel()) or out)
    with torch.no_grad():
        torch.testing.assert_close(network.similarity(q, n), expected, atol=1e-6, rtol=0)
    assert max(sizes) * 12 <= network.work_bytes
    assert len(sizes) > 1


def test_half_precision_products_are_those_of_rounded_tokens():
    network = moved(2)
    q, n = (network.index(Tokens.pack(videos(seed, (4, 6), 2))) for seed in (0, 1))
    rounded = [Tokens(side.x.bfloat16().float(), side.mask) for side in (q, n)]
    with torch.no_grad():
        expected, exact = network.similarity(*rounded), network.similarity(q, n)
        network.product_dtype = torch.bfloat16
        torch.testing.assert_close(network.similarity(q, n), expected, atol=1e-6, rtol=0)
        assert float((expected - exact).abs().max()) > 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": "frame"}, "over='frame'"),
        ({"size": 0}, "size=0"),
        ({"temporal_layers": -1}, "temporal_layers=-1"),
        ({"temporal_layers": 1, "temporal_width": 9, "temporal_heads": 3}, "temporal_width=9, model.temporal_heads=3"),
        ({"temporal_layers": 1, "temporal_width": 8, "temporal_heads": 3}, "temporal_width=8, model.temporal_heads=3"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        LateInteraction(DIM, **options)


def test_normalised_tokens():
    network = moved(2, size=5)
    index = network.index(Tokens.pack(videos(0, (3, 1), 2)))
    torch.testing.assert_close(index.x.norm(dim=-1), index.mask[:, :, None].expand(-1, -1, 2).float())
    expected = F.normalize(F.normalize(videos(0, (3, 1), 2)[0], dim=-1) @ network.projection.weight.T, dim=-1)
    torch.testing.assert_close(index.x[0], expected)
