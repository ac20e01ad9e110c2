"""The five kinds of search topic: what their queries ask for, and what their videos show.

A topic kind is a class with `prompts` and `shots(rng, role, frames)`; everything that the videos of a topic share is drawn
in the constructor from the topic's own generator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from muvr_train.demo.plan_parts import (
    EDITS,
    any_actor,
    any_camera,
    any_look,
    any_scene,
    edited,
    filler,
    make_path,
    point,
    seed,
    uniform,
    untrimmed,
)
from muvr_train.demo.scenario import Actor, Camera, Scene, Shot
from muvr_train.demo.spec import MOVES, OTHER_COLOURS, OTHER_SHAPES, POSES, SCENES, SPRITE_COLOURS, SPRITES, TIMES

Shots = tuple[Shot, ...]

HARD = "hard_independent"
POSE_WORDS = dict(
    arms_up="lifts both arms",
    crouch="crouches",
    lean_left="leans to the left",
    lean_right="leans to the right",
    kick="kicks",
    split="does a split",
)


@dataclass(frozen=True)
class Facts:
    """What the plan decides for a topic so that topics of a split differ and words recur: indices and word choices."""

    rank: int
    shape: str = ""
    colour: str = ""
    poses: tuple[str, ...] = ()


class TopicKind(Protocol):
    """One search topic in the making."""

    levels: tuple[str, ...]
    prompts: tuple[str, str, str]

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Draw what the topic's videos share."""

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The shots of one video: `role` is query, one of `levels`, or HARD; they last `frames` together."""


def _place(rng: Random, rank: int) -> Scene:
    """A place whose kind and time recur over a split's topics, in ever new combinations."""
    return Scene(SCENES[rank % len(SCENES)], TIMES[(rank + rank // len(SCENES)) % len(TIMES)], seed(rng))


def _at(scene: Scene) -> str:
    return f"{'in' if scene.kind in ('forest', 'desert', 'room', 'village', 'street') else 'at'} the {scene.kind} at {scene.time}"


def _core_frames(rng: Random, role: str, frames: int, low: int, high: int) -> int:
    return min(frames, rng.randint(low, high) + (8 if role == "query" else 0))


class NewsTopic:
    """One scripted event: the same things do the same in the same place, seen by several cameras and channels."""

    levels = ("copy", "event", "event", "event")

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Write the script."""
        self.scene = _place(rng, facts.rank)
        self.kinds = rng.sample(SPRITES, 3)
        self.colours = [rng.choice(SPRITE_COLOURS) for _ in self.kinds]
        self.actors = self._cast(rng)
        first, second, third = (f"a {c} {k}" for k, c in zip(self.kinds, self.colours, strict=True))
        where = _at(self.scene)
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
        camera = any_camera(rng, (1.0, 1.12) if role == "copy" else (1.0, 1.55), 0.2)
        offset = uniform(rng, 0, max(0, 40 - last))
        core = Shot(last, scene, actors, camera, any_look(rng, 0.6 if role == "copy" else 1.0), offset=offset)
        return untrimmed(rng, (core,), frames)


class RegionTopic:
    """One place: other things pass before it each time."""

    levels = ("scene",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Choose the place, and the passers-by that hard negatives share with the queries."""
        self.scene = _place(rng, facts.rank)
        self.passers = tuple(any_actor(rng, (80, 120)) for _ in range(2))
        where = _at(self.scene)
        self.prompts = (f"Videos filmed {where}.", f"The same place {where}.", f"Find this view {where}.")

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The place (or another one of its kind) behind large passers-by."""
        scene, actors = self.scene, tuple(any_actor(rng, (80, 120)) for _ in range(2))
        if role == HARD:
            scene, actors = replace(scene, layout=seed(rng)), self.passers
        elif role == "query" and rng.random() < 0.7:
            actors = self.passers
        last = _core_frames(rng, role, frames, 20, 34)
        core = Shot(last, scene, actors, any_camera(rng, (1.0, 1.5), 0.3), any_look(rng), script=last)
        return untrimmed(rng, (core,), frames)


class InstanceTopic:
    """One small object, in ever other places; the text names it."""

    levels = ("instance",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Take the object that the plan gives."""
        self.shape, self.colour = facts.shape, facts.colour
        name = f"a {self.colour} {self.shape}"
        self.prompts = (
            f"Videos in which {name} appears.",
            f"Find {name}.",
            f"Scenes with {name} somewhere in the picture.",
        )

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """A place with the object; in a hard negative, with one that shares only its shape or its colour."""
        shape, colour = self.shape, self.colour
        if role == HARD and rng.random() < 0.5:
            shape = rng.choice(OTHER_SHAPES)
        elif role == HARD:
            colour = rng.choice(OTHER_COLOURS)
        return object_shots(rng, shape, colour, frames)


def object_shots(rng: Random, shape: str, colour: str, frames: int) -> Shots:
    """A place with one object of the instance partition, 36 to 50 pixels of the picture's 160."""
    last = min(frames, rng.randint(28, 44))
    zoom = uniform(rng, 1.0, 1.2)
    camera = replace(any_camera(rng, (zoom, zoom), 0.15), start=point(rng, (0.3, 0.7), (0.3, 0.7)))
    here = point(rng, (0.27, 0.73), (0.27, 0.73))
    path = tuple(
        (round(here[0] + rng.uniform(-0.06, 0.06), 4), round(here[1] + rng.uniform(-0.06, 0.06), 4)) for _ in range(3)
    )
    size = round(rng.uniform(36, 50) * 1.5 / zoom, 4)
    thing = Actor(f"object:{shape}", colour, size, path)
    others = tuple(any_actor(rng, (26, 48)) for _ in range(rng.randint(0, 2)))
    core = Shot(last, any_scene(rng), (*others, thing), camera, any_look(rng, 0.5), script=last)
    return untrimmed(rng, (core,), frames)


class DanceTopic:
    """One order of poses, danced by ever other figures in other places. Every topic has the same six poses."""

    levels = ("action",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Take the order that the plan gives, and the look that hard negatives share with the queries."""
        self.poses = facts.poses
        self.looks = [(any_scene(rng), seed(rng), uniform(rng, 108, 132)) for _ in range(3)]
        first, second, third = (POSE_WORDS[pose] for pose in self.poses[:3])
        last = POSE_WORDS[self.poses[-1]]
        self.prompts = (
            f"A dancer {first}, then {second}, then {third}.",
            f"A dance in which the dancer {first} and then {second}.",
            f"Find the dance: the dancer {last}, {first}, {second}.",
        )

    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The dance (or another order by a query's dancer), from another moment of its loop."""
        poses = self.poses
        scene, style, size = rng.choice(self.looks)
        if role == HARD:
            poses = shuffle_poses(rng, poses)
        elif role != "query":
            scene, style, size = any_scene(rng), seed(rng), uniform(rng, 108, 132)
        return dance_shots(
            rng, scene, Actor("dancer", "", size, (point(rng, (0.4, 0.6), (0.48, 0.56)),), style, poses), frames
        )


def shuffle_poses(rng: Random, poses: tuple[str, ...]) -> tuple[str, ...]:
    """Another cyclic order of the same poses."""
    while True:
        order = (poses[0], *rng.sample(poses[1:], len(poses) - 1))
        if order != poses:
            return order


def dance_shots(rng: Random, scene: Scene, dancer: Actor, frames: int) -> Shots:
    """A dance of one loop of 42 to 50 frames."""
    camera = any_camera(rng, (1.0, 1.15), 0.1)
    script = uniform(rng, 42, 50)
    return (Shot(frames, scene, (dancer,), camera, any_look(rng), offset=uniform(rng, 0, script / 2), script=script),)


class OthersTopic:
    """One clip of two shots, copied again and again with other edits."""

    levels = ("copy",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Film the clip."""
        self.clip = tuple(self._shot(rng, _place(rng, facts.rank + step)) for step in (0, 3))
        thing = self.clip[0].actors[0]
        first, second = (_at(shot.scene) for shot in self.clip if shot.scene)
        self.prompts = (
            f"Copies of a clip with a {thing.colour} {thing.kind} {first}, then {second}.",
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


KINDS: dict[str, type[TopicKind]] = {
    "news": NewsTopic,
    "region": RegionTopic,
    "instance": InstanceTopic,
    "dance": DanceTopic,
    "others": OthersTopic,
}


def unrelated_shots(rng: Random, partition: str, frames: int) -> Shots:
    """A video without a topic, of the kind that the partition's other videos are."""
    if partition == "instance" and rng.random() < 0.6:
        return object_shots(rng, rng.choice(OTHER_SHAPES), rng.choice(OTHER_COLOURS), frames)
    if partition == "dance":
        dancer = Actor("dancer", "", uniform(rng, 108, 132), (point(rng, (0.4, 0.6), (0.48, 0.56)),), seed(rng))
        return dance_shots(rng, any_scene(rng), replace(dancer, poses=shuffle_poses(rng, POSES)), frames)
    return untrimmed(rng, (filler(rng, rng.randint(20, 32)),), frames)


__all__ = ["HARD", "KINDS", "Camera", "Facts", "unrelated_shots"]
