"""The checks for plug-in authors leave everything as they found it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import FrameMax
from muvr_train.testing import check_loss, check_network
from muvr_train.types import Tokens


class Mapped(FrameMax):
    def __init__(self, dim: int, regions: int = 1) -> None:
        super().__init__(dim, regions)
        self.map = nn.Linear(dim, dim, bias=False)

    def _index(self, tokens: Tokens) -> Tokens:
        return replace(tokens, x=F.normalize(self.map(tokens.x), dim=-1))


class WithScale(InfoNCELoss):
    """A parameter that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten = nn.Parameter(torch.zeros(()))


def test_checks_leave_the_number_of_threads_alone():
    before = torch.get_num_threads()
    with pytest.raises(AssertionError):
        check_loss(lambda: nn.Linear(1, 1))
    assert torch.get_num_threads() == before


def test_the_instance_that_is_checked_keeps_its_weights():
    network: SimilarityNetwork = Mapped(16)
    loss = WithScale()
    before = [parameter.clone() for part in (network, loss) for parameter in part.parameters()]
    check_network(network)
    with pytest.raises(AssertionError):
        check_loss(loss)
    after = [parameter for part in (network, loss) for parameter in part.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
