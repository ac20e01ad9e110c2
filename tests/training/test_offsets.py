"""What only adds a number to all scores of a row is trained where a loss of the run sees it, and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.conformance.losses import check_loss
from muvr_train.losses.base import Loss, LossValue, mean_over_rows
from muvr_train.losses.calibration import CalibrationLoss
from muvr_train.losses.circle import CircleLoss
from muvr_train.losses.composite import CompositeLoss, LossReport
from muvr_train.losses.distillation import DistillationLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.losses.smooth_ap import SmoothAPLoss
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.product import ProductFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.training.module import RetrievalModule
from muvr_train.training.offsets import leave_unseen
from muvr_train.types import QueryBatch, StoreDims, Tags

DIMS = StoreDims(regions=1, dim=8, text_dim=8)
BIASES = {"bias.video", "bias.text"}


class Margin(Loss):
    """A loss of the user's own that says nothing of offsets."""

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return mean_over_rows(
            F.relu(scores.float().clamp(min=-1)).sum(dim=1), torch.ones(len(scores), dtype=torch.bool)
        )


class OwnSum(CompositeLoss):
    """Reads what it likes."""

    def forward(self, scores: Mapping[str, Tensor], relevance: Tensor, extras: dict[str, Tensor]) -> LossReport:
        return super().forward({**scores, "video": scores["fused"]}, relevance, extras)


BLIND: dict[str, Loss] = {
    "each": InfoNCELoss(),
    "out": InfoNCELoss(positives="out"),
    "in": InfoNCELoss(positives="in"),
    "as S2VS has it": InfoNCELoss(temperature=0.03, epsilon=1e-6, unit_range=True),
    "smooth_ap": SmoothAPLoss(),
    "kl": DistillationLoss(),
    "on a part": SigmoidLoss(on="text"),
}
SEEING: dict[str, Loss] = {
    "epsilon": InfoNCELoss(epsilon=1e-6),
    "large epsilon": InfoNCELoss(temperature=1.0, epsilon=0.1, unit_range=True),
    "circle": CircleLoss(),
    "sigmoid": SigmoidLoss(),
    "calibration": CalibrationLoss(),
    "mse": DistillationLoss(mse=0.5),
    "own": Margin(),
}


def frozen(head: FusionHead) -> set[str]:
    return {name for name, parameter in head.named_parameters() if not parameter.requires_grad}


def module_of(head: FusionHead, *losses: Loss, weights: dict[str, float] | None = None) -> RetrievalModule:
    named = {f"l{place}": loss for place, loss in enumerate(losses)}
    return RetrievalModule(Retriever(FrameMax(8), head, DIMS), CompositeLoss(named, weights), 10)


@pytest.mark.parametrize("head", [WeightedFusion, GatedFusion])
def test_offsets_are_trained_where_a_loss_on_the_fused_score_sees_them(
    head: type[FusionHead], caplog: pytest.LogCaptureFixture
) -> None:
    for name, loss in BLIND.items():
        assert frozen(module_of(head(DIMS), loss).retriever.head) == BIASES, name
    caplog.clear()
    with caplog.at_level(logging.INFO):
        module_of(head(DIMS), *BLIND.values())
    assert [record.getMessage() for record in caplog.records if "not trained" in record.getMessage()] == [
        "not trained, as no loss of this run sees what they do: head.bias.text, head.bias.video"
    ]
    for name, loss in SEEING.items():
        assert frozen(module_of(head(DIMS), InfoNCELoss(), loss).retriever.head) == set(), name
    seen = [InfoNCELoss(), CalibrationLoss()]
    assert frozen(module_of(head(DIMS), *seen, weights={"l1": 0.0}).retriever.head) == BIASES


def test_what_is_not_known_is_trained() -> None:
    class Scaled(WeightedFusion):
        def combine(self, parts: dict[str, Tensor], query: QueryBatch) -> Tensor:
            return super().combine(parts, query).square()

    for head in (Scaled(DIMS), ProductFusion(DIMS), MeanFusion(DIMS)):
        assert frozen(module_of(head, InfoNCELoss()).retriever.head) == set()
    head = WeightedFusion(DIMS)
    leave_unseen(head, OwnSum({"a": InfoNCELoss("video")}))
    assert frozen(head) == set()


@pytest.mark.parametrize("losses", [BLIND, SEEING])
def test_gradients_of_offsets_are_what_losses_say_of_them(losses: dict[str, Loss]) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(6, 30, generator=generator) * 2 - 1).double()
    relevance = (torch.rand(6, 30, generator=generator) < 0.2).float()
    relevance[:, 0], relevance[:, 1] = 1.0, 0.0
    teacher = torch.rand(6, 30, generator=generator).double()
    for name, loss in losses.items():
        offset = torch.zeros(6, 1, dtype=torch.double, requires_grad=True)
        value = loss(scores + offset, relevance, {"teacher": teacher})
        (gradient,) = torch.autograd.grad(value, offset)
        if name in ("on a part", "epsilon"):
            continue  # it would see one, on another score; and what an epsilon sees depends on the scores
        assert (float(gradient.abs().max()) > 2e-5) == (losses is SEEING), name


@pytest.mark.parametrize("loss", [*BLIND.values(), *list(SEEING.values())[:-1]])
def test_all_pass_the_check(loss: Loss) -> None:
    check_loss(loss, direction=False)


def test_the_check_finds_a_loss_that_sees_offsets_and_denies_it() -> None:
    class Liar(SigmoidLoss):
        sees_offset = False

    with pytest.raises(AssertionError, match="says sees_offset = False, but sees one number added"):
        check_loss(Liar())


SIGNS = {
    "one": ([1.0], False),
    "sum": ([1.0, -1.0, 1.0], False),
    "best of one sign": ([-1.0, -1.0], True),
    "best of both signs": ([1.0, -1.0], True),
}


@pytest.mark.parametrize("name", SIGNS)
def test_the_threshold_learns_what_losses_see_of_it(name: str) -> None:
    """A sum of conditions moves by one number; of several with OR of both signs, another may be the best."""
    signs, either = SIGNS[name]
    count, generator = len(signs), torch.Generator().manual_seed(0)
    sign = torch.tensor([[*signs, *[0.0] * (3 - count)]])
    tags = Tags(torch.zeros(1, 3, 8), sign != 0, sign, torch.tensor([[either] * count + [False] * (3 - count)]))
    cosines = torch.rand(1, 3, 12, generator=generator) - 0.5
    cosines[:, count:] = 0.0
    relevance = (torch.arange(12) % 3 == 0).float()[None]

    def gradient(learns: bool, loss: Loss, dtype: torch.dtype = torch.float32) -> tuple[Tensor, float]:
        head = WeightedFusion(DIMS).to(dtype)
        head.learns_offsets = learns
        with torch.no_grad():
            head.tag_threshold.fill_(0.1)
        own = Tags(tags.x, tags.mask, tags.sign.to(dtype), tags.either)
        scores = head.tag_scores(cosines.to(dtype), own)
        loss(scores, relevance).backward()
        return scores.detach(), float(head.tag_threshold.grad)

    plain, found = gradient(True, InfoNCELoss())
    same, learned = gradient(False, InfoNCELoss())
    assert torch.equal(plain, same)
    if name == "best of both signs":
        winners = (cosines[0, 0] + cosines[0, 1] - 0.2 > 0).tolist()
        assert set(winners) == {True, False}, "each is the best somewhere"
        assert learned == pytest.approx(found, rel=1e-4)
        assert abs(learned) > 1e-3
    else:
        assert learned == 0.0
        assert abs(found) < 1e-4, "rounding"
    assert abs(gradient(True, SigmoidLoss())[1]) > 1e-3


def test_heads_are_told_whether_a_loss_sees_offsets_of_tags() -> None:
    for losses, learns in (
        ([InfoNCELoss(), InfoNCELoss("tags")], False),
        ([InfoNCELoss(), SigmoidLoss("tags")], True),
        ([InfoNCELoss(), SigmoidLoss("text")], False),
        ([SigmoidLoss()], True),
    ):
        assert module_of(WeightedFusion(DIMS), *losses).retriever.head.learns_offsets is learns
    assert MeanFusion(DIMS).learns_offsets


def test_rounding_moves_nothing_that_no_loss_sees() -> None:
    """Two runs that differ by rounding agree in all parameters."""

    def trained(reverse: bool) -> dict[str, Tensor]:
        torch.manual_seed(0)
        head, generator = WeightedFusion(DIMS), torch.Generator().manual_seed(1)
        module = module_of(head, InfoNCELoss(temperature=0.06), SmoothAPLoss())
        optimizer = module.configure_optimizers()["optimizer"]  # type: ignore[index]
        query = QueryBatch(tuple("abcd"), None, None, dict.fromkeys(("video", "text"), torch.ones(4, dtype=torch.bool)))
        for _ in range(30):
            parts = {name: torch.rand(4, 20, generator=generator) for name in ("video", "text")}
            relevance = (torch.rand(4, 20, generator=generator) < 0.2).float()
            relevance[:, 0] = 1
            if reverse:  # sums in another order
                parts, relevance = {name: own.flip(0, 1) for name, own in parts.items()}, relevance.flip(0, 1)
            optimizer.zero_grad()
            module.loss({"fused": head.combine(parts, query)}, relevance, {}).total.backward()
            optimizer.step()
        return {name: value.detach().clone() for name, value in head.named_parameters()}

    one, other = trained(False), trained(True)
    assert any(float((value - start).abs()) > 1e-5 for (_, value), start in zip(one.items(), [0.0] * 9, strict=False))
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=0, atol=1e-6, msg=name)
