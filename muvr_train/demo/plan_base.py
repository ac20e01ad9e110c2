"""What the five kinds of search topic have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from muvr_train.demo.plan_parts import seed
from muvr_train.demo.scenario import Scene, Shot
from muvr_train.demo.spec import SCENES, TIMES

Shots = tuple[Shot, ...]
Poses = tuple[str, ...]

HARD = "hard_independent"
TIME_WORDS = {"morning": "in the morning", "noon": "at noon", "sunset": "at sunset", "night": "at night"}
INSIDE = ("forest", "desert", "room", "village", "street", "hills")


@dataclass(frozen=True)
class Facts:
    """What the plan decides for a topic so that topics of a split differ and words recur: indices and word choices."""

    rank: int
    shape: str = ""
    colour: str = ""
    poses: Poses = ()
    spare: tuple[Poses, ...] = ()


class TopicKind(ABC):
    """One search topic in the making: `levels` are its matches' kinds of correspondence, taken in turn."""

    levels: ClassVar[tuple[str, ...]]
    prompts: tuple[str, str, str]

    @abstractmethod
    def __init__(self, rng: Random, facts: Facts) -> None:
        """Draw what the topic's videos share."""

    @abstractmethod
    def shots(self, rng: Random, role: str, frames: int) -> Shots:
        """The shots of one video: `role` is query, one of `levels`, or HARD; they last `frames` together."""


def make_place(rng: Random, rank: int) -> Scene:
    """A place whose kind and time recur over a split's topics, in ever new combinations."""
    return Scene(SCENES[rank % len(SCENES)], TIMES[(rank + rank // len(SCENES)) % len(TIMES)], seed(rng))


def phrase_place(scene: Scene) -> str:
    """Say where a scene is: `at the beach at noon`."""
    return f"{'in' if scene.kind in INSIDE else 'at'} the {scene.kind} {TIME_WORDS[scene.time]}"


def name_thing(colour: str, kind: str) -> str:
    """Name a thing by its colour, with the right article: `an orange dog`."""
    return f"{'an' if colour[0] in 'aeiou' else 'a'} {colour} {kind}"
