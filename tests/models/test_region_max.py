"""Maps in blocks against the full tensor of similarities: values, gradients, ties, memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from muvr_train.models.functional import frame_maps
from muvr_train.models.region_max import region_maps
from tests.reference.s2vs_plain import regions

SHAPES = [(1, 1), (3, 2), (1, 4), (4, 1), (9, 9)]


def videos(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def plain(q: Tensor, n: Tensor, symmetric: bool) -> Tensor:
    return regions(torch.einsum("aiod,bpjd->abipoj", q, n), symmetric)


@pytest.mark.parametrize("entries", [1, 500, 10**7])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("r1", "r2"), SHAPES)
def test_values_and_gradients_equal_those_of_the_full_tensor(r1, r2, symmetric, entries):
    q, n = videos(3, 5, r1, 6), videos(4, 2, r2, 6, seed=1)
    weight = torch.randn(3, 4, 5, 2, dtype=torch.float64)
    ours, theirs = region_maps(q, n, symmetric, entries), plain(q, n, symmetric)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(frame_maps(q, n, "chamfer", symmetric), theirs)
    expected = torch.autograd.grad((theirs * weight).sum(), (q, n))
    for one, other in zip(torch.autograd.grad((ours * weight).sum(), (q, n)), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("entries", [1, 300, 10**7])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("regions_of_frame", [1, 3])
def test_the_same_videos_on_both_sides_take_half_of_the_blocks(regions_of_frame, symmetric, entries):
    x = videos(5, 3, regions_of_frame, 6)
    weight = torch.randn(5, 5, 3, 3, dtype=torch.float64)
    ours, theirs = region_maps(x, x, symmetric, entries), plain(x, x, symmetric)
    torch.testing.assert_close(ours, theirs)
    (own,), (expected,) = (torch.autograd.grad((maps * weight).sum(), x) for maps in (ours, theirs))
    torch.testing.assert_close(own, expected)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_gradcheck(symmetric, same):
    q, n = videos(2, 2, 3, 4), videos(3, 2, 2, 4, seed=1)
    sides = (q,) if same else (q, n)
    assert torch.autograd.gradcheck(lambda *x: region_maps(x[0], x[-1], symmetric, 40), sides)


def test_where_regions_tie_the_first_gets_the_whole_gradient():
    q, n = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2, requires_grad=True)
    region_maps(q, n).sum().backward()
    assert n.grad.tolist() == [[[[1, 1], [0, 0], [0, 0]]]]


def test_more_regions_than_a_byte_counts():
    q, n = videos(1, 1, 2, 3), videos(1, 2, 300, 3, seed=1)
    own, expected = (
        torch.autograd.grad(maps(q, n).sum(), (q, n)) for maps in (region_maps, lambda q, n: plain(q, n, False))
    )
    for one, other in zip(own, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("count_q", "count_n"), [(0, 3), (3, 0)])
def test_nothing_to_compare(count_q, count_n):
    q, n = videos(count_q, 2, 3, 4), videos(count_n, 2, 3, 4)
    maps = region_maps(q, n)
    assert maps.shape == (count_q, count_n, 2, 2)
    maps.sum().backward()
    assert q.grad.shape == q.shape


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_the_factors_and_sums_in_float32(half):
    q, n = (videos(3, 4, 3, 64, seed=seed).float().detach() for seed in (0, 1))
    rounded = frame_maps(q.to(half).float(), n.to(half).float())
    asked = region_maps(q, n, half=half)
    with torch.autocast("cpu", dtype=half):
        automatic = region_maps(q, n)
    assert asked.dtype == automatic.dtype == torch.float32
    torch.testing.assert_close(asked, rounded, atol=1e-5, rtol=0)
    assert torch.equal(automatic, asked)
    assert not torch.equal(asked, frame_maps(q, n))
