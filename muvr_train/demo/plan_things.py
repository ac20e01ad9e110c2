"""Search topics about what is seen anywhere: instance (one small object) and dance (one order of poses)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from muvr_train.demo.plan_base import HARD, Facts, Shots, TopicKind
from muvr_train.demo.plan_parts import any_actor, any_camera, any_look, any_scene, point, seed, uniform, untrimmed
from muvr_train.demo.scenario import Actor, Scene, Shot
from muvr_train.demo.spec import OTHER_COLOURS, OTHER_SHAPES

OBJECT_PROMPTS = (
    "Videos in which {} appears.",
    "Find {}.",
    "Scenes with {} somewhere in the picture.",
    "Show me {}.",
)
POSE_WORDS = {
    "arms_up": "lifts both arms",
    "crouch": "crouches",
    "lean_left": "leans to the left",
    "lean_right": "leans to the right",
    "kick": "kicks",
    "split": "does a split",
}


class InstanceTopic(TopicKind):
    """One small object, in ever other places; the text names it."""

    levels = ("instance",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Take the object that the plan gives."""
        self.shape, self.colour = facts.shape, facts.colour
        name = f"a {self.colour} {self.shape}"
        first, second, third = rng.sample(OBJECT_PROMPTS, 3)
        self.prompts = (first.format(name), second.format(name), third.format(name))

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


class DanceTopic(TopicKind):
    """One order of poses, danced by ever other figures in other places. Every topic has the same six poses."""

    levels = ("action",)

    def __init__(self, rng: Random, facts: Facts) -> None:
        """Take the order that the plan gives, and the look that hard negatives share with the queries."""
        self.poses, self.spare = facts.poses, facts.spare
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
            poses = rng.choice(self.spare)
        elif role != "query":
            scene, style, size = any_scene(rng), seed(rng), uniform(rng, 108, 132)
        return dance_shots(
            rng, scene, Actor("dancer", "", size, (point(rng, (0.4, 0.6), (0.48, 0.56)),), style, poses), frames
        )


def dance_shots(rng: Random, scene: Scene, dancer: Actor, frames: int) -> Shots:
    """One loop of the dance lasts 45 to 50 frames, so that each pose falls on several sampled frames."""
    camera = any_camera(rng, (1.0, 1.1), 0.0)
    script = uniform(rng, 45, 50)
    return (Shot(frames, scene, (dancer,), camera, any_look(rng), offset=uniform(rng, 0, script / 2), script=script),)
