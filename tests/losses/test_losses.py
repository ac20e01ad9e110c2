"""The losses against the reference's golden numbers, against loops, and in their degenerate cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from muvr_train.errors import ConfigError
from muvr_train.losses.base import Loss, LossValue
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from tests.reference import losses as slow
from tests.reference import s2vs_golden as golden


def s2vs_infonce(**more: object) -> InfoNCELoss:
    return InfoNCELoss(temperature=0.03, epsilon=1e-6, **more)


@pytest.mark.parametrize("size", ["4", "16"])
def test_golden_values_and_gradient(shared, size):
    """The golden gradient is that of infonce + 3 (hardneg + self) to the similarities."""
    data = golden.load(shared, "losses")
    scores = data[f"{size}/similarity"].clone().requires_grad_()
    relevance = golden.relevance(data[f"{size}/labels"])
    infonce = s2vs_infonce()(scores, relevance)
    hardneg = HardNegativeLoss(unit_range=False)(scores, relevance)
    own = SelfSimilarityLoss(unit_range=False)(scores, relevance, {"self": scores.diagonal()})
    for name, value in (("infonce", infonce), ("hardneg", hardneg), ("self", own)):
        torch.testing.assert_close(value.detach(), data[f"{size}/{name}"], rtol=2e-5, atol=0)
    (infonce + 3 * (hardneg + own)).backward()
    expected = data[f"{size}/grad"]
    assert (scores.grad - expected).norm() <= 2e-5 * expected.norm()


def test_golden_degenerate_cases(shared):
    data = golden.load(shared, "losses")
    assert data["nopos/infonce"].isnan()
    result = s2vs_infonce().compute(data["nopos/similarity"], golden.relevance(data["nopos/labels"]), {})
    assert torch.isfinite(result.value)
    assert result.rows + result.skipped == 8
    assert result.skipped == int((golden.relevance(data["nopos/labels"]) == 1).any(1).logical_not().sum()) > 0

    everything = golden.relevance(torch.ones(8, 8))
    infonce = s2vs_infonce().compute(data["noneg/similarity"], everything, {})
    assert float(infonce.value) == pytest.approx(float(data["noneg/infonce"]), abs=1e-8)
    assert infonce.skipped == 0
    hardneg = HardNegativeLoss(unit_range=False).compute(data["noneg/similarity"], everything, {})
    assert (float(hardneg.value), hardneg.rows, hardneg.skipped) == (0.0, 0, 8)


@pytest.mark.parametrize("unit_range", [False, True])
@pytest.mark.parametrize("name", ["each", "out", "in", "hard"])
def test_a_blank_video_is_left_out(name, unit_range):
    """Its score is -inf; with it in a row nothing else changes, and it has no gradient."""
    loss = (
        HardNegativeLoss(unit_range=unit_range)
        if name == "hard"
        else InfoNCELoss(positives=name, unit_range=unit_range)
    )
    scores, relevance = example()
    blank = torch.zeros_like(scores, dtype=torch.bool)
    blank[:, 3] = blank[0, :4] = True
    blank[2] |= relevance[2] == (0 if name == "hard" else 1)  # nothing is left to be compared with
    spoiled = scores.masked_fill(blank, float("-inf")).requires_grad_()
    found, clean = (
        loss.compute(spoiled, relevance, {}),
        loss.compute(scores, relevance.masked_fill(blank, -1), {}),
    )
    assert torch.equal(found.value.detach(), clean.value)
    assert (found.rows, found.skipped) == (clean.rows, clean.skipped)
    assert clean.skipped >= 1
    found.value.backward()
    assert torch.isfinite(spoiled.grad).all()
    assert not spoiled.grad[blank].any()
    assert spoiled.grad[1 if name == "hard" else 3].any()


def test_a_part_may_have_a_relevance_of_its_own():
    scores, relevance = example()
    own = relevance.masked_fill(relevance == 0, -1)
    losses = CompositeLoss({"all": InfoNCELoss(), "tags": InfoNCELoss(on="tags")})
    here = torch.ones(len(scores), dtype=torch.bool)
    here[0] = False
    given = {"fused": scores, "tags": scores / 2}
    report = losses(given, relevance, {"present/tags": here, "relevance/tags": own})
    assert torch.equal(report.values["all"], InfoNCELoss()(scores, relevance))
    assert torch.equal(report.values["tags"], InfoNCELoss()(scores[1:] / 2, own[1:]))
    assert float(report.values["tags"]) == 0.0, "InfoNCE of matches alone has nothing to push"
    other = losses(given, relevance, {"present/tags": here})
    assert torch.equal(other.values["tags"], InfoNCELoss()(scores[1:] / 2, relevance[1:]))
    assert float(other.values["tags"]) > 0


def example(seed: int = 0, rows: int = 7, columns: int = 11) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(rows, columns, generator=generator) * 2 - 1
    relevance = torch.randint(-1, 2, (rows, columns), generator=generator)
    relevance[1] = relevance[1].clamp(max=0)
    return scores, relevance


@pytest.mark.parametrize("positives", ["each", "out", "in"])
@pytest.mark.parametrize(("temperature", "epsilon"), [(0.5, 0.0), (0.1, 1e-6), (0.1, 0.5)])
def test_infonce_equals_loops(positives, temperature, epsilon):
    scores, relevance = example()
    result = InfoNCELoss(temperature=temperature, positives=positives, epsilon=epsilon).compute(scores, relevance, {})
    assert float(result.value) == pytest.approx(
        slow.infonce(scores, relevance, temperature, positives, epsilon), rel=1e-5
    )
    assert result.skipped == 1
    mapped = InfoNCELoss(temperature=temperature, positives=positives, epsilon=epsilon, unit_range=True)
    expected = slow.infonce((scores + 1) / 2, relevance, temperature, positives, epsilon)
    assert float(mapped(scores, relevance)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("positives", ["each", "out", "in"])
def test_infonce_gradient_and_unjudged_entries(positives):
    scores, relevance = example(3, 4, 6)
    loss = InfoNCELoss(temperature=0.3, positives=positives)
    ours = scores.clone().requires_grad_()
    loss(ours, relevance).backward()
    step = 1e-4
    for i in range(4):
        for j in range(6):
            shift = torch.zeros(4, 6, dtype=torch.float64)
            shift[i, j] = step
            up, down = (slow.infonce(scores.double() + s * shift, relevance, 0.3, positives) for s in (1, -1))
            assert float(ours.grad[i, j]) == pytest.approx((up - down) / (2 * step), abs=1e-5)
    assert (ours.grad[relevance == -1] == 0).all()
    spoiled = scores.masked_fill(relevance == -1, float("nan")).requires_grad_()
    assert float(loss(spoiled, relevance).detach()) == pytest.approx(float(loss(scores, relevance)))
    loss(spoiled, relevance).backward()
    assert torch.isfinite(spoiled.grad).all()


def test_infonce_worked_by_hand():
    scores = torch.tensor([[math.log(2.0), math.log(3.0), math.log(5.0), 9.0]])
    relevance = torch.tensor([[1, 1, 0, -1]])
    values = {
        kind: float(InfoNCELoss(temperature=1.0, positives=kind)(scores, relevance)) for kind in ("each", "out", "in")
    }
    assert values["each"] == pytest.approx((math.log(7 / 2) + math.log(8 / 3)) / 2)
    assert values["out"] == pytest.approx((math.log(10 / 2) + math.log(10 / 3)) / 2)
    assert values["in"] == pytest.approx(math.log(10 / 2.5))


def test_hard_negative_equals_loops_and_skips_rows_without_negatives():
    scores, relevance = example()
    relevance[4] = relevance[4].abs()
    relevance[4, relevance[4] == 0] = 1
    result = HardNegativeLoss().compute(scores, relevance, {})
    assert float(result.value) == pytest.approx(slow.hard_negative((scores + 1) / 2, relevance), rel=1e-5)
    assert result.skipped == 1


ALL = [InfoNCELoss(), InfoNCELoss(positives="out"), InfoNCELoss(positives="in"), HardNegativeLoss()]


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
def test_nothing_to_learn_gives_zero_with_a_graph(loss, shape):
    scores = torch.rand(shape, requires_grad=True)
    result = loss.compute(scores, torch.full(shape, -1), {})
    assert (float(result.value.detach()), result.rows, result.skipped) == (0.0, 0, shape[0])
    result.value.backward()
    assert (scores.grad == 0).all()


@pytest.mark.parametrize(
    "loss", [InfoNCELoss(temperature=0.01), InfoNCELoss(temperature=0.01, positives="in"), HardNegativeLoss()]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_temperature_in_half_precision(loss, dtype):
    scores = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [0.0, 0.5, -1.0]], dtype=dtype, requires_grad=True)
    relevance = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0]])
    with torch.autocast("cpu", dtype=dtype):
        value = loss(scores, relevance)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()


def test_range_and_self():
    excess = torch.tensor([[0.5, 0.0], [1.0, 2.0]], requires_grad=True)
    extras = {"range_excess": excess, "self": torch.tensor([0.0, -1.0])}
    scores, relevance = torch.zeros(2, 2), torch.full((2, 2), -1)
    assert float(RangeRegularizationLoss()(scores, relevance, extras).detach()) == 3.5
    expected = (-math.log(0.5) - math.log(0.001)) / 2
    assert float(SelfSimilarityLoss()(scores, relevance, extras)) == pytest.approx(expected)


def test_composite_sums_names_and_counts():
    loss = golden.s2vs_losses()
    assert loss.needs == {"range_excess", "self"}
    scores, relevance = example()
    extras = {"range_excess": torch.rand(7, 11), "self": torch.rand(7)}
    report = loss({"video": scores, "fused": scores}, relevance, extras)
    values = report.values
    expected = values["infonce"] + 3 * values["hardneg"] + 3 * values["self"] + values["regularization"]
    torch.testing.assert_close(report.total, expected)
    assert report.skipped == {"infonce": 1, "hardneg": 0, "self": 0, "regularization": 0}
    assert report.rows["infonce"] == 6


def test_composite_leaves_out_queries_that_lack_the_part():
    scores, relevance = example()
    present = torch.tensor([True, False, True, True, False, True, True])
    extras = {"range_excess": torch.rand(7, 11), "self": torch.rand(7), "present/video": present}
    report = golden.s2vs_losses()({"video": scores}, relevance, extras)
    rows = {name: value[present] for name, value in extras.items()}
    expected = golden.s2vs_losses()({"video": scores[present]}, relevance[present], rows)
    torch.testing.assert_close(report.total, expected.total)
    assert report.skipped["self"] == 2
    nobody = {**extras, "present/video": torch.zeros(7, dtype=torch.bool)}
    learned = scores.clone().requires_grad_()
    empty = golden.s2vs_losses()({"video": learned}, relevance, nobody)
    assert float(empty.total.detach()) == 0
    assert empty.skipped["infonce"] == 7
    empty.total.backward()


def test_composite_skips_a_part_that_the_store_lacks():
    scores, relevance = example()
    loss = CompositeLoss({"fused": InfoNCELoss(), "text": InfoNCELoss(on="text"), "off": None})
    report = loss({"fused": scores, "video": scores}, relevance, {})
    assert set(report.values) == {"fused", "text"}
    assert float(report.values["text"]) == 0
    assert report.skipped["text"] == 7


class LearnedTemperatureLoss(Loss):
    """A user's loss with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__(on="fused")
        self.logit_scale = nn.Parameter(torch.zeros(()))

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return LossValue((scores * self.logit_scale.exp()).mean(), len(scores), 0)


def test_parameters_of_a_loss_are_parameters_of_the_composite():
    loss = CompositeLoss({"own": LearnedTemperatureLoss()}, {"own": 2.0})
    loss({"fused": torch.ones(2, 2)}, torch.ones(2, 2), {}).total.backward()
    assert {name: float(p.grad) for name, p in loss.named_parameters()} == {"losses.own.logit_scale": 2.0}


@pytest.mark.parametrize("unit_range", [True, False])
def test_inside_their_domain_the_halves_of_sshn_are_the_reference_to_the_last_bit(unit_range):
    """Also between 1 - floor and 1, where the reference has no gradient."""
    generator = torch.Generator().manual_seed(0)
    values = torch.cat([torch.rand(200, generator=generator), 1 - torch.rand(50, generator=generator) * 2e-3])
    values = torch.cat([values, torch.tensor([0.0, 1.0, 1 - 1e-3])])
    scores = (2 * values - 1 if unit_range else values)[:, None]
    mapped = (scores + 1) / 2 if unit_range else scores
    assert float(mapped.max()) == 1.0

    for kind in ("hard", "self"):
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        own = (theirs + 1) / 2 if unit_range else theirs
        if kind == "hard":
            result = HardNegativeLoss(unit_range=unit_range)(ours, torch.zeros_like(ours))
            reference = (-(1 - own).clamp(min=1e-3).log()).sum() / len(own)
        else:
            nothing = torch.zeros(len(own), 1)
            result = SelfSimilarityLoss(unit_range=unit_range)(nothing, nothing, {"self": ours[:, 0]})
            reference = -own.clamp(min=1e-3).log().sum() / len(own)
        result.backward()
        reference.backward()
        assert torch.equal(result, reference), kind
        assert torch.equal(ours.grad, theirs.grad), kind


@pytest.mark.parametrize("score", [1.0001, 1.2, 3.0, 1e4])
def test_above_their_domain_the_halves_of_sshn_keep_their_sense(score):
    """A residual network scores beyond 1: a self-score there is good enough, a negative there the worst."""
    own = torch.tensor([score], requires_grad=True)
    value = SelfSimilarityLoss(unit_range=False)(torch.zeros(1, 1), torch.zeros(1, 1), {"self": own})
    value.backward()
    assert float(value) == 0.0 == float(own.grad)
    scores = torch.tensor([[score, 0.3]], requires_grad=True)
    value = HardNegativeLoss(unit_range=False)(scores, torch.zeros(1, 2))
    value.backward()
    assert float(value) == pytest.approx(-math.log(1e-3) + 10 * (score - 1), rel=1e-5)
    assert scores.grad.tolist() == [[10.0, 0.0]]
    mapped = torch.tensor([[2 * score - 1]], requires_grad=True)
    HardNegativeLoss()(mapped, torch.zeros(1, 1)).backward()
    assert float(mapped.grad) == 5.0


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match=r"loss.weights.infonc: .*did you mean 'infonce'"):
        CompositeLoss({"infonce": InfoNCELoss()}, {"infonc": 1.0})
    with pytest.raises(ConfigError, match=r"loss.weights.infonce=-1"):
        CompositeLoss({"infonce": InfoNCELoss()}, {"infonce": -1})
    with pytest.raises(ConfigError, match="at least one"):
        CompositeLoss({"infonce": None})
    with pytest.raises(ConfigError, match=r"loss.losses.a.on=vidio: .* fused \| .* 'video'"):
        CompositeLoss({"a": InfoNCELoss(on="vidio")})({"fused": torch.zeros(1, 1)}, torch.zeros(1, 1), {})
    with pytest.raises(ConfigError, match="SelfSimilarityLoss needs self"):
        CompositeLoss({"a": SelfSimilarityLoss()})({"video": torch.zeros(1, 1)}, torch.zeros(1, 1), {})
    with pytest.raises(ConfigError, match="temperature=0"):
        InfoNCELoss(temperature=0)
    with pytest.raises(ConfigError, match="positives='all'"):
        InfoNCELoss(positives="all")
