"""Retrieval tasks in feature space (`mechanism_tasks`): how they are drawn, trained on and measured.

A task has a fixed world (codes of concepts, objects, events; their names in the space of texts, which is not that of
frames) and draws any number of queries from it; scenes and instances are new in every drawing, so that queries that
were not trained on are held out. Every query brings its own candidates; the database holds those of all queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.metrics.functional import average_precision
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.retriever import Retriever
from muvr_train.types import QueryBatch, StoreDims, TextTokens, Tokens

SCENE, CODE, TEXT = 32, 8, 12
DIM = SCENE + CODE
HELD_OUT = 1_000_000
"""Seeds of drawings for tests begin here, those for training at 0."""


class Drawn(NamedTuple):
    """Queries, database and relevance [Q, N]."""

    query: QueryBatch
    database: Tokens
    relevance: Tensor


class Task(ABC):
    """A retrieval task.

    Args:
        seed: of the world.
    """

    regions = 1
    mode = "tv"

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.build()

    @property
    def dims(self) -> StoreDims:
        """Sizes of the features."""
        return StoreDims(self.regions, DIM, TEXT)

    @abstractmethod
    def build(self) -> None:
        """Draw the world."""

    @abstractmethod
    def draw(self, count: int) -> Drawn:
        """Draw queries and their candidates; the first candidate is the target."""

    def drawn(self, count: int, seed: int) -> Drawn:
        """Queries that depend on the seed alone."""
        self.generator = torch.Generator().manual_seed(seed)
        return self.draw(count)

    def units(self, *shape: int) -> Tensor:
        """Random unit vectors [*shape]."""
        return F.normalize(torch.randn(*shape, generator=self.generator), dim=-1)

    def numbers(self, limit: int, *shape: int) -> Tensor:
        """Random integers below the limit."""
        return torch.randint(limit, shape, generator=self.generator)

    def noisy(self, x: Tensor, size: float = 0.1) -> Tensor:
        """Unit vectors with noise of about that length."""
        noise = torch.randn(x.shape, generator=self.generator) * size / x.shape[-1] ** 0.5
        return F.normalize(F.normalize(x, dim=-1) + noise, dim=-1)


def frame(scene: Tensor, code: Tensor) -> Tensor:
    """Frame vectors of a scene and what is in it."""
    shape = torch.broadcast_shapes(scene.shape[:-1], code.shape[:-1])
    return torch.cat([scene.expand(*shape, -1), code.expand(*shape, -1)], dim=-1)


def drawing(video: Tensor | None, text: Tensor | None, candidates: Tensor, **more: object) -> Drawn:
    """Pack frames [Q, T, R, D], texts [Q, TEXT] and candidates [Q, C, T, R, D], the first of which is the target."""
    count, each = candidates.shape[:2]
    present = {"video": torch.full((count,), video is not None), "text": torch.full((count,), text is not None)}
    present |= {name: torch.ones(count, dtype=torch.bool) for name in more}
    query = QueryBatch(
        tuple(f"q{place}" for place in range(count)),
        None if video is None else Tokens(video, torch.ones(video.shape[:2], dtype=torch.bool)),
        None if text is None else TextTokens(text[:, None], torch.ones(count, 1, dtype=torch.bool)),
        present,
        **more,  # type: ignore[arg-type]
    )
    flat = candidates.flatten(0, 1)
    relevance = torch.zeros(count, count * each)
    relevance[torch.arange(count), torch.arange(count) * each] = 1
    return Drawn(query, Tokens(flat, torch.ones(flat.shape[:2], dtype=torch.bool)), relevance)


def train(model: Retriever, task: Task, steps: int, lr: float, count: int = 12, temperature: float = 0.1) -> None:
    """AdamW, InfoNCE on the fused scores of fresh drawings and S2VS's regularisation of its range; cosine to 0.

    Without the latter the clipped maps of S2VS lose their gradient, and the task of the map's channel is missed.
    """
    loss = CompositeLoss({"fused": InfoNCELoss("fused", temperature), "range": RangeRegularizationLoss("video")})
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model.train()
    for step in range(steps):
        drawn = task.drawn(count, step)
        q, n = model.encode_batch(drawn.query, drawn.database)
        scores, extras = model.training_scores(q, n, loss.needs)
        optimizer.zero_grad()
        loss(scores, drawn.relevance, extras).total.backward()
        optimizer.step()
        schedule.step()
    model.eval()


@torch.no_grad()
def mean_ap(model: Retriever, task: Task, mode: str | None = None, count: int = 60) -> float:
    """mAP in percent of held-out queries, in the task's mode or another one."""
    drawn = task.drawn(count, HELD_OUT)
    model.eval()
    q, n = model.encode_query(drawn.query), model.encode_database(drawn.database)
    mode = mode or task.mode
    scores = model.score_modes(q, n, [mode])[mode]
    pairs = zip(scores.double().numpy(), drawn.relevance.long().numpy(), strict=True)
    return 100 * sum(average_precision(*pair) for pair in pairs) / count


def built(
    head: Callable[..., FusionHead], network: Callable[..., SimilarityNetwork], task: Task, seed: int
) -> Retriever:
    """An untrained model for a task."""
    torch.manual_seed(seed)
    fusion = head(dims=task.dims)
    maps = {"extra_maps": fusion.extra_maps} if fusion.extra_maps else {}
    return Retriever(network(dim=DIM, regions=task.regions, **maps), fusion, task.dims)
