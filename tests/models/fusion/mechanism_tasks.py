"""Small retrieval tasks, each of which needs one idea of a fusion head."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812

from muvr_train.types import Tags, Tokens
from tests.models.fusion.mechanisms import CODE, SCENE, TEXT, Drawn, Task, drawing, frame


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
