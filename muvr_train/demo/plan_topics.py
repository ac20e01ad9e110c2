"""The kinds of search topic by partition, and the videos that belong to none."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from muvr_train.demo.plan_base import Poses, Shots, TopicKind
from muvr_train.demo.plan_parts import any_scene, filler, point, seed, uniform, untrimmed
from muvr_train.demo.plan_places import NewsTopic, OthersTopic, RegionTopic
from muvr_train.demo.plan_things import DanceTopic, InstanceTopic, dance_shots, object_shots
from muvr_train.demo.scenario import Actor
from muvr_train.demo.spec import OTHER_COLOURS, OTHER_SHAPES

KINDS: dict[str, type[TopicKind]] = {
    "news": NewsTopic,
    "region": RegionTopic,
    "instance": InstanceTopic,
    "dance": DanceTopic,
    "others": OthersTopic,
}


def unrelated_shots(rng: Random, partition: str, frames: int, spare: tuple[Poses, ...]) -> Shots:
    """A video without a topic, of the kind that the partition's other videos are; `spare` orders are no topic's."""
    if partition == "instance" and rng.random() < 0.6:
        return object_shots(rng, rng.choice(OTHER_SHAPES), rng.choice(OTHER_COLOURS), frames)
    if partition == "dance":
        dancer = Actor("dancer", "", uniform(rng, 108, 132), (point(rng, (0.4, 0.6), (0.48, 0.56)),), seed(rng))
        return dance_shots(rng, any_scene(rng), replace(dancer, poses=rng.choice(spare)), frames)
    return untrimmed(rng, (filler(rng, rng.randint(20, 32)),), frames)
