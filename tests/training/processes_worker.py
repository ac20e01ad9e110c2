"""What each process of tests/training/test_several_processes.py does: one training step on its share of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from muvr_train.data.batch import Batch
from muvr_train.losses.base import Loss, LossValue
from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.distillation import DistillationLoss
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.dns_coarse import DnSCoarse
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.late_interaction import LateInteraction
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.processes import Group
from muvr_train.training.module import RetrievalModule
from muvr_train.training.teacher import Teacher, read_from_teacher
from muvr_train.types import M, QueryBatch, StoreDims, Tags, TextTokens, Tokens
from tests.together import outcome

DIMS = StoreDims(regions=2, dim=8, text_dim=6)


class LearnedTemperature(Loss):
    """InfoNCE with a temperature of its own: the gradient of a loss's parameter."""

    def __init__(self) -> None:
        super().__init__("fused")
        self.log_scale = nn.Parameter(torch.tensor(1.0))

    def compute(self, scores: Tensor, relevance: Tensor, extras: dict[str, Tensor]) -> LossValue:
        return InfoNCELoss("fused", 1.0).compute(scores * self.log_scale.exp(), relevance, extras)


NETWORKS = {"s2vs": S2VS, "late_interaction": LateInteraction, "dns_coarse": DnSCoarse}


def make_module(group: Group, learned: bool = True, model: str = "s2vs", **network: Any) -> RetrievalModule:
    torch.manual_seed(0)
    losses = {
        "infonce": InfoNCELoss("video", 0.1, unit_range=True),
        "hard_negative": HardNegativeLoss("video"),
        "self": SelfSimilarityLoss("video"),
        "range": RangeRegularizationLoss("video"),
        "text": InfoNCELoss("text", 0.1),
        "tags": InfoNCELoss("tags", 0.1),
        "learned": LearnedTemperature() if learned else None,
        "taught": DistillationLoss("fused", mse=1.0),
        "taught_text": DistillationLoss("fused", teacher="text"),
    }
    settings: dict[str, Any] = {**({"residual": True, "base": "chamfer"} if model == "s2vs" else {}), **network}
    retriever = Retriever(NETWORKS[model](8, 2, **settings), WeightedFusion(DIMS), DIMS)
    for parameter in retriever.parameters():  # nothing at 0, where gradients could hide; maps beyond [-1, 1]
        nn.init.normal_(parameter, std=0.5)
    loss = CompositeLoss(losses, {"range": 0.01})
    teacher = Teacher(Retriever(S2VS(8, 2, base="chamfer"), WeightedFusion(DIMS), DIMS), read_from_teacher(loss.needs))
    return RetrievalModule(retriever, loss, 10, group=group, teacher=teacher)


def make_batch(
    queries: int,
    database: int,
    seed: int,
    with_text: tuple[int, ...] | None = None,
    with_video: tuple[int, ...] | None = None,
    with_tags: tuple[int, ...] = (),
    with_region: tuple[int, ...] = (),
) -> Batch:
    """A whole batch: lengths 1 to 9, the first query has no positive; which queries have which parts."""
    chance = torch.Generator().manual_seed(seed)

    def videos(count: int) -> Tokens:
        lengths = torch.randint(1, 10, (count,), generator=chance).tolist()
        return Tokens.pack([torch.randn(length, 2, 8, generator=chance) for length in lengths])

    rows = range(queries) if with_text is None else with_text
    text_flags = torch.tensor([row in rows for row in range(queries)])
    text = TextTokens(torch.randn(queries, 1, 6, generator=chance) * text_flags[:, None, None], text_flags[:, None])
    video_flags = torch.tensor([with_video is None or row in with_video for row in range(queries)])
    asked = videos(queries)
    asked = replace(asked, x=asked.x * video_flags[:, None, None, None], mask=asked.mask & video_flags[:, None])
    present = {"video": video_flags, "text": text_flags}
    relevance = torch.randint(-1, 2, (queries, database), generator=chance).float()
    relevance[0] = relevance[0].clamp(max=0)
    flags = {"tags": with_tags, "region": with_region}
    present |= {name: torch.tensor([row in rows for row in range(queries)]) for name, rows in flags.items()}
    sign = torch.tensor([[1.0, -1.0 if row % 2 else 0.0] for row in range(queries)]) * present["tags"][:, None]
    tags = Tags(
        torch.randn(queries, 2, 6, generator=chance), sign != 0, sign, (sign < 0).any(dim=1, keepdim=True) & (sign != 0)
    )
    inside = videos(queries)
    region = Tokens(inside.x[:, :, :1], inside.mask & present["region"][:, None])
    ids = tuple(f"ä/{row}" for row in range(queries))
    names = tuple(f"v/{column}" for column in range(database))
    parts = tags if with_tags else None, region if with_region else None
    return Batch(QueryBatch(ids, asked, text, present, *parts), videos(database), None, names, relevance, ids)


def trimmed(part: M) -> M:
    """Without the padding that only other processes' videos need."""
    longest = max(1, int(part.mask.sum(dim=1).max())) if len(part) else 1
    return replace(part, x=part.x[:, :longest], mask=part.mask[:, :longest])


def share_of(batch: Batch, group: Group) -> Batch:
    """This process's share, as the loader gives it."""
    queries = batch.queries[group.share(len(batch.queries))]
    assert queries.video is not None
    return replace(
        batch,
        queries=replace(queries, video=trimmed(queries.video)),
        database=trimmed(batch.database[group.share(len(batch.database))]),
    )


def failed_step(group: Group, batch: Batch) -> Any:
    """The error that a step ends with."""
    return outcome(lambda: make_module(group).train().training_step(share_of(batch, group), 0))


def step(group: Group, batch: Batch, network: dict[str, Any]) -> dict[str, Any]:
    """Loss, skipped rows and gradients of one step."""
    module = make_module(group, **network).train()
    own = share_of(batch, group) if group.size > 1 else batch
    if group.size > 1:
        wrapped = DistributedDataParallel(_Step(module), find_unused_parameters=True, broadcast_buffers=False)
        loss = wrapped(own)
    else:
        loss = module.training_step(own, 0)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    return {"loss": loss.detach(), "gradients": gradients, "logged": module.last_logged}


class _Step(nn.Module):
    """What Lightning wraps: forward is the training step."""

    def __init__(self, module: RetrievalModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Batch) -> Tensor:
        return self.module.training_step(batch, 0)


def steps(group: Group, batches: list[Batch], network: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each batch what `step` gives."""
    return [step(group, batch, network) for batch in batches]
