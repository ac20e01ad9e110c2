"""Learning rates of groups of parameters: which group has what, frozen ones, and ratios that choose nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.sigmoid import SigmoidLoss
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.training.module import RetrievalModule
from muvr_train.training.rates import BASE, group_of, refuse_unused
from muvr_train.types import StoreDims
from tests.training.test_module import make_batch

DIMS = StoreDims(regions=1, dim=8, text_dim=8)


def make_module(ratios: dict[str, float], **settings: Any) -> RetrievalModule:
    torch.manual_seed(0)
    retriever = Retriever(S2VS(8, 1, residual=True), WeightedFusion(DIMS), DIMS)
    return RetrievalModule(retriever, CompositeLoss({"own": SigmoidLoss()}), 10, lr_ratios=ratios, **settings)


def optimizer_of(module: RetrievalModule) -> torch.optim.Optimizer:
    optimizer = module.configure_optimizers()["optimizer"]
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


def test_network_head_text_map_and_loss_are_groups() -> None:
    ratios = {"residual_scale": 10.0, "retriever.network.": 0.5, "retriever.head.": 3.0, "text_part": 2.0, "loss.": 4.0}
    module = make_module(ratios, lr=0.01)
    optimizer = optimizer_of(module)
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    seen = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            seen[names[id(parameter)]] = (group["part"], group["initial_lr"])
    assert seen.keys() == dict(module.named_parameters()).keys()
    for name, (part, rate) in seen.items():
        assert part == group_of(name, ratios)
        assert rate == pytest.approx(0.01 * ratios[part])
    assert seen["retriever.network.residual_scale"][0] == "residual_scale"  # the first piece decides
    assert {part for part, _ in seen.values()} == set(ratios)
    assert group_of("retriever.head.bias.text", {"text_part": 3.0}) == BASE


def test_the_log_says_what_a_piece_freezes(caplog: pytest.LogCaptureFixture) -> None:
    """`head` is also a part of S2VS: who means the fusion head says retriever.head."""
    with caplog.at_level("INFO"):
        module = make_module({"head": 0.0, "scale": 0.0})
    parts = module.retriever.network.head, module.retriever.head
    count = sum(parameter.numel() for part in parts for parameter in part.parameters())
    assert set(caplog.messages) == {
        f"optimizer.lr_ratios: 'head' freezes {count} numbers in retriever.network.head, retriever.head",
        "optimizer.lr_ratios: 'scale' freezes 2 numbers in retriever.network.residual_scale, loss.losses.own.log_scale",
    }


@pytest.mark.parametrize("more", [{}, {"residual_scale": 10.0}])
def test_a_ratio_of_zero_freezes(more: dict[str, float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        module = make_module({**more, "retriever.network.": 0.0}, lr=0.1, weight_decay=0.5).train()
    count = sum(parameter.numel() for parameter in module.retriever.network.parameters())
    assert caplog.messages == [
        f"optimizer.lr_ratios: 'retriever.network.' freezes {count} numbers in retriever.network"
    ]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    optimizer = optimizer_of(module)
    for _ in range(2):
        module.training_step(make_batch(), 0).backward()
        assert all(p.grad is None for n, p in module.named_parameters() if n.startswith("retriever.network."))
        optimizer.step()
    moved = {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}
    assert moved
    assert not any(name.startswith("retriever.network.") for name in moved)


def test_numbers_of_tags_are_a_group_of_their_own() -> None:
    optimizer = optimizer_of(make_module({"text_part": 3.0, "tag_": 10.0}, lr=0.01))
    (group,) = (group for group in optimizer.param_groups if group["part"] == "tag_")
    assert (len(group["params"]), group["weight_decay"]) == (2, 0.0)
    assert group["initial_lr"] == pytest.approx(0.1)


NAMES = [
    "retriever.network.fc.weight",
    "retriever.network.residual_scale",
    "retriever.head.bias.text",
    "loss.losses.a.b",
]


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ({"residual_scal": 2.0}, None),  # a piece of a name
        ({"residual_scales": 2.0}, r"no parameter has 'residual_scales' in its name; did you mean 'residual_scale'"),
        ({"retriever.networks.": 2.0}, r"no parameter has 'retriever.networks.' .*'retriever.network'"),
        ({"zzz": 0.0}, r"no parameter has 'zzz' in its name; the names begin with loss.losses, retriever.head, retr"),
        ({"retriever.network.": 0.1, "residual_scale": 9.0}, None),
        (
            {"network": 0.1, "retriever.network.fc": 9.0},
            r"'network', which comes before 'retriever.network.fc', has taken",
        ),
        ({"residual_scale": 10.0, "retriever.network": 0.0}, None),  # frozen all the same
        ({"text_part": 3.0, "text_map": 2.0, "tag_": 10.0, "head.tag_weight": 2.0}, None),  # parts that may be absent
        ({}, None),
    ],
)
def test_what_chooses_nothing_is_refused(ratios: dict[str, float], message: str | None) -> None:
    if message is None and list(ratios) != ["retriever.network.", "residual_scale"]:
        refuse_unused(NAMES, ratios)
        return
    with pytest.raises(ConfigError, match=message or "'retriever.network.', which comes before 'residual_scale'"):
        refuse_unused(NAMES, ratios)
