"""The coarse network: one vector per video, which starts as the mean; NetVLAD against its definition."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.dns_coarse import DnSCoarse, NetVLAD
from muvr_train.models.mean_pool import MeanPool
from muvr_train.types import Tokens

DIM = 12
SMALL = {"width": 8, "clusters": 3, "heads": 2}


def videos(lengths: tuple[int, ...], seed: int = 0, regions: int = 2) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    return Tokens.pack([torch.randn(length, regions, DIM, generator=generator) for length in lengths])


def moved(**options: object) -> DnSCoarse:
    torch.manual_seed(0)
    network = DnSCoarse(DIM, 2, **{**SMALL, **options})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


@pytest.mark.parametrize("whiten", [False, True])
def test_starts_as_the_mean(whiten):
    network, mean = DnSCoarse(DIM, 2, whiten, **SMALL), MeanPool(DIM, 2, whiten)
    q, n = videos((3, 1, 7)), videos((4, 9), seed=1)
    network.fit([n])
    mean.whitening = network.whitening
    for side in (q, Tokens(q.x, q.mask, torch.rand(q.mask.shape))):
        scores = network.similarity(network.index(side), network.index(n))
        torch.testing.assert_close(scores, mean.similarity(mean.index(side), mean.index(n)), atol=1e-6, rtol=0)
    scores.sum().backward()
    assert bool((network.leave.weight.grad != 0).any())


@pytest.mark.parametrize("options", [{}, {"residual": False, "size": 5}, {"attention": False}])
def test_one_unit_vector_and_its_cosine(options):
    network = moved(**options)
    q, n = network.index(videos((3, 1, 7))), network.index(videos((4, 9), seed=1))
    size = options.get("size", DIM)
    assert q.x.shape == (3, 1, 1, size)
    assert bool(q.mask.all())
    torch.testing.assert_close(q.x.norm(dim=-1).flatten(), torch.ones(3))
    expected = F.cosine_similarity(q.x[:, None, 0, 0], n.x[None, :, 0, 0], dim=-1)
    torch.testing.assert_close(network.similarity(q, n), expected)
    torch.testing.assert_close(network.pair_similarity(q[:2], n), expected[:2].diagonal())
    torch.testing.assert_close(network.similarity_map(q, n), expected[:, :, None, None])
    assert network.range == (-1.0, 1.0)


def test_frames_may_have_holes_and_weights():
    network = moved()
    x, mask = torch.randn(2, 9, 2, DIM), torch.rand(2, 9, generator=torch.Generator().manual_seed(3)) > 0.4
    whole = Tokens.pack([video[real] for video, real in zip(x, mask, strict=True)])
    torch.testing.assert_close(network.index(Tokens(x, mask)).x, network.index(whole).x, atol=1e-5, rtol=0)
    weight = torch.rand(2, 9)
    weight[~mask] = float("nan")
    chosen = Tokens(whole.x, whole.mask, torch.zeros(whole.mask.shape))
    for row, (own, real) in enumerate(zip(weight, mask, strict=True)):
        chosen.weight[row, : int(real.sum())] = own[real]
    spoilt = Tokens(x, mask, torch.where(mask, weight, 0.0))
    torch.testing.assert_close(network.index(spoilt).x, network.index(chosen).x, atol=1e-5, rtol=0)
    assert float((network.index(chosen).x - network.index(whole).x).detach().abs().max()) > 1e-3


def test_netvlad_by_its_definition():
    torch.manual_seed(1)
    layer = NetVLAD(4, 3)
    x, weight = F.normalize(torch.randn(2, 5, 4), dim=-1), torch.rand(2, 5)
    sums = torch.zeros(2, 3, 4)
    for b in range(2):
        for t in range(5):
            shares = torch.softmax(torch.stack([-5 * (x[b, t] - c).square().sum() for c in layer.centres]), dim=0)
            for k in range(3):
                sums[b, k] += weight[b, t] * shares[k] * (x[b, t] - layer.centres[k])
    expected = torch.stack([torch.cat([row / row.norm() for row in video]) / 3**0.5 for video in sums])
    torch.testing.assert_close(layer(x, weight), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": 0}, "clusters=0"),
        ({"size": 8}, "size=8.*null with model.residual=true"),
        ({"size": 0, "residual": False}, "size=0"),
        ({"layers": 0}, "model.layers=0"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        DnSCoarse(DIM, **options)
