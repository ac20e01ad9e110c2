"""Networks and losses of the user's own that fail, or give what nobody can use, while scores are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate
from muvr_train.losses.base import Loss, LossValue
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.models.asking import map_of
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.types import QueryBatch, StoreDims, Tokens
from tests.models.faults import DoesAsTold
from tests.parts import make_parts

DIMS = StoreDims(regions=1, dim=8)
Extras = tuple[Tensor, dict[str, Tensor]]


class Faulty(DoesAsTold, FrameMax):
    """Does at one method what it is told."""

    def __init__(self, at: str, result: Any) -> None:
        super().__init__(8, 1)
        self.at, self.result = at, result

    def _index(self, tokens: Tokens) -> Tokens:
        return self.told("index", super()._index(tokens))

    def similarity(self, *given: Any) -> Tensor:
        return self.told("similarity", super().similarity(*given))

    def similarity_with_extras(self, *given: Any) -> Extras:
        return self.told("similarity_with_extras", super().similarity_with_extras(*given))

    def similarity_map(self, *given: Any) -> Tensor:
        return self.told("similarity_map", super().similarity_map(*given))


def score(network: FrameMax, wanted: tuple[str, ...] = ()) -> dict[str, Tensor]:
    torch.manual_seed(0)
    yes = torch.ones(2, dtype=torch.bool)
    video = Tokens(torch.randn(2, 4, 1, 8), torch.ones(2, 4, dtype=torch.bool))
    database = Tokens(torch.randn(3, 4, 1, 8), torch.ones(3, 4, dtype=torch.bool))
    model = Retriever(network, MeanFusion(DIMS), DIMS)
    encoded = model.encode_batch(QueryBatch(("a", "b"), video, None, {"video": yes}), database)
    return model.training_scores(*encoded, frozenset(wanted))[0]


START = "similarity network Faulty: "
FAULTS = [
    ("index", lambda x: x.x, r"_index must give Tokens, and gave a tensor \[2, 4, 1, 8\]"),
    ("index", lambda x: x[:1], r"_index must give the 2 videos it got, and gave 1"),
    ("similarity", lambda x: x.T, r"similarity must give scores \[Q, N\], here \[2, 3\], and gave a tensor \[3, 2\]"),
    ("similarity", lambda x: x.mean(), r"similarity must .* gave a tensor \[\]"),
    ("similarity", lambda _: None, r"similarity must .* gave a NoneType"),
    (
        "similarity_with_extras",
        lambda x: (x[0], {"self": x[1]["self"][:, None]}),
        r"similarity_with_extras, for 'self', must give \[Q\], here \[2\], and gave a tensor \[2, 1\]",
    ),
]


@pytest.mark.parametrize(("at", "result", "message"), FAULTS)
def test_what_a_network_gives_is_checked(at: str, result: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=START + message):
        score(Faulty(at, result), ("self",) if at == "similarity_with_extras" else ())


@pytest.mark.parametrize("at", ["index", "similarity", "similarity_with_extras"])
def test_what_a_network_raises_is_named_with_its_place(at: str) -> None:
    message = rf"similarity network Faulty fails in {at}: .*faults.py, line \d+: ValueError: no"
    with pytest.raises(ConfigError, match=message) as caught:
        score(Faulty(at, ValueError("no")), ("self",) if at.endswith("extras") else ())
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_map_is_checked_and_named() -> None:
    video = Tokens(torch.randn(1, 4, 1, 8), torch.ones(1, 4, dtype=torch.bool))
    assert map_of(Faulty("nowhere", None), video, video).shape == (4, 4)
    with pytest.raises(
        ConfigError, match=r"Faulty: similarity_map must give \[Q, N, T1, T2\].* gave a tensor \[4, 4\]"
    ):
        map_of(Faulty("similarity_map", lambda x: x[0, 0]), video, video)
    with pytest.raises(ConfigError, match=r"Faulty fails in similarity_map: .*: KeyError: 'x'"):
        map_of(Faulty("similarity_map", KeyError("x")), video, video)


def test_errors_of_this_package_and_lack_of_memory_stay_what_they_are() -> None:
    for error in (DataError("x"), torch.OutOfMemoryError("x")):
        with pytest.raises(type(error), match=r"^x$"):
            score(Faulty("similarity", error))


def test_a_fault_in_a_network_of_this_package_is_not_called_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def similarity(*given: Any) -> Tensor:
        raise ZeroDivisionError

    network = FrameMax(8, 1)
    monkeypatch.setattr(network, "similarity", similarity)
    with pytest.raises(ZeroDivisionError):
        score(network)


def test_a_sound_network_scores_as_its_base_does() -> None:
    assert torch.equal(score(Faulty("nowhere", None))["fused"], score(FrameMax(8, 1))["fused"])


class FaultyLoss(Loss):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(InfoNCELoss(temperature=1.0).compute(scores, relevance, extras))


def total(result: Any, absent: bool = False) -> Tensor:
    relevance = torch.tensor([[1, 0, 0], [0, 1, 0]])
    extras = {"present/fused": torch.tensor([True, False])} if absent else {}
    return CompositeLoss({"margin": FaultyLoss(result)})({"fused": torch.eye(2, 3)}, relevance, extras).total


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ValueError("no"), r"loss.losses.margin: FaultyLoss fails in compute: .*networks.py, line \d+: ValueError: no"),
        (lambda x: x.value, r"margin: FaultyLoss.compute must give a LossValue \(.*\), and gave a tensor \[\]"),
        (lambda _: None, r"margin: FaultyLoss.compute must give a LossValue .* gave a NoneType"),
        (
            lambda x: replace(x, value=x.value[None]),
            r"margin: FaultyLoss.compute must give a value that is one number, here \[\], and gave a tensor \[1\]",
        ),
        (lambda x: replace(x, value=0.5), r"FaultyLoss.compute must give a value .* gave a float"),
    ],
)
def test_a_loss_that_fails_is_named_with_its_key(result: Any, message: str, absent: bool) -> None:
    with pytest.raises(ConfigError, match=message):
        total(result, absent)


def test_a_sound_loss_and_errors_of_this_package_pass() -> None:
    assert torch.isfinite(total(lambda x: x))
    with pytest.raises(DataError, match=r"^x$"):
        total(DataError("x"))


def test_an_evaluation_names_the_model_that_gives_no_number(tmp_path: Path) -> None:
    annotations, store = make_parts(tmp_path)
    benchmark = read_muvr(annotations).select("all", "full")
    network = Faulty("similarity", lambda x: x * float("nan"))
    network.dim = network.index_dim = store.dims.dim
    model = Retriever(network, MeanFusion(store.dims), store.dims)
    with pytest.raises(DataError, match=r"scores are not finite.* and at the model \(Faulty, MeanFusion\)"):
        evaluate(model, store, benchmark, Protocol(modes=("v",)))
