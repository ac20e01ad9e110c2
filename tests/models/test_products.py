"""Blocked products against the whole tensor of products."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.models import functional
from muvr_train.models.functional import max_product

sides = st.tuples(st.integers(0, 70), st.integers(1, 6))


@given(sides, sides, st.integers(1, 3000), st.integers(1, 200))
def test_largest_product_equals_that_of_the_whole_tensor(q_side, n_side, block_elements, columns):
    generator = torch.Generator().manual_seed(1)
    q, n = (torch.randn(*side, 4, generator=generator) for side in (q_side, n_side))
    whole = torch.einsum("qad,ncd->qnac", q, n).flatten(2).amax(dim=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "MAX_COLUMNS", columns)
        torch.testing.assert_close(max_product(q, n, block_elements), whole, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("len_q", "len_n"), [(15, 15), (1, 15), (40, 2)])
def test_no_product_is_larger_than_the_bound(len_q, len_n):
    sizes = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                sizes.append(result.numel())
            return result

    q, n = torch.randn(100, len_q, 2), torch.randn(300, len_n, 2)
    with Watch():
        max_product(q, n, 60_000)
    assert 40_000 < max(sizes) <= 60_000


def test_empty_sides_of_no_length():
    assert max_product(torch.zeros(0, 0, 3), torch.zeros(4, 2, 3)).shape == (0, 4)
    assert max_product(torch.zeros(4, 2, 3), torch.zeros(0, 0, 3)).shape == (4, 0)


def test_gradients_pass_through_blocks():
    torch.manual_seed(0)
    q, n = torch.randn(5, 3, 4, requires_grad=True), torch.randn(40, 2, 4, requires_grad=True)
    weights = torch.randn(5, 40)
    blocked = torch.autograd.grad((max_product(q, n, 100) * weights).sum(), (q, n))
    whole = torch.einsum("qad,ncd->qnac", q, n).flatten(2).amax(dim=2)
    for one, other in zip(blocked, torch.autograd.grad((whole * weights).sum(), (q, n)), strict=True):
        torch.testing.assert_close(one, other)
