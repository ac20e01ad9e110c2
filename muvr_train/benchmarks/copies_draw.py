"""Drawing the recipes of the copies benchmark from a seed: segments, edits, and who stands beside whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from muvr_train.benchmarks.copies_edits import draw_channel, inset, mild_edits, strong_edits
from muvr_train.benchmarks.copies_recipes import Piece, Recipe
from muvr_train.benchmarks.leakage import upload_of
from muvr_train.errors import ConfigError, DataError

NAME = "copies"
CARDS = 4
TRAIN_CARDS = 16
CHANNELS = 6
"""Overlays of a split: unrelated videos share them, as uploads of one channel do."""


@dataclass(frozen=True)
class CopiesSettings:
    """Sizes of the benchmark.

    Attributes:
        queries: Queries per held-out source.
        copies: Database videos made for each query; the first is plain, the others are edited.
        distractors: Further database videos per held-out source.
        gallery: Database videos of each held-out split, reached by more or fewer distractors, so that folds of unlike
            numbers of sources have equal databases; None: `distractors` per source.
        views: Edited views of every training source (streams `view1` ...).
        intros: Put one of four title cards before 60 % of queries, database videos and training views; every split has
            its own cards.
        train_frames: Frames of a training source.
        query_frames: Frames of a query.
        match_frames: Frames of the segment in a database video.
        filler_frames: Frames of each unrelated segment.
        card_frames: Frames of a title card.
    """

    queries: int = 3
    copies: int = 2
    distractors: int = 1
    views: int = 2
    intros: bool = False
    train_frames: int = 16
    query_frames: int = 10
    match_frames: int = 8
    filler_frames: int = 5
    card_frames: int = 3
    gallery: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "gallery" and value is None:
                continue
            least = 0 if name in ("distractors", "views", "intros") else 1
            if not isinstance(value, int) or value < least:
                raise ConfigError(f"benchmark copies: {name} must be a whole number of at least {least}, got {value!r}")


def draw_views(name: str, train: list[str], seed: int, settings: CopiesSettings) -> list[Recipe]:
    """Draw the recipes of a training source: plain, then its edited views, some inset into another training source."""
    key, frames = f"{NAME}/{name}", settings.train_frames
    made = [Recipe(key, (Piece(name, 0.0, 1.0, frames),))]
    for view in range(1, settings.views + 1):
        rng = Random(f"{seed}/{name}/view{view}")
        edits = strong_edits(rng, frames)
        hosts = _others(rng, train, name, 1)
        if hosts and rng.random() < 0.25:
            edits = (*edits, inset(rng, hosts[0], draw_segment(rng, 0.3, 0.6)))
        made.append(
            Recipe(
                key, _finished(rng, "train", [Piece(name, 0.0, 1.0, frames, edits)], seed, settings, 0.6), f"view{view}"
            )
        )
    return made


def draw_cards(settings: CopiesSettings) -> list[Recipe]:
    """Draw title cards for training, alone (stream "cards"); none without `intros`. The first ones are in the views."""
    numbers = range(TRAIN_CARDS if settings.intros else 0)
    pieces = [Piece(f"train{number}", 0.0, 1.0, settings.card_frames, card=True) for number in numbers]
    return [Recipe(f"{NAME}/card {piece.source}", (piece,), "cards") for piece in pieces]


def draw_held_out(
    split: str, names: list[str], seed: int, settings: CopiesSettings
) -> tuple[list[Recipe], list[Recipe]]:
    """Draw the queries and the database videos of a held-out split from its sources alone.

    Raises:
        ConfigError: `settings.gallery` is less than the matches.
        DataError: there are no unrelated sources to make distractors of.
    """
    queries, database = [], []
    for name, distractors in zip(names, _distractors(split, names, settings), strict=True):
        for number in range(settings.queries):
            rng = Random(f"{seed}/{name}/query{number}")
            start, stop = draw_segment(rng, 0.2, 0.4)
            piece = Piece(name, start, stop, settings.query_frames, strong_edits(rng, settings.query_frames))
            queries.append(Recipe(f"{NAME}/{name}@query{number}", _finished(rng, split, [piece], seed, settings, 0.6)))
            for copy in range(settings.copies):
                pieces = _untrimmed(rng, name, jitter_segment(rng, start, stop), names, settings, edited=copy > 0)
                database.append(
                    Recipe(
                        f"{NAME}/{name}@copy{number}-{copy}",
                        _finished(rng, split, pieces, seed, settings, 0.5 if copy else 0.0),
                    )
                )
        for number in range(distractors):
            rng = Random(f"{seed}/{name}/distractor{number}")
            pieces = [_filler(rng, other, settings) for other in _others(rng, names, name, _most_fillers(names))]
            if pieces:
                database.append(
                    Recipe(f"{NAME}/{name}@distractor{number}", _finished(rng, split, pieces, seed, settings, 0.5))
                )
    return queries, database


def _distractors(split: str, names: list[str], settings: CopiesSettings) -> list[int]:
    """How many distractors each source of a split gets."""
    if settings.gallery is None or not names:
        return [settings.distractors] * len(names)
    matches = len(names) * settings.queries * settings.copies
    missing = settings.gallery - matches
    if missing < 0:
        raise ConfigError(
            f"benchmark copies: gallery={settings.gallery}, but {len(names)} {split} videos have {matches} matches; "
            f"give at least {matches}, or fewer queries or copies"
        )
    if missing and len({topic_of(name) for name in names}) < 2:
        raise DataError(f"benchmark copies: {split} has one upload only, no distractors can be made for gallery")
    return [missing // len(names) + (place < missing % len(names)) for place in range(len(names))]


def _untrimmed(
    rng: Random, name: str, segment: tuple[float, float], names: list[str], settings: CopiesSettings, edited: bool
) -> list[Piece]:
    """The segment among unrelated ones; edited: as a re-upload, sometimes inset into the video it stands in."""
    others = _others(rng, names, name, rng.randint(min(1, len(names) // 4), _most_fillers(names)))
    fillers = [_filler(rng, other, settings) for other in others]
    edits = mild_edits(rng) if edited else ()
    if edited and fillers and rng.random() < 0.3:
        edits = (*edits, inset(rng, others[0], (fillers[0].start, fillers[0].stop)))
    at = rng.randint(0, len(fillers))
    return [*fillers[:at], Piece(name, *segment, settings.match_frames, edits), *fillers[at:]]


def _most_fillers(names: list[str]) -> int:
    """How many other sources a database video shows at most: few in a small split, or everything would match."""
    return 1 if len(names) < 12 else 2


def _filler(rng: Random, name: str, settings: CopiesSettings) -> Piece:
    return Piece(name, *draw_segment(rng, 0.15, 0.4), settings.filler_frames)


def _others(rng: Random, names: list[str], name: str, count: int) -> list[str]:
    unrelated = [other for other in names if topic_of(other) != topic_of(name)]
    return rng.sample(unrelated, min(count, len(unrelated)))


def _finished(
    rng: Random, split: str, pieces: Sequence[Piece], seed: int, settings: CopiesSettings, branded: float
) -> tuple[Piece, ...]:
    """Put a channel's overlay over the whole video with probability `branded`, and a title card before it if wanted."""
    if rng.random() < branded:
        overlay = draw_channel(Random(f"{seed}/{split}/channel{rng.randrange(CHANNELS)}"))
        pieces = [replace(piece, edits=(*piece.edits, *overlay)) for piece in pieces]
    if settings.intros and rng.random() < 0.6:
        card = Piece(f"{split}{rng.randrange(CARDS)}", 0.0, 1.0, settings.card_frames, card=True)
        pieces = [card, *pieces]
    return tuple(pieces)


def topic_of(name: str) -> str:
    """The search topic of a source: its upload, so that cuts of one upload are never split."""
    return f"{NAME}/{upload_of(f'{NAME}/{name}')}"


def draw_segment(rng: Random, low: float, high: float) -> tuple[float, float]:
    """Draw (start, stop) of a part whose length is a fraction of the source between `low` and `high`."""
    length = rng.uniform(low, high)
    start = rng.uniform(0.0, 1.0 - length)
    return round(start, 4), round(start + length, 4)


def jitter_segment(rng: Random, start: float, stop: float) -> tuple[float, float]:
    """Draw a part that overlaps (start, stop): each end moved by up to a quarter of the length, inside [0, 1]."""
    reach = (stop - start) / 4
    low = max(0.0, start + rng.uniform(-reach, reach))
    return round(low, 4), round(min(1.0, stop + rng.uniform(-reach, reach)), 4)
