"""Pieces of a tensor: values and gradients of slices, in one buffer."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from muvr_train.models.cut import Cut


def both(work):
    """Results and gradients of `work(pieces)` with Cut and with the tensor itself."""
    found = []
    for cut in (Cut, lambda x: x):
        x = torch.arange(24.0).view(4, 6).requires_grad_()
        result = work(cut(x * 2))
        found.append((result, torch.autograd.grad(result, x)[0]))
    return found


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x[0:2, 0:3].square().sum() + x[2:4, 1:6].sum(),
        lambda x: x[0:3, 0:6].square().sum() + x[1:4, 0:2].square().sum(),  # pieces that overlap
        lambda x: (x[0:1,] * x[1:2,] * x[3:4,]).sum(),  # the third row is in no piece
        lambda x: x[0:4,].sum() * 3,
        lambda x: x[0:0,].sum() + x[1:2,].sum(),
        lambda x: torch.cat([x[i : i + 1,] for i in range(4)]).square().sum(),
    ],
)
def test_pieces_are_slices(work):
    (ours, gradient), (theirs, expected) = both(work)
    assert torch.equal(ours, theirs)
    assert torch.equal(gradient, expected)


def test_a_second_backward_pass_starts_from_zero():
    x = torch.ones(3, requires_grad=True)
    pieces = Cut(x * 1)
    total = pieces[0:2,].sum() + 2 * pieces[1:3,].sum()
    for _ in range(2):
        assert torch.autograd.grad(total, x, retain_graph=True)[0].tolist() == [1, 3, 2]
    assert torch.autograd.grad(pieces[0:1,].sum(), x)[0].tolist() == [1, 0, 0]


def test_a_piece_that_no_loss_needs_and_a_tensor_without_gradient():
    x = torch.ones(3, requires_grad=True)
    pieces = Cut(x * 1)
    unused = pieces[0:1,]
    pieces[2:3,].sum().backward()
    assert x.grad.tolist() == [0, 0, 1]
    assert unused.requires_grad
    assert not Cut(torch.ones(3))[0:1,].requires_grad
    with torch.no_grad():
        assert not Cut(x * 1)[0:1,].requires_grad


def test_nothing_holds_the_tensor_when_the_pieces_are_gone():
    gc.disable()
    try:
        x = torch.ones(3, requires_grad=True) * 1
        piece, alive = Cut(x)[0:1,], weakref.ref(x)
        piece.sum().backward()
        del x, piece
        assert alive() is None
    finally:
        gc.enable()
