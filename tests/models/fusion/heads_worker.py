"""What each process of tests/models/fusion/test_processes.py does: one training step of a model with some head."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from muvr_train.data.batch import Batch
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.fusion.gated import GatedFusion
from muvr_train.models.fusion.map_channel import MapChannel
from muvr_train.models.fusion.product import HarrisFusion
from muvr_train.models.fusion.query_scoring import QueryScoring
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.processes import Group
from muvr_train.training.module import RetrievalModule
from tests.training.processes_worker import DIMS, _Step, share_of

HEADS: dict[str, tuple[type[FusionHead], dict[str, Any]]] = {
    "late": (GatedFusion, {"hidden": 8}),
    "product": (HarrisFusion, {}),
    "weights": (QueryScoring, {"side": "both"}),
    "early": (CrossAttention, {"width": 8, "heads": 2}),
    "hybrid": (MapChannel, {}),
    "one vector": (CoVR, {"hidden": 8}),
}


def make_module(group: Group, name: str) -> RetrievalModule:
    torch.manual_seed(0)
    head, settings = HEADS[name]
    network = S2VS(8, 2, residual=True, base="chamfer", extra_maps=head.extra_maps)
    retriever = Retriever(network, head(DIMS, **settings), DIMS)
    for parameter in retriever.parameters():  # nothing at 0, where gradients could hide
        nn.init.normal_(parameter, std=0.5)
    losses = {
        "fused": InfoNCELoss("fused", 0.1),
        "video": InfoNCELoss("video", 0.1, unit_range=True),
        "text": InfoNCELoss("text", 0.1),
        "self": SelfSimilarityLoss("video"),
    }
    return RetrievalModule(retriever, CompositeLoss(losses), 10, group=group)


def steps(group: Group, batches: list[Batch]) -> list[dict[str, Any]]:
    """Loss and gradients of one step of every head on every batch."""
    return [step(group, batch, name) for name in HEADS for batch in batches]


def step(group: Group, batch: Batch, name: str) -> dict[str, Any]:
    """Loss and gradients of one step."""
    module = make_module(group, name).train()
    if group.size > 1:
        wrapped = DistributedDataParallel(_Step(module), find_unused_parameters=True, broadcast_buffers=False)
        loss = wrapped(share_of(batch, group))
    else:
        loss = module.training_step(batch, 0)
    loss.backward()
    return {"loss": loss.detach(), "gradients": {key: value.grad for key, value in module.named_parameters()}}
