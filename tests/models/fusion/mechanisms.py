"""Small retrieval tasks in feature space, each of which needs one idea of a fusion head, and a loop that trains on them.

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
from muvr_train.types import QueryBatch, StoreDims, Tags, TextTokens, Tokens

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


class NamedFrame(Task):
    """The text names the concept of one frame of five; only the instance seen in that frame counts.

    All candidates show the concept, so that the text alone says nothing. Four show the other four frames, with another
    instance of the concept; two show nothing else of the query; the target shows only the named frame.
    """

    concepts = 10

    def build(self) -> None:
        self.codes, self.names = self.units(self.concepts, CODE), self.units(self.concepts, TEXT)

    def draw(self, count: int) -> Drawn:
        order = torch.stack([torch.randperm(self.concepts, generator=self.generator) for _ in range(count)])
        scenes, codes = self.units(count, 5, SCENE), self.codes[order[:, :5]]
        video, named = frame(scenes, codes), self.numbers(5, count)
        rows = torch.arange(count)
        text = self.names[order[rows, named]]
        shown = frame(self.units(count, 7, 5, SCENE), self.codes[order[:, 5:]][:, None])  # other concepts, scenes
        other = frame(self.units(count, 7, SCENE), codes[rows, named][:, None])  # the concept, other instances
        others = torch.stack([video[row, torch.arange(5) != named[row]] for row in range(count)])
        shown[:, 1:5, :4] = others[:, None]
        shown[:, :, 4] = other
        shown[:, 0, 4] = video[rows, named]
        return drawing(self.noisy(video)[:, :, None], self.noisy(text), self.noisy(shown)[:, :, :, None])


class OtherObject(Task):
    """The text names one of three changes of the object; the target shows the query's scene with the changed object.

    The candidates are the scene with each of the six objects, the query's own among them.
    """

    objects = 6

    def build(self) -> None:
        self.codes, self.names = self.units(self.objects, CODE), self.units(3, TEXT)

    def draw(self, count: int) -> Drawn:
        scene, was, change = self.units(count, SCENE), self.numbers(self.objects, count), self.numbers(3, count)
        video = frame(scene, self.codes[was])[:, None].expand(-1, 3, -1)
        places = (was + 1 + change)[:, None] + torch.arange(self.objects)
        shown = frame(scene[:, None], self.codes[places % self.objects])[:, :, None].expand(-1, -1, 3, -1)
        return drawing(self.noisy(video)[:, :, None], self.noisy(self.names[change]), self.noisy(shown)[:, :, :, None])


class WhereInTarget(Task):
    """The text names what happens while the query's scene is shown; every candidate holds the scene and the event.

    The target holds them in the same four frames; five others hold the scene with another event and the event in
    another scene. Twelve frames, three segments in random order.
    """

    events = 6

    def build(self) -> None:
        self.codes, self.names = self.units(self.events, CODE), self.units(self.events, TEXT)

    def draw(self, count: int) -> Drawn:
        scene = self.units(count, SCENE)
        order = torch.stack([torch.randperm(self.events, generator=self.generator) for _ in range(count)])
        video = frame(scene, torch.zeros(count, CODE))[:, None].expand(-1, 4, -1)
        scenes = torch.stack([scene[:, None].expand(-1, 6, -1), *self.units(2, count, 6, SCENE)], dim=2)
        events = order[:, :3][:, None].repeat(1, 6, 1)
        events[:, 1:, :2] = order[:, :2].flip(1)[:, None]
        shown = frame(scenes, self.codes[events])
        moved = torch.rand(count, 6, 3, generator=self.generator).argsort(dim=2)
        shown = shown.gather(2, moved[..., None].expand_as(shown)).repeat_interleave(4, dim=2)
        return drawing(
            self.noisy(video)[:, :, None], self.noisy(self.names[order[:, 0]]), self.noisy(shown)[:, :, :, None]
        )


class Reliable(Task):
    """Either the video or the text of a query misleads, and a frame of the video says which: one of two marks.

    Where the video misleads, five candidates are copies of it and the target shows, in another scene, the object that
    the text describes. Where the text misleads, five candidates show what it describes, in other scenes, and the target
    the query's scene with a similar object. Objects are new in every drawing; texts are a linear map of them.
    """

    def build(self) -> None:
        self.marks, self.language = self.units(2, SCENE), torch.randn(CODE, TEXT, generator=self.generator)

    def draw(self, count: int) -> Drawn:
        scene, seen, told = self.units(count, SCENE), self.units(count, CODE), self.units(count, CODE)
        text_misleads = self.numbers(2, count)
        mark = frame(self.marks[text_misleads], torch.zeros(count, CODE))
        video = torch.stack([frame(scene, seen), frame(scene, seen), mark], dim=1)
        copies = frame(scene, seen)[:, None].expand(-1, 5, -1)
        told_elsewhere = frame(self.units(count, 6, SCENE), told[:, None])
        by_text = torch.cat([told_elsewhere[:, :1], copies], dim=1)
        alike = F.normalize(seen + self.units(count, CODE), dim=-1)
        by_video = torch.cat([frame(scene, alike)[:, None], told_elsewhere[:, 1:]], dim=1)
        shown = torch.where(text_misleads[:, None, None] == 1, by_video, by_text)[:, :, None].expand(-1, -1, 3, -1)
        text = F.normalize(told @ self.language, dim=-1)
        return drawing(self.noisy(video)[:, :, None], self.noisy(text), self.noisy(shown)[:, :, :, None])


class Conditions(Task):
    """Queries with signed conditions: +A -B, or +A or +B. Videos in the query's own scene break them.

    The target is in a scene that only resembles the query's. Every video shows two of the things that tags name.
    """

    mode = "tv+tag"
    things = 8

    def build(self) -> None:
        self.codes, self.names = self.units(self.things, CODE), self.units(self.things, TEXT)

    def draw(self, count: int) -> Drawn:
        scene, either = self.units(count, SCENE), self.numbers(2, count) == 1
        resembling = F.normalize(scene + self.units(count, SCENE), dim=-1)
        order = torch.stack([torch.randperm(self.things, generator=self.generator) for _ in range(count)])
        a, b, *others = order.T
        one = torch.where(self.numbers(2, count) == 1, a, b)
        both = torch.stack(
            [torch.stack(pair, dim=1) for pair in ((a, others[0]), (a, b), (b, others[1]), others[2:4])], 1
        )
        any_of = torch.stack(
            [torch.stack(pair, dim=1) for pair in ((one, others[0]), others[1:3], others[3:5], others[4:6])], 1
        )
        things = torch.where(either[:, None, None], any_of, both)
        scenes = torch.cat([resembling[:, None], scene[:, None].expand(-1, 3, -1)], dim=1)
        shown = frame(scenes[:, :, None], self.codes[things])
        sign = torch.stack([torch.ones(count), torch.where(either, 1.0, -1.0)], dim=1)
        asked = torch.ones(count, 2, dtype=torch.bool)
        tags = Tags(self.noisy(self.names[order[:, :2]]), asked, sign, either[:, None].expand(-1, 2))
        video = frame(scene, torch.zeros(count, CODE))[:, None].expand(-1, 2, -1)
        return drawing(self.noisy(video)[:, :, None], None, self.noisy(shown)[:, :, :, None], tags=tags)


class Corner(Task):
    """One region of four shows a thing, and a mask says which; the text says how the thing is changed.

    The target shows the changed thing in another scene; one candidate the unchanged thing there, five others another
    thing in the query's own scene.
    """

    mode = "tv+region"
    regions = 4
    kinds = 6

    def build(self) -> None:
        self.codes, self.names = self.units(self.kinds, CODE), self.units(3, TEXT)

    def draw(self, count: int) -> Drawn:
        was, change = self.numbers(self.kinds, count, 1), self.numbers(3, count, 1)
        changed = ((was + 1 + change) % self.kinds).expand(-1, 6)
        kinds = self.codes[torch.cat([was, changed[:, :1], was, changed[:, 1:]], dim=1)]
        own = self.units(count, 1, SCENE).expand(-1, 3, -1)
        thing = frame(torch.cat([own, self.units(count, 5, SCENE)], dim=1), kinds)
        here, there = self.units(2, count, 1, 4, SCENE)
        scenes = torch.cat([here, there.expand(-1, 2, -1, -1), here.expand(-1, 5, -1, -1)], dim=1)
        corner = F.one_hot(self.numbers(4, count, 8), 4)[..., None] == 1
        x = self.noisy(torch.where(corner, thing[:, :, None], frame(scenes, torch.zeros(count, 8, 4, CODE))))
        inside = Tokens(self.noisy(thing[:, :1])[:, :, None], torch.ones(count, 1, dtype=torch.bool))
        return drawing(x[:, :1], self.noisy(self.names[change[:, 0]]), x[:, 1:, None], region=inside)
