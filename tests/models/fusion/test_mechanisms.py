"""Each learned head solves, on held-out queries, a task that the trained and the untrained mean cannot solve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.s2vs import S2VS
from tests.models.fusion.mechanism_tasks import Conditions, Corner, NamedFrame, OtherObject, Reliable, WhereInTarget
from tests.models.fusion.mechanisms import Task, built, mean_ap, train


class Trial(NamedTuple):
    """A head, the task made for it, and how it is trained."""

    task: type[Task]
    head: Callable[..., FusionHead]
    steps: int = 150
    lr: float = 1e-2
    network: Callable[..., SimilarityNetwork] = Chamfer
    count: int = 12


PLAIN_S2VS = partial(S2VS, attention=False)
TRIALS = {
    "query_scoring": Trial(NamedFrame, QueryScoring, 250),
    "query_scoring_target": Trial(WhereInTarget, partial(QueryScoring, side="target"), 200),
    "combiner": Trial(OtherObject, Combiner, lr=3e-3),
    "cross_attention": Trial(OtherObject, partial(CrossAttention, width=32, layers=1), 250),
    "map_channel": Trial(WhereInTarget, MapChannel, 200, 3e-3, PLAIN_S2VS, 8),
    "gated": Trial(Reliable, GatedFusion, 300),
    "tags": Trial(Conditions, WeightedFusion, 300, 3e-2),
    "region": Trial(Corner, Combiner, lr=3e-3),
}
LONG = {"query_scoring_target", "map_channel"}
RUNS = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if seed or name in LONG else [], id=f"{name}-{seed}")
    for name in TRIALS
    for seed in range(3)
]


def scores(trial: Trial, head: Callable[..., FusionHead], seed: int) -> tuple[float, float]:
    """mAP of held-out queries before and after training."""
    task = trial.task(seed)
    model = built(head, trial.network, task, seed)
    before = mean_ap(model, task)
    train(model, task, trial.steps, trial.lr, trial.count)
    return before, mean_ap(model, task)


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_a_head_solves_what_the_mean_cannot(name: str, seed: int, record_property: Any) -> None:
    trial = TRIALS[name]
    figures = {"head": scores(trial, trial.head, seed), "mean": scores(trial, MeanFusion, seed)}
    for key, value in figures.items():
        record_property(key, value)
    assert figures["head"][1] >= 90
    assert max(figures["mean"]) <= 60


def test_the_mask_is_what_finds_the_thing_in_the_corner() -> None:
    """The model trained with regions, asked without them."""
    task = Corner(0)
    model = built(Combiner, Chamfer, task, 0)
    train(model, task, 150, 3e-3)
    assert mean_ap(model, task) >= 90
    assert mean_ap(model, task, "tv") <= 60


def test_no_weights_of_parts_solve_what_needs_the_query() -> None:
    """The task of `gated` is none of `weighted`, nor that of `query_scoring`."""
    for name in ("gated", "query_scoring"):
        assert scores(TRIALS[name], WeightedFusion, 0)[1] <= 60
