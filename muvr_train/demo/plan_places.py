"""Search topics about what happens where: news (one event), region (one place), others (copies of one clip)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from muvr_train.demo.plan_base import HARD, Facts, Shots, TopicKind, make_place, name_thing, phrase_place
from muvr_train.demo.plan_parts import (
    EDITS,
    any_actor,
    any_camera,
    any_look,
    any_scene,
    edited,
    make_path,
    seed,
    uniform,
    untrimmed,
)
from muvr_train.demo.scenario import Actor, Scene, Shot
from muvr_train.demo.spec import MOVES, SPRITE_COLOURS, SPRITES


def _core_frames(rng: Random, role: str, frames: int, low: int, high: int) -> int:
    return min(frames, rng.randint(low, high) + (8 if role == "query" else 0))


class NewsTopic(TopicKind):
    """One scripted event: the same things do the same in the same place, seen by several cameras and channels."""

    levels = ("copy", "event", "event", "event")

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Write the script."""
        self.scene = make_place(rng, facts.rank)
        self.kinds = rng.sample(SPRITES, 3)
        self.colours = [rng.choice(SPRITE_COLOURS) for _ in self.kinds]
        self.actors = self._cast(rng)
        first, second, third = (name_thing(c, k) for k, c in zip(self.kinds, self.colours, strict=True))
        where = phrase_place(self.scene)
        self.prompts = (
            f"News about {first}, {second} and {third} {where}.",
            f"Reports that show {first} together with {second} {where}.",
            f"Find the event {where} in which {first} and {third} appear.",
        )

    def _cast(self, rng: Random) -> tuple[Actor, ...]:
        return tuple(
            Actor(kind, colour, uniform(rng, 38, 66), make_path(rng, rng.choice(MOVES), index), seed(rng))
            for index, (kind, colour) in enumerate(zip(self.kinds, self.colours, strict=True))
        )

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The event (or, in a hard negative, another event of the same kind of things) among unrelated shots."""
        scene, actors = self.scene, self.actors
        if role == HARD:
            scene, actors = replace(scene, layout=seed(rng)), self._cast(rng)
        last = _core_frames(rng, role, frames, 18, 28)
        camera = any_camera(rng, (1.0, 1.12) if role == "copy" else (1.0, 1.45), 0.2)
        offset = uniform(rng, 0, max(0, 40 - last))
        core = Shot(last, scene, actors, camera, any_look(rng, 0.5 if role == "copy" else 0.9), offset=offset)
        return untrimmed(rng, (core,), frames)


class RegionTopic(TopicKind):
    """One place: other things pass before it each time."""

    levels = ("scene",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Choose the place, and the passers-by that hard negatives share with the queries."""
        self.scene = make_place(rng, facts.rank)
        self.passers = tuple(any_actor(rng, (70, 105)) for _ in range(2))
        where = phrase_place(self.scene)
        self.prompts = (f"Videos filmed {where}.", f"The same place {where}.", f"Find this view {where}.")

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The place (or another one of its kind) behind large passers-by."""
        scene, actors = self.scene, tuple(any_actor(rng, (70, 105)) for _ in range(2))
        if role == HARD:
            scene, actors = replace(scene, layout=seed(rng)), self.passers
        elif role == "query" and rng.random() < 0.7:
            actors = self.passers
        last = _core_frames(rng, role, frames, 24, 36)
        core = Shot(last, scene, actors, any_camera(rng, (1.0, 1.3), 0.25), any_look(rng, 0.8), script=last)
        return untrimmed(rng, (core,), frames)


class OthersTopic(TopicKind):
    """One clip of two shots, copied again and again with other edits."""

    levels = ("copy",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Film the clip."""
        self.clip = tuple(self._shot(rng, make_place(rng, facts.rank + step)) for step in (0, 3))
        thing = self.clip[0].actors[0]
        first, second = (phrase_place(shot.scene) for shot in self.clip if shot.scene)
        self.prompts = (
            f"Copies of a clip with {name_thing(thing.colour, thing.kind)} {first}, then {second}.",
            f"Edited versions of a video {first} and {second}.",
            f"Find reuploads of the clip with a {thing.kind} {first}.",
        )

    def _shot(self, rng: Random, scene: Scene) -> Shot:
        actors = tuple(any_actor(rng, (36, 70)) for _ in range(2))
        return Shot(16, scene, actors, any_camera(rng, (1.0, 1.2), 0.15), script=16)

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """An edited copy of the clip (a query: lightly edited) among unrelated shots."""
        clip = self.clip
        if role == HARD:
            clip = tuple(self._lookalike(rng, shot) for shot in clip)
        edits = tuple(rng.sample(EDITS, rng.randint(0, 1) if role == "query" else rng.randint(2, 4)))
        speed = uniform(rng, 0.8, 1.25) if role == "query" else uniform(rng, 0.6, 1.6)
        state, core = rng.getstate(), []
        for shot in clip:
            rng.setstate(state)
            last = min(frames // 2, round(shot.frames / speed))
            core.append(edited(rng, replace(shot, frames=last, speed=speed), edits))
        return untrimmed(rng, tuple(core), frames)

    def _lookalike(self, rng: Random, shot: Shot) -> Shot:
        scene = shot.scene or any_scene(rng)
        actors = tuple(replace(any_actor(rng), kind=a.kind, colour=a.colour, size=a.size) for a in shot.actors)
        return replace(shot, scene=replace(scene, layout=seed(rng)), actors=actors, camera=any_camera(rng, (1.0, 1.2)))
