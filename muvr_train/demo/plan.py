"""The plan of a whole corpus: which topics and videos there are, in which split, with which relations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random

from muvr_train.demo.plan_base import HARD, Facts, Poses
from muvr_train.demo.plan_parts import make_rng
from muvr_train.demo.plan_topics import KINDS, unrelated_shots
from muvr_train.demo.scenario import Plan, Shot, Topic, Video
from muvr_train.demo.spec import (
    CARD_FRAMES,
    CARD_SHARE,
    CARDS,
    COLOURS,
    FRAMES,
    PARTITIONS,
    POSES,
    QUERIES_PER_TOPIC,
    SHAPES,
    SPLITS,
    DemoSize,
    find_size,
)


def make_plan(size: str = "default", seed: int = 0) -> Plan:
    """Plan the corpus of a size from a seed: the same values on every machine.

    Raises:
        ConfigError: There is no size of this name.
    """
    from muvr_train.benchmarks.splits import assign_splits

    wanted = find_size(size)
    names = [f"{partition}/{index}" for partition in PARTITIONS for index in range(1, wanted.topics + 1)]
    split_of = assign_splits(names, tuple(SPLITS.values()))
    topics: list[Topic] = []
    videos: list[Video] = []
    independent: dict[str, tuple[int, ...]] = {}
    for place, partition in enumerate(PARTITIONS):
        builder = _Builder(partition, wanted, seed, 10_000 * place)
        splits = [split_of[f"{partition}/{index}"] for index in range(1, wanted.topics + 1)]
        facts = _share_out(partition, splits, wanted, seed)
        for index, (split, fact) in enumerate(zip(splits, facts, strict=True), start=1):
            topics.append(builder.add_topic(index, split, fact))
        for split in SPLITS:
            if split in splits:
                independent[f"{partition}/{split}"] = builder.add_unrelated(split, facts[0].spare)
        videos.extend(builder.videos)
    return Plan(size, seed, tuple(topics), tuple(videos), independent)


def _share_out(partition: str, splits: Sequence[str], size: DemoSize, seed: int) -> list[Facts]:
    """Give each topic its place in its split and its words, the training topics first.

    Ranks walk through shapes and colours with two coprime cycles, so that no two topics have the same object and every
    word comes to several training topics.
    """
    rng = make_rng(seed, partition, "words")
    shapes, colours = list(SHAPES[: size.vocabulary[0]]), list(COLOURS[: size.vocabulary[1]])
    rng.shuffle(shapes)
    rng.shuffle(colours)
    orders = _pose_orders(rng)
    spare = tuple(orders[len(splits) :])
    ranks = sorted(range(len(splits)), key=lambda index: (list(SPLITS).index(splits[index]), index))
    facts = [Facts(0)] * len(splits)
    within: dict[str, int] = {}
    for rank, index in enumerate(ranks):
        own = within[splits[index]] = within.get(splits[index], -1) + 1
        facts[index] = Facts(own, shapes[rank % len(shapes)], colours[rank % len(colours)], orders[rank], spare)
    return facts


def _pose_orders(rng: Random) -> list[Poses]:
    """All cyclic orders of the poses, shuffled."""
    orders = [(POSES[0], *rest) for rest in permutations(POSES[1:])]
    rng.shuffle(orders)
    return orders


class _Builder:
    """Collects the videos of one partition and numbers them."""

    def __init__(self, partition: str, size: DemoSize, seed: int, base: int) -> None:
        self.partition, self.size, self.seed, self.base = partition, size, seed, base
        self.videos: list[Video] = []

    def add_topic(self, index: int, split: str, facts: Facts) -> Topic:
        """Plan a topic's videos."""
        rng = make_rng(self.seed, self.partition, index)
        kind = KINDS[self.partition](rng, facts)
        positives, hard = rng.randint(*self.size.positives), rng.randint(*self.size.hard)
        levels = [kind.levels[number % len(kind.levels)] for number in range(positives)]
        roles = ["query"] * QUERIES_PER_TOPIC + levels + [HARD] * hard
        members: dict[str, tuple[int, ...]] = {}
        for role in roles:
            own = members.get(role, ())
            name = f"{self.partition}{index:02d}-{'hard' if role == HARD else role}{len(own) + 1}"
            rng = make_rng(self.seed, name)
            card = self._card(rng, split)
            shots = (*card, *kind.shots(rng, role, FRAMES - sum(shot.frames for shot in card)))
            members[role] = (*own, self._add(name, split, index, role, shots))
        return Topic(self.partition, index, split, kind.prompts, members)

    def add_unrelated(self, split: str, spare: tuple[Poses, ...]) -> tuple[int, ...]:
        """Fill a split's gallery up with videos that have no topic."""
        missing = self.size.gallery[split] - sum(video.split == split for video in self.videos)
        numbers = []
        for number in range(1, missing + 1):
            name = f"{self.partition}-{split}-{number:03d}"
            rng = make_rng(self.seed, name)
            card = self._card(rng, split)
            frames = FRAMES - sum(shot.frames for shot in card)
            shots = (*card, *unrelated_shots(rng, self.partition, frames, spare))
            numbers.append(self._add(name, split, None, "independent", shots))
        return tuple(numbers)

    def _card(self, rng: Random, split: str) -> tuple[Shot, ...]:
        if rng.random() >= CARD_SHARE:
            return ()
        return (Shot(CARD_FRAMES + rng.randint(-1, 1), card=rng.choice(CARDS[split])),)

    def _add(self, name: str, split: str, topic: int | None, role: str, shots: tuple[Shot, ...]) -> int:
        number = self.base + len(self.videos) + 1
        self.videos.append(Video(name, number, self.partition, split, topic, role, shots))
        return number
