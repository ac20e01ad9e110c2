"""The gradients of a fusion head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from muvr_train.conformance.assertions import weighted_sum
from muvr_train.conformance.head_trial import HeadTrial
from muvr_train.conformance.world import Database, pack_queries
from muvr_train.models.retriever import Retriever


def check_gradients(trial: HeadTrial, reach_all: bool) -> None:
    """Gradients of training scores, in float32 and under bfloat16 autocast, and with a blank video."""
    model, subject = trial.model.train(), trial.subject
    size = (len(trial.world.items), len(trial.world.videos))

    def value(database: Database | None = None) -> Tensor:
        torch.manual_seed(trial.seed)
        scores = model.training_scores(*trial.encoded(database=database))[0]["fused"]
        if database is None:
            subject.require_matrix(scores, size, "the training score")
        return weighted_sum(scores)

    subject.require_gradients(model.head, value, reach_all)
    subject.require_gradients(model, lambda: value(trial.blank_database(1)), False, "with a blank video, ")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        subject.require_gradients(model.head, value, reach_all=False)
    model.zero_grad()
    model.eval()


def check_reach(trial: HeadTrial) -> None:
    """Gradients reach the tokens of both sides, and what the network and the text part gave if the head asked them."""
    model, subject = trial.model.train(), trial.subject
    leaves: dict[str, Tensor] = {}

    def leaf(part: Any, name: str) -> Any:
        if part is None:
            return None
        leaves[name] = part.x.clone().requires_grad_()
        return replace(part, x=leaves[name])

    query = pack_queries([replace(item, tags=None, sign=None) for item in trial.world.items])
    query = replace(query, video=leaf(query.video, "query videos"), text=leaf(query.text, "query texts"))
    videos, fine = trial.blank_database(1)
    database = leaf(videos, "database videos"), fine
    with _recorded(model) as given:
        torch.manual_seed(trial.seed)
        total = weighted_sum(model.training_scores(*trial.encoded(query, database))[0]["fused"])
        subject.require(total.requires_grad, "no gradient reaches the tokens: the scores are detached")
        total.backward()  # type: ignore[no-untyped-call]
    for name, tensor in leaves.items():
        subject.require_reached([tensor], f"training cannot reach the {name}")
    for name, tensors in given.items():
        if tensors:
            subject.require_reached(tensors, f"{name} cannot learn: its scores are detached")
    model.zero_grad()
    model.eval()


@contextmanager
def _recorded(model: Retriever) -> Iterator[dict[str, list[Tensor]]]:
    """Scores that the network and the text part give, with their gradients."""
    given: dict[str, list[Tensor]] = {"the similarity network": [], "the text part": []}

    def record(name: str, scores: Tensor) -> Tensor:
        if scores.requires_grad:
            scores.retain_grad()
        given[name].append(scores)
        return scores

    similarity, hook = model.network.similarity, None
    if model.text_part is not None:
        hook = model.text_part.register_forward_hook(lambda _, __, scores: record("the text part", scores))
    model.network.__dict__["similarity"] = lambda *given, **named: record(
        "the similarity network", similarity(*given, **named)
    )
    try:
        yield given
    finally:
        del model.network.__dict__["similarity"]
        if hook is not None:
            hook.remove()
