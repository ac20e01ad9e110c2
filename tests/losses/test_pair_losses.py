"""Sigmoid, smooth AP, circle, calibration and distillation against loops, by hand, and in their degenerate cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss
from muvr_train.losses.calibration import CalibrationLoss
from muvr_train.losses.circle import CircleLoss
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.distillation import DistillationLoss
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.losses.smooth_ap import SmoothAPLoss
from muvr_train.metrics.functional import average_precision
from muvr_train.testing import check_loss
from tests.reference import pair_losses as slow

Q, N = 7, 11


def example(seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Row 1 has no positive, row 2 no negative, row 3 nothing that is judged; 4 has ties."""
    chance = torch.Generator().manual_seed(seed)
    scores = torch.rand(Q, N, generator=chance) * 2 - 1
    relevance = torch.randint(-1, 2, (Q, N), generator=chance)
    relevance[1].clamp_(max=0)
    relevance[2] = torch.where(relevance[2] == 0, 1, relevance[2])
    relevance[3] = -1
    scores[4] = (scores[4] * 2).round() / 2
    return scores, relevance, {"teacher": torch.rand(Q, N, generator=chance) * 2 - 1}


Twin = Callable[[Tensor, Tensor, Tensor], Tensor]
CASES: dict[str, tuple[Callable[..., Loss], Twin, int]] = {
    "sigmoid": (lambda **m: SigmoidLoss(scale=3.0, bias=-2.0, **m), lambda s, r, _: slow.sigmoid(s, r, 3.0, -2.0), 1),
    "smooth_ap": (lambda **m: SmoothAPLoss(temperature=0.2, **m), lambda s, r, _: slow.smooth_ap(s, r, 0.2), 3),
    "circle": (lambda **m: CircleLoss(scale=5.0, margin=0.3, **m), lambda s, r, _: slow.circle(s, r, 5.0, 0.3), 3),
    "hinge": (lambda **m: CalibrationLoss(**m), lambda s, r, _: slow.calibration(s, r, 0.9, 0.6, None), 1),
    "softplus": (
        lambda **m: CalibrationLoss(positive_level=0.5, negative_level=0.1, form="softplus", temperature=0.3, **m),
        lambda s, r, _: slow.calibration(s, r, 0.5, 0.1, 0.3),
        1,
    ),
    "kl": (
        lambda **m: DistillationLoss(temperature=0.3, teacher_temperature=0.2, **m),
        lambda s, r, t: slow.distillation(s, r, t, 0.3, 0.2, 1.0, 0.0),
        1,
    ),
    "mse": (
        lambda **m: DistillationLoss(kl=0.0, mse=2.0, **m),
        lambda s, r, t: slow.distillation(s, r, t, 1, 1, 0, 2),
        1,
    ),
    "both": (
        lambda **m: DistillationLoss(temperature=0.5, kl=0.5, mse=1.5, **m),
        lambda s, r, t: slow.distillation(s, r, t, 0.5, 0.5, 0.5, 1.5),
        1,
    ),
}


@pytest.mark.parametrize("unit_range", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_equal_loops(name: str, unit_range: bool) -> None:
    make, twin, skipped = CASES[name]
    scores, relevance, extras = example()
    ours, theirs = scores.clone().requires_grad_(), scores.double().requires_grad_()
    result = make(unit_range=unit_range).compute(ours, relevance, extras)
    mapped, teacher = [(x + 1) / 2 if unit_range else x for x in (theirs, extras["teacher"])]
    expected = twin(mapped, relevance, teacher)
    assert float(result.value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert (result.rows, result.skipped) == (Q - skipped, skipped)
    result.value.backward()
    expected.backward()
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)
    assert (ours.grad[relevance == -1] == 0).all()
    assert float(ours.grad.abs().max()) > 0.01


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_judged_changes_nothing(name: str) -> None:
    scores, relevance, extras = example()
    loss = CASES[name][0]()
    spoiled = scores.masked_fill(relevance == -1, float("nan")).requires_grad_()
    told = {"teacher": extras["teacher"].masked_fill(relevance == -1, float("nan"))}
    value = loss(spoiled, relevance, told)
    assert torch.equal(value.detach(), loss(scores, relevance, extras).detach())
    value.backward()
    assert spoiled.grad is not None
    assert torch.isfinite(spoiled.grad).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (0, 0)])
def test_nothing_to_learn_gives_zero_with_a_graph(name: str, shape: tuple[int, int]) -> None:
    scores = torch.rand(shape, requires_grad=True)
    result = CASES[name][0]().compute(scores, torch.full(shape, -1), {"teacher": torch.rand(shape)})
    assert (float(result.value.detach()), result.rows, result.skipped) == (0.0, 0, shape[0])
    result.value.backward()
    assert scores.grad is not None
    assert (scores.grad == 0).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [0, 1])
def test_one_column_and_rows_of_one_kind(name: str, kind: int) -> None:
    for columns in (1, 4):
        scores = torch.linspace(-1, 1, 2 * columns).view(2, columns).requires_grad_()
        value = CASES[name][0]()(scores, torch.full((2, columns), kind), {"teacher": torch.zeros(2, columns)})
        value.backward()
        assert torch.isfinite(value)
        assert scores.grad is not None
        assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("name", CASES)
def test_huge_scores_stay_finite(name: str) -> None:
    loss = CASES[name][0]()
    for sign in (1, -1):
        scores = (torch.tensor([[1e4, -1e4, 1e4, -1e4], [1e4, 1e4, -1e4, 0.0]]) * sign).requires_grad_()
        teacher = torch.tensor([[-1e4, 1e4, 0.0, 1.0], [1e4, -1e4, -1e4, 0.0]])
        value = loss(scores, torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0]]), {"teacher": teacher})
        value.backward()
        assert torch.isfinite(value)
        assert scores.grad is not None
        assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("name", CASES)
def test_pairs_of_a_blank_video_are_left_out(name: str) -> None:
    scores, relevance, extras = example()
    blank = torch.zeros_like(scores, dtype=torch.bool)
    blank[:, 3] = blank[0, :4] = True
    loss, absent = CASES[name][0](), relevance.masked_fill(blank, -1)
    spoiled = scores.masked_fill(blank, float("-inf")).requires_grad_()
    value = loss(spoiled, relevance, extras)
    assert torch.equal(value.detach(), loss(scores, absent, extras).detach())
    value.backward()
    assert spoiled.grad is not None
    assert torch.isfinite(spoiled.grad).all()
    if "teacher" in loss.needs:
        told = {"teacher": extras["teacher"].masked_fill(blank, float("-inf"))}
        assert torch.equal(loss(scores, relevance, told), value.detach())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_under_autocast_all_is_float32(name: str, dtype: torch.dtype) -> None:
    scores, relevance, extras = example()
    half = scores.to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = CASES[name][0]()(half, relevance, extras)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value.detach(), CASES[name][0]()(scores.to(dtype).float(), relevance, extras).detach())
    assert half.grad is not None
    assert torch.isfinite(half.grad).all()


def test_sigmoid_by_hand_and_its_parameters() -> None:
    loss = SigmoidLoss()
    assert (float(loss.log_scale.exp().detach()), float(loss.bias.detach())) == (pytest.approx(10.0), -10.0)
    value = loss(torch.tensor([[1.0, 0.0, 5.0]]), torch.tensor([[1, 0, -1]]))
    assert float(value.detach()) == pytest.approx(math.log(2) + math.log1p(math.exp(-10)), rel=1e-5)
    value.backward()
    assert float(loss.bias.grad) == pytest.approx(-0.5 + 1 / (1 + math.exp(10)), rel=1e-5)  # type: ignore[arg-type]
    assert float(loss.log_scale.grad) == pytest.approx(-5.0, rel=1e-4)  # type: ignore[arg-type]
    fixed = SigmoidLoss(learned=False)
    assert not any(parameter.requires_grad for parameter in fixed.parameters())


def test_smooth_ap_by_hand() -> None:
    loss = SmoothAPLoss(temperature=1.0)
    value = loss(torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[1, 0]]))
    assert float(value) == pytest.approx(1 - 1 / 1.25)  # the negative is above with chance 1 / (1 + 3)
    tied = loss(torch.zeros(1, 3), torch.tensor([[1, 1, 0]]))
    assert float(tied) == pytest.approx(1 - 1.5 / 2)


def test_smooth_ap_tends_to_one_minus_ap() -> None:
    scores, relevance, _ = example(3)
    scores = scores.argsort(dim=1).argsort(dim=1) / N  # no ties, steps of 1 / 11
    rows = [row for row in range(Q) if {0, 1} <= set(relevance[row].tolist())]
    exact = [average_precision(scores[row].numpy(), relevance[row].numpy()) for row in rows]
    gaps = [
        abs(float(SmoothAPLoss(temperature=t)(scores, relevance)) - (1 - sum(exact) / len(exact)))
        for t in (0.1, 0.03, 0.001)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6


def test_circle_by_hand() -> None:
    # the positive is 0.5 from 1 + m, the negative 0.75 from -m; at its own goal a pair weighs in with exp(0)
    value = CircleLoss(scale=2.0, margin=0.25)(torch.tensor([[0.75, 0.5]]), torch.tensor([[1, 0]]))
    assert float(value) == pytest.approx(math.log1p(math.exp(2 * 0.75 * 0.25)))


def test_calibration_by_hand() -> None:
    scores, relevance = torch.tensor([[0.7, 1.0, 0.9, 0.2]]), torch.tensor([[1, 1, 0, 0]])
    assert float(CalibrationLoss()(scores, relevance)) == pytest.approx(0.2 / 2 + 0.3 / 2)
    near = CalibrationLoss(form="softplus", temperature=1e-3)(scores, relevance)
    assert float(near) == pytest.approx(0.25, abs=1e-3)


def test_distillation_by_hand() -> None:
    teacher = {"teacher": torch.tensor([[math.log(3.0), 0.0, 9.0]])}
    relevance = torch.tensor([[1, 0, -1]])
    kl = DistillationLoss(temperature=1.0)(torch.zeros(1, 3), relevance, teacher)
    assert float(kl) == pytest.approx(0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5))
    moved = DistillationLoss(temperature=1.0)(teacher["teacher"] + 5, relevance, teacher)
    assert float(moved) == pytest.approx(0, abs=1e-6)
    mse = DistillationLoss(kl=0, mse=1)(teacher["teacher"] + 5, relevance, teacher)
    assert float(mse) == pytest.approx(25)


def test_distillation_names_what_it_needs() -> None:
    assert DistillationLoss().needs == {"teacher"}
    part = DistillationLoss(on="video", teacher="video")
    assert part.needs == {"teacher/video"}
    scores, relevance, extras = example()
    own = {"teacher/video": extras["teacher"], "teacher": torch.zeros(Q, N)}
    assert torch.equal(part(scores, relevance, own), DistillationLoss()(scores, relevance, extras))


SOFT = [0.0, 1.0, 0.5, 0.25, -1.0]


@pytest.mark.parametrize("positives", ["each", "out", "in"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_infonce_with_partial_matches_equals_loops(positives: str, epsilon: float) -> None:
    chance = torch.Generator().manual_seed(5)
    scores = torch.rand(Q, N, generator=chance) * 2 - 1
    relevance = torch.tensor(SOFT)[torch.randint(0, len(SOFT), (Q, N), generator=chance)]
    relevance[0] = torch.where(relevance[0] > 0, 0.0, relevance[0])
    relevance[0, 0] = 0.3  # a row whose only match is a partial one
    relevance[1] = relevance[1].clamp(max=0)
    ours, theirs = scores.clone().requires_grad_(), scores.double().requires_grad_()
    result = InfoNCELoss(temperature=0.3, positives=positives, epsilon=epsilon).compute(ours, relevance, {})
    expected = slow.soft_infonce(theirs, relevance, 0.3, positives, epsilon)
    assert float(result.value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert result.skipped == 1
    result.value.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)  # type: ignore[union-attr]


def test_sigmoid_with_partial_matches_equals_loops() -> None:
    scores = example()[0]
    relevance = torch.tensor(SOFT)[torch.randint(0, len(SOFT), (Q, N), generator=torch.Generator().manual_seed(1))]
    value = SigmoidLoss(scale=2.0, bias=0.5)(scores, relevance)
    assert float(value.detach()) == pytest.approx(float(slow.sigmoid(scores, relevance, 2.0, 0.5)), rel=1e-5)


def test_partial_matches_are_not_judged_by_losses_that_do_not_read_them() -> None:
    scores, relevance, extras = example()
    soft = relevance.float()
    soft[0, :3] = torch.tensor([0.5, 0.25, 0.999])
    dropped = soft.masked_fill((soft > 0) & (soft < 1), -1)
    losses = {"circle": CircleLoss(), "hard": HardNegativeLoss(on="fused"), "kl": DistillationLoss()}
    for name, loss in losses.items():
        assert not loss.soft
        value = CompositeLoss({name: loss})({"fused": scores}, soft, extras).total
        assert torch.equal(value, loss(scores, dropped, extras))
    both = CompositeLoss({"sigmoid": SigmoidLoss(), "infonce": InfoNCELoss()})({"fused": scores}, soft, {}).values
    assert torch.equal(both["sigmoid"], SigmoidLoss()(scores, soft).detach())
    assert torch.equal(both["infonce"], InfoNCELoss()(scores, soft))
    assert not torch.equal(both["infonce"], InfoNCELoss()(scores, dropped))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SigmoidLoss(scale=0.0), "loss scale=0.0"),
        (lambda: SigmoidLoss(bias=math.inf), "loss bias=inf"),
        (lambda: SmoothAPLoss(temperature=-1), "loss temperature=-1"),
        (lambda: SmoothAPLoss(temperature=math.nan), "loss temperature=nan"),
        (lambda: CircleLoss(margin=1.5), "loss margin=1.5"),
        (lambda: CalibrationLoss(form="square"), "form='square': must be one of hinge, softplus"),
        (lambda: CalibrationLoss(negative_level=0.95), "negative_level=0.95: must not be above positive_level=0.9"),
        (lambda: DistillationLoss(kl=0.0), "kl=0.0, mse=0.0"),
        (lambda: DistillationLoss(mse=-1.0), "mse=-1.0"),
        (lambda: DistillationLoss(teacher_temperature=0.0), "teacher_temperature=0.0"),
    ],
)
def test_impossible_settings_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


OWN: dict[str, Callable[[], Loss]] = {
    **{name: case[0] for name, case in CASES.items()},
    **{f"infonce {kind}": partial(InfoNCELoss, positives=kind) for kind in ("each", "out", "in")},
    "hard_negative": HardNegativeLoss,
    "self_similarity": SelfSimilarityLoss,
    "range_regularization": RangeRegularizationLoss,
    "teacher's video": partial(DistillationLoss, on="video", teacher="video"),
}


@pytest.mark.parametrize("name", OWN)
def test_the_check_for_authors_passes(name: str) -> None:
    check_loss(OWN[name])
