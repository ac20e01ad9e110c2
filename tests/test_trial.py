"""Made-up scores before data is opened: a user's own head and network that do not go together are refused."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.dns_coarse import DnSCoarse
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.retriever import Retriever
from muvr_train.runner.trial import try_scoring
from muvr_train.types import StoreDims, Tokens

DIMS = StoreDims(1, 8, 8)


class OwnPool(MeanPool):
    """A user's network that keeps no frames."""


class Demanding(Chamfer):
    """A user's network for nine regions."""

    def similarity(self, q: Tokens, n: Tokens, extra_maps: Tensor | None = None) -> Tensor:
        q.x.unflatten(2, (3, 3))
        return super().similarity(q, n, extra_maps)


@pytest.mark.parametrize("network", [OwnPool, DnSCoarse])
def test_a_head_that_weighs_frames_needs_a_network_that_keeps_them(network: type) -> None:
    with pytest.raises(ConfigError, match="keeps no frames"):
        try_scoring(Retriever(network(8), QueryScoring(DIMS, "target"), DIMS))


@pytest.mark.parametrize("network", [Chamfer, partial(Chamfer, whiten=True), OwnPool])
def test_what_goes_together_is_scored_without_a_random_draw(network: type, caplog: pytest.LogCaptureFixture) -> None:
    model = Retriever(network(8), MeanFusion(DIMS), DIMS)
    state = torch.random.get_rng_state()
    with caplog.at_level(logging.INFO, "muvr_train.runner.trial"):
        try_scoring(model)
    assert caplog.messages == []
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not model.needs_fit


def test_a_network_that_wants_other_sizes_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "muvr_train.runner.trial"):
        try_scoring(Retriever(Demanding(8), MeanFusion(DIMS), DIMS))
    (message,) = caplog.messages
    start = "the model could not score made-up videos: NetworkError: similarity network Demanding fails in similarity: "
    assert message.startswith(start)
    assert "test_trial.py, line" in message
