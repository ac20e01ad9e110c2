"""Edited views: recipes that depend on seed, video id, number of the view, strength and donors, and on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from random import Random

from muvr_train.benchmarks.copies_draw import CARDS, draw_segment, topic_of
from muvr_train.benchmarks.copies_recipes import Edit, Piece, Recipe
from muvr_train.features.edits.draw import FAMILIES, HOSTS, draw_edit

ALL = 10**6
"""Frames of a piece that takes all there are."""
DONORS = 48
"""Videos of a folder that are shown in the views of the others: few, so that a decoder keeps their frames."""
STEPS = (  # in the order in which a video is made and uploaded: family, how often, how many edits at most
    ("temporal", 0.6, 2),
    ("geometric", 0.8, 2),
    ("colour", 0.7, 2),
    ("picture in picture", 0.25, 1),
    ("overlay", 0.5, 2),
    ("blur", 0.3, 1),
    ("noise", 0.15, 1),
    ("compression", 0.5, 1),
)
INTRO, OUTRO = 0.35, 0.2
RARE = {"invert": 0.15, "turn": 0.5, "stretch": 0.5, "reverse": 0.5}
"""Weights of edits that are seldom seen; the others have weight 1."""


def choose_donors(ids: Iterable[str], seed: int, count: int = DONORS) -> list[str]:
    """Those of the ids whose frames are shown in other videos' views, sorted; any order of the ids gives the same."""
    return sorted(sorted(set(ids), key=lambda id_: hashlib.sha256(f"{seed}/{id_}".encode()).digest())[:count])


def draw_view(id_: str, view: int, donors: Sequence[str], seed: int = 0, strength: float = 1.0) -> Recipe:
    """Draw an edited view (stream `view<number>`).

    Its edit "thin" stands for the sampling that the plain video has too: whoever composes it sets the share.

    Args:
        id_: of the video; also the name of its frames as a source.
        view: 1, 2, ...
        donors: ids of the videos that may be shown in it; those of the same upload are left out.
        seed: of all views.
        strength: in [0, 1]; 0 leaves the video as it is.
    """
    rng = Random(f"{seed}/{id_}/view{view}")
    others = [donor for donor in donors if topic_of(donor) != topic_of(id_)]
    edits: list[Edit] = []
    for family, often, most in STEPS:
        if rng.random() < often:
            edits += _draw_family(rng, family, rng.randint(1, most), others, strength)
        if family == "temporal":
            edits.append(Edit("thin", {"share": 1.0}))
    pieces = [Piece(id_, 0.0, 1.0, ALL, tuple(edits))]
    if rng.random() < INTRO * strength:
        pieces.insert(0, _draw_foreign(rng, others))
    if rng.random() < OUTRO * strength:
        pieces.append(_draw_foreign(rng, others))
    return Recipe(id_, tuple(pieces), f"view{view}")


def _draw_family(rng: Random, family: str, count: int, others: Sequence[str], strength: float) -> list[Edit]:
    """Different edits of one family; one that needs another video is left out where there is none."""
    names = list(FAMILIES[family])
    drawn = []
    for _ in range(count):
        name = rng.choices(names, [RARE.get(name, 1.0) for name in names])[0]
        names.remove(name)
        host = rng.choice(others) if name in HOSTS and others else None
        if (name not in HOSTS or host) and (edit := draw_edit(name, rng, strength, host)):
            drawn.append(edit)
    return drawn


def _draw_foreign(rng: Random, others: Sequence[str]) -> Piece:
    """Draw an intro or outro: a title card of the copies benchmark's training part, or frames of another video."""
    count = rng.randint(2, 4)
    if not others or rng.random() < 0.5:
        return Piece(f"train{rng.randrange(CARDS)}", 0.0, 1.0, count, card=True)
    return Piece(rng.choice(others), *draw_segment(rng, 0.05, 0.2), count)
