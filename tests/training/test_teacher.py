"""A frozen teacher in the training step: its scores, what a part that is absent gives, and that it stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.distillation import DistillationLoss
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.training.module import RetrievalModule
from muvr_train.training.teacher import SCORES, Teacher, read_from_teacher
from muvr_train.types import StoreDims
from tests.training.test_module import make_batch

DIMS = StoreDims(regions=1, dim=8, text_dim=8)


def make_model(dims: StoreDims = DIMS) -> Retriever:
    torch.manual_seed(3)
    return Retriever(S2VS(8, 1, batch_norm=True, base="chamfer"), WeightedFusion(dims), dims)


def test_its_scores_are_those_of_inference() -> None:
    model, batch = make_model(), make_batch()
    teacher = Teacher(model.train(), SCORES)
    assert not model.training
    given = teacher.score(batch.queries, batch.database, None)
    with torch.no_grad():
        sides = model.encode_query(batch.queries), model.encode_database(batch.database)
        torch.testing.assert_close(given["teacher"], model.score(*sides), rtol=0, atol=1e-6)
        for part in ("video", "text"):
            torch.testing.assert_close(given[f"teacher/{part}"], model.score_parts(*sides)[part], rtol=0, atol=1e-6)
    assert not any(value.requires_grad for value in given.values())


def test_a_memory_budget_changes_nothing() -> None:
    model, batch = make_model(), make_batch()
    whole = Teacher(model, SCORES).score(batch.queries, batch.database, None)
    model.query_chunk = 1
    pieces = Teacher(model, SCORES).score(batch.queries, batch.database, None)
    for name, value in whole.items():
        torch.testing.assert_close(pieces[name], value, rtol=0, atol=1e-6)


def test_a_part_that_a_query_lacks_is_left_out() -> None:
    teacher, batch = Teacher(make_model(), SCORES), make_batch()
    some = replace(batch.queries, present={**batch.queries.present, "text": torch.tensor([True, False])})
    given = teacher.score(some, batch.database, None)
    assert torch.isfinite(given["teacher"]).all()
    assert torch.isfinite(given["teacher/text"][0]).all()
    assert (given["teacher/text"][1] == float("-inf")).all()
    nobody = replace(batch.queries.restrict(["video"]), text=None)
    given = teacher.score(nobody, batch.database, None)
    assert (given["teacher/text"] == float("-inf")).all()
    loss = DistillationLoss(teacher="text").compute(torch.zeros(2, 3, requires_grad=True), batch.relevance, given)
    assert (float(loss.value.detach()), loss.skipped) == (0.0, 2)


def test_a_score_that_it_never_gives_is_refused() -> None:
    without = make_model(StoreDims(regions=1, dim=8, text_dim=None))
    with pytest.raises(ConfigError, match=r"needs teacher/text, .*it gives teacher, teacher/video$"):
        Teacher(without, ["teacher/text"])
    with pytest.raises(ConfigError, match="needs teacher/audio"):
        Teacher(make_model(), ["teacher/audio"])
    assert read_from_teacher({"self", "teacher/video", "teacher"}) == ["teacher", "teacher/video"]


def test_another_model_learns_its_scores_and_it_stays_as_it_is() -> None:
    torch.manual_seed(0)
    batch = make_batch()
    batch = replace(batch, relevance=torch.zeros(2, 3))
    student = Retriever(S2VS(8, 1), MeanFusion(DIMS), DIMS)
    loss = CompositeLoss({"mse": DistillationLoss(on="video", teacher="video", kl=0.0, mse=1.0)})
    fine = make_model()
    before = {name: value.clone() for name, value in fine.state_dict().items()}
    module = RetrievalModule(student, loss, 60, lr=0.02, warmup_steps=0, teacher=Teacher(fine, ["teacher/video"]))
    module.train()
    optimizer = module.configure_optimizers()["optimizer"]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        value = module.training_step(batch, 0)
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    assert losses[-1] < 0.05 * losses[0]
    assert not any(name.startswith("teacher") for name in module.state_dict())
    assert not fine.training
    assert all(torch.equal(value, before[name]) for name, value in fine.state_dict().items())
