"""frame_max, mean_pool and chamfer against plain loops over unpadded videos."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.mean_pool import MeanPool
from muvr_train.types import Tokens
from tests.reference import similarity as slow

DIM = 12


def videos(seed: int, lengths: tuple[int, ...], regions: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, regions, DIM, generator=generator) for length in lengths]


CASES = [
    (FrameMax, {}, slow.frame_max, {}, False),
    (FrameMax, {"block_elements": 1}, slow.frame_max, {}, False),
    (FrameMax, {"block_elements": 300}, slow.frame_max, {}, False),
    (FrameMax, {"over": "frames"}, slow.frame_max, {}, True),
    (MeanPool, {}, slow.mean_pool, {}, False),
    (Chamfer, {}, slow.chamfer, {}, False),
    (Chamfer, {"block_elements": 500}, slow.chamfer, {}, False),
    (Chamfer, {"region_pooling": "max"}, slow.chamfer, {"region_pooling": "max"}, False),
    (Chamfer, {"symmetric": True}, slow.chamfer, {"symmetric": True}, False),
    (Chamfer, {"over": "frames"}, slow.chamfer, {}, True),
]


@pytest.mark.parametrize("regions", [1, 3])
@pytest.mark.parametrize(("kind", "settings", "twin", "twin_settings", "merge"), CASES)
def test_equals_loops(kind, settings, twin, twin_settings, merge, regions):
    queries, database = videos(0, (1, 2, 5), regions), videos(1, (4, 1, 7, 2, 3), regions)
    network = kind(dim=DIM, regions=regions, **settings)
    q, n = network.index(Tokens.pack(queries)), network.index(Tokens.pack(database).pad_to(9))
    if merge:
        queries, database = [slow.merged(video) for video in queries], [slow.merged(video) for video in database]
    expected = slow.matrix(twin, queries, database, **twin_settings)
    scores = network.similarity(q, n)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), expected, atol=1e-6, rtol=0)
    pairs = network.pair_similarity(q, n[: len(q)])
    torch.testing.assert_close(pairs.double(), expected.diagonal(), atol=1e-6, rtol=0)
    assert network.range[0] <= float(scores.min())
    assert float(scores.max()) <= network.range[1] + 1e-6


NETWORKS: list[SimilarityNetwork] = [FrameMax(DIM), MeanPool(DIM), Chamfer(DIM), Chamfer(DIM, symmetric=True)]


@pytest.mark.parametrize("network", NETWORKS)
def test_negative_cosines_beat_padding(network):
    """A padded 0 must not win over a negative cosine."""
    q = torch.nn.functional.one_hot(torch.tensor([[0, 0]]), DIM).float()[:, :, None]
    pair = network.index(Tokens.pack([*q])), network.index(Tokens.pack([-q[0]]).pad_to(5))
    torch.testing.assert_close(network.similarity(*pair), torch.tensor([[-1.0]]))


@pytest.mark.parametrize("network", NETWORKS)
def test_empty_videos_score_minus_infinity_with_finite_gradients(network):
    x = torch.randn(2, 3, 1, DIM, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    index = network.index(Tokens(x, mask))
    scores = network.similarity(index, index)
    assert torch.isfinite(scores).tolist() == [[True, False], [False, False]]
    assert (scores[~torch.isfinite(scores)] < 0).all()
    torch.where(torch.isfinite(scores), scores, torch.zeros_like(scores)).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_no_queries_or_no_videos(network):
    index = network.index(Tokens.pack(videos(0, (2, 3), 1)))
    assert network.similarity(index[:0], index).shape == (0, 2)
    assert network.similarity(index, index[:0]).shape == (2, 0)


@pytest.mark.parametrize("network", [FrameMax(DIM), Chamfer(DIM)])
def test_frame_weights_multiply_rows(network):
    """Weight 0 silences a frame's similarities (they become 0), after normalisation."""
    q, n = (Tokens.pack(videos(seed, (4, 4), 1)) for seed in (0, 1))
    index_q, index_n = network.index(q), network.index(n)
    weight = torch.tensor([[1.0, 0.5, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    weighted = Tokens(index_q.x, index_q.mask, weight)
    cosines = torch.einsum("qtd,nsd->qnts", index_q.x[:, :, 0], index_n.x[:, :, 0]) * weight[:, None, :, None]
    best = cosines.amax(-1)
    expected = best.amax(-1) if isinstance(network, FrameMax) else best.mean(-1)
    torch.testing.assert_close(network.similarity(weighted, index_n), expected)


def test_mean_pool_weights():
    network = MeanPool(DIM)
    x = Tokens.pack(videos(0, (3,), 1))
    one = Tokens(x.x, x.mask, torch.tensor([[0.0, 1.0, 0.0]]))
    only = Tokens(x.x[:, 1:2], x.mask[:, 1:2])
    torch.testing.assert_close(network.index(one).x, network.index(only).x)


def test_regional_map_and_frame_map():
    queries, database = videos(0, (2, 3), 2), videos(1, (4, 1), 2)
    network = FrameMax(DIM, regions=2)
    q, n = network.index(Tokens.pack(queries)), network.index(Tokens.pack(database))
    maps = network.similarity_map(q, n)
    assert maps.shape == (2, 2, 3, 4)
    assert float(maps[0, 1, 1, 0]) == pytest.approx(slow.frame_max(queries[0][1:2], database[1][:1]), abs=1e-6)
    assert (maps[0, :, 2] == 0).all()
    assert (maps[:, 1, :, 1:] == 0).all()
    assert Chamfer(DIM, regions=2).similarity_map(q, n)[1, 0, 2, 3] == pytest.approx(
        slow.chamfer(queries[1][2:3], database[0][3:4]), abs=1e-6
    )


def test_half_precision_autocast_keeps_float32_scores():
    tokens = Tokens.pack(videos(0, (3, 4), 1))
    for network in NETWORKS:
        index = network.index(tokens)
        expected = network.similarity(index, index)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(network.similarity(index, index), expected, atol=0, rtol=0)


def test_mistakes_are_named():
    with pytest.raises(DataError, match=r"12.*built for 8"):
        FrameMax(8).index(Tokens.pack(videos(0, (2,), 1)))
    with pytest.raises(ConfigError, match="over='frame'"):
        FrameMax(8, over="frame")
    with pytest.raises(ConfigError, match="region_pooling='mean'"):
        Chamfer(8, region_pooling="mean")
    with pytest.raises(ConfigError, match="whiten=0"):
        FrameMax(8, whiten=0)
    index = FrameMax(DIM).index(Tokens.pack(videos(0, (2,), 1)))
    with pytest.raises(ConfigError, match="extra maps"):
        FrameMax(DIM).similarity(index, index, torch.zeros(1, 1, 1, 2, 2))
