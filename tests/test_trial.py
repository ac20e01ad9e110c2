"""Made-up scores and losses before data is opened: what does not go together is refused."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue, mean_over_rows
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.distillation import DistillationLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.smooth_ap import SmoothAPLoss
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.dns_coarse import DnSCoarse
from muvr_train.models.fusion.base import PartScorers
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.mean_pool import MeanPool
from muvr_train.models.retriever import Retriever
from muvr_train.runner.trial import try_losses, try_scoring
from muvr_train.types import EncodedDatabase, EncodedQuery, StoreDims, Tokens

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


class Own(Loss):
    """A user's loss; `wrong` says what is wrong with it."""

    def __init__(self, on: str = "fused", wrong: str = "") -> None:
        super().__init__(on)
        self.wrong = wrong
        self.needs = frozenset({"weather"}) if wrong == "needs" else frozenset({"self", "range_excess", "teacher/text"})

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        assert scores.shape == relevance.shape == extras["range_excess"].shape == extras["teacher/text"].shape
        assert extras["self"].shape == scores.shape[:1]
        if self.wrong == "name":
            return scores.meen()  # type: ignore[attr-defined, no-any-return]
        if self.wrong == "value":
            return scores.mean()  # type: ignore[return-value]
        if self.wrong == "sizes":
            scores.topk(10**6, dim=1)
        return mean_over_rows(scores.mean(dim=1), torch.ones(len(scores), dtype=torch.bool))


def tried(model: Retriever, **losses: Loss) -> None:
    loss = CompositeLoss(losses)
    try_losses(loss, model, try_scoring(model, loss.needs))


@pytest.fixture(params=["scored", "compiled"])
def model(request: pytest.FixtureRequest) -> Retriever:
    model = Retriever(Chamfer(8), MeanFusion(DIMS), DIMS)
    if request.param == "compiled":
        model.network.compiled = True
    return model


def test_losses_are_computed_on_made_up_scores(model: Retriever, caplog: pytest.LogCaptureFixture) -> None:
    state = torch.random.get_rng_state()
    losses = {"own": Own(), "text": InfoNCELoss("text"), "tags": SmoothAPLoss("tags"), "kl": DistillationLoss("video")}
    with caplog.at_level(logging.WARNING):
        tried(model, **losses)
        assert caplog.messages == []
        tried(model, own=Own(wrong="sizes"))
    (message,) = caplog.messages
    assert message.startswith("loss.losses.own: Own fails in compute: ")
    assert message.endswith("RuntimeError: selected index k out of range (on made-up scores)")
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (InfoNCELoss("vidoe"), r"^loss.losses.mine.on=vidoe: there are no such scores, choose fused \| video \| text"),
        (InfoNCELoss("vidoe"), r"\| tags; did you mean 'video'\?$"),
        (Own("region"), r"^loss.losses.mine.on=region: .* give on=video or on=fused$"),
        (Own("xyz"), r"choose fused \| video \| text \| tags$"),
        (Own(wrong="needs"), r"^loss.losses.mine: Own needs weather, which the model does not give"),
        (Own(wrong="name"), r"^loss.losses.mine: Own fails in compute: .*test_trial.py, line \d+: AttributeError"),
        (Own(wrong="value"), r"^loss.losses.mine: Own.compute must give a LossValue"),
    ],
)
def test_losses_that_cannot_be_computed_are_refused_by_their_key(model: Retriever, loss: Loss, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tried(model, fine=InfoNCELoss(), mine=loss)


class OwnParts(MeanFusion):
    """A user's head with a part of its own."""

    def compare(self, query: EncodedQuery, database: EncodedDatabase, scorers: PartScorers) -> dict[str, Tensor]:
        scores = super().compare(query, database, scorers)
        return {**scores, "region": scores["video"]}


def test_the_parts_of_a_head_of_the_users_own_have_losses_too() -> None:
    model = Retriever(Chamfer(8), OwnParts(DIMS), DIMS)
    tried(model, mine=InfoNCELoss("region"))
    with pytest.raises(ConfigError, match=r"choose fused \| video \| text \| region \| tags; did you mean 'region'\?"):
        tried(model, mine=InfoNCELoss("regoin"))
    model.network.compiled = True
    tried(model, mine=InfoNCELoss("regoin"))  # nothing is known of its parts
