"""What the built-in corpus consists of: its sizes, its vocabulary and its version. No randomness here."""

from __future__ import annotations

from dataclasses import dataclass

from muvr_train.errors import ConfigError

VERSION = 1
"""Raise it whenever the same plan is drawn or encoded differently: it is part of the cache folder's name."""
ANNOTATION = 2
"""Raise it whenever the same plan is annotated or masked differently: it is part of the names of those folders."""

FRAME_SIZE = (160, 120)
WORLD_SIZE = (240, 180)
FRAMES = 60
FPS = 6
CARD_FRAMES = 12
CARD_SHARE = 0.6

PARTITIONS = ("news", "others", "instance", "region", "dance")
SPLITS = {"train": 0.5, "val": 0.1, "test": 0.4}
CARDS = {"train": (0, 1, 2, 3), "val": (4, 5), "test": (6, 7, 8, 9)}
QUERIES_PER_TOPIC = 3

SCENES = ("street", "hills", "forest", "beach", "room", "harbour", "desert", "village")
TIMES = ("morning", "noon", "sunset", "night")
SPRITES = ("car", "bus", "person", "dog", "bird", "balloon", "boat", "ball")
SPRITE_COLOURS = ("pale", "dark", "brown", "grey", "pink", "olive", "teal", "orange")
MOVES = ("left", "right", "up", "down", "around", "together", "apart")

SHAPES = ("star", "ring", "cross", "heart", "arrow")
COLOURS = ("red", "yellow", "green", "blue", "purple", "white")
OTHER_SHAPES = ("square", "moon")
OTHER_COLOURS = ("black", "brown")

POSES = ("arms_up", "crouch", "lean_left", "lean_right", "kick", "split")


@dataclass(frozen=True)
class DemoSize:
    """How much of everything there is in one partition.

    `positives` and `hard` are inclusive ranges per topic, `gallery` the least number of videos that the id lists of a
    split's queries must unite to (reached with unrelated videos), `vocabulary` the numbers of (shapes, colours),
    `support` the number of training topics that have each word of a held-out topic's tags in their tags or texts.
    """

    name: str
    topics: int
    positives: tuple[int, int]
    hard: tuple[int, int]
    gallery: dict[str, int]
    vocabulary: tuple[int, int]
    support: int = 3


SIZES = {
    "tiny": DemoSize("tiny", 5, (2, 2), (1, 1), {"train": 13, "val": 7, "test": 13}, (2, 3), support=1),
    "default": DemoSize("default", 20, (6, 7), (2, 4), {"train": 136, "val": 36, "test": 154}, (4, 5)),
    "large": DemoSize("large", 30, (6, 8), (2, 4), {"train": 210, "val": 60, "test": 220}, (5, 6)),
}


def find_size(name: str) -> DemoSize:
    """Look up a size by name.

    Raises:
        ConfigError: There is no size of this name.
    """
    if name not in SIZES:
        raise ConfigError(f"data.size={name!r}: the built-in corpus has the sizes {', '.join(SIZES)}")
    return SIZES[name]
