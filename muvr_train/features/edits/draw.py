"""Drawing an edit's parameters from a seed, scaled by a strength: what uploads on the web do to a video.

At strength 0 nothing is done; at 1 the parameter is drawn from the whole range in the table below. In between the range
shrinks in proportion towards what changes nothing. Edits without a parameter (flip, grey, ...) happen with probability
`strength`. Fractions are of the picture, or of the video's length.

| family | edit | parameters at strength 1 |
|---|---|---|
| geometric | crop | height and width 0.35 to 0.9, anywhere |
| | flip | mirrored |
| | turn | a quarter to the left or right, or half a turn |
| | rotate | 3 to 25 degrees either way; the corners black, or cut off |
| | stretch | height or width times 0.55 to 0.9 |
| | perspective | each corner up to 0.22 inwards |
| | pad | shrunk to 0.4 to 0.8 onto a blurred copy of itself |
| | letterbox | bars of 0.05 to 0.3, black, white or coloured |
| colour | brightness, contrast | times 0.5 to 1.7 |
| | saturation | times 0 to 2.2 |
| | warmth | red and blue up to 0.35 apart |
| | hue | up to 60 degrees either way |
| | gamma | 0.5 to 2 |
| | grey, invert | all of it |
| blur | blur | Gaussian, radius 0.005 to 0.02 of the short side |
| | motion_blur | along one axis, 0.01 to 0.04 |
| | sharpen | 1.5 to 4 |
| | low_resolution | scaled to 0.2 to 0.5 and back |
| noise | noise | deviation of 8 to 35 grey levels |
| compression | compress | JPEG of quality 5 to 30 |
| | h264 | rate factor 36 to 48 |
| overlay | text_bar | a bar of 0.12 to 0.25 with text |
| | caption | outlined text of 0.08 to 0.16 |
| | watermark | text all over, 0.15 to 0.5 opaque |
| | logo | a polygon on a disc, 0.15 to 0.35 of the short side |
| | emoji | a face, heart, star, play button, arrow or ring, 0.15 to 0.4 |
| picture in picture | inset | shrunk to 0.4 to 0.8 into another video |
| | guest | another video at 0.25 to 0.45 in this one |
| | beside | another video at one side |
| temporal | fast | 1.3 to 3 times as fast |
| | slow | 0.4 to 0.8 times as fast |
| | reverse | backwards |
| | pause | once, for 0.1 to 0.4 |
| | shuffle | cut in 3 to 6 pieces, shuffled, a quarter of them left out |
| | trim | 0.4 to 0.85 is kept |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from muvr_train.benchmarks.copies_edits import WORDS
from muvr_train.benchmarks.copies_recipes import Edit
from muvr_train.errors import ConfigError
from muvr_train.features.edits.overlays import MARKS

Settings = dict[str, Any]
Drawer = Callable[[Random, float], Settings | None]
HOSTS = ("inset", "guest", "beside")
"""Edits that show another video, which they take as `host`."""


@dataclass(frozen=True)
class DrawnEdit:
    """How an edit is drawn.

    Attributes:
        family: what kind of edit it is.
        draw: gives settings from a generator and a strength in (0, 1]; None where nothing is done.
        applied: the name in `apply.APPLIED`.
    """

    family: str
    draw: Drawer
    applied: str


def draw_edit(name: str, rng: Random, strength: float, host: str | None = None) -> Edit | None:
    """Draw an edit of `EDITS`; None where nothing is done, as always at strength 0.

    Args:
        name: of the edit.
        rng: what is drawn from.
        strength: in [0, 1].
        host: the other video that an edit of `HOSTS` shows; a part of it is drawn too.

    Raises:
        ConfigError: no such edit, a strength outside [0, 1], or no host for an edit that needs one.
    """
    if name not in EDITS:
        raise ConfigError(f"there is no edit {name!r}; known: {', '.join(EDITS)}")
    if not 0 <= strength <= 1:
        raise ConfigError(f"strength of an edit must lie in [0, 1], got {strength}")
    settings = EDITS[name].draw(rng, strength) if strength else None
    if settings is None:
        return None
    if name in HOSTS:
        if host is None:
            raise ConfigError(f"edit {name} needs another video")
        length = rng.uniform(0.3, 0.6)
        start = round(rng.uniform(0.0, 1.0 - length), 4)
        settings |= {"host": host, "host_start": start, "host_stop": round(start + length, 4)}
    return Edit(EDITS[name].applied, settings)


def _scaled(rng: Random, strength: float, low: float, high: float, still: float) -> float:
    """A value from the range (low, high), moved towards `still` by what the strength lacks to 1."""
    return round(still + strength * (rng.uniform(low, high) - still), 4)


def _about_one(rng: Random, strength: float, low: float, high: float) -> float:
    return _scaled(rng, strength, low, high, 1.0)


def _either_way(rng: Random, strength: float, low: float, high: float) -> float:
    return rng.choice((-1, 1)) * _scaled(rng, strength, low, high, 0.0)


def _whole(rng: Random, strength: float, low: float, high: float, still: float) -> int:
    return round(_scaled(rng, strength, low, high, still))


def _colour(rng: Random) -> list[int]:
    return [rng.randrange(256) for _ in range(3)]


def _place(rng: Random) -> Settings:
    return {"left": round(rng.random(), 3), "top": round(rng.random(), 3)}


def _text(rng: Random, words: int) -> str:
    return " ".join(rng.sample(WORDS, words))


def _sometimes(family: str, applied: str, draw: Callable[[Random], Settings] = lambda _: {}) -> DrawnEdit:
    """An edit that cannot be weaker, and is rarer instead."""
    return DrawnEdit(family, lambda rng, s: draw(rng) if rng.random() < s else None, applied)


def _crop(rng: Random, s: float) -> Settings:
    height, width = (_about_one(rng, s, 0.35, 0.9) for _ in range(2))
    place = {"top": round(rng.uniform(0, 1 - height), 4), "left": round(rng.uniform(0, 1 - width), 4)}
    return {**place, "height": height, "width": width}


def _stretch(rng: Random, s: float) -> Settings:
    factors = [_about_one(rng, s, 0.55, 0.9), 1.0]
    rng.shuffle(factors)
    return {"height": factors[0], "width": factors[1]}


def _perspective(rng: Random, s: float) -> Settings:
    return {"corners": [_scaled(rng, s, 0.0, 0.22, 0.0) for _ in range(8)]}


def _letterbox(rng: Random, s: float) -> Settings:
    paper = rng.choice(([0, 0, 0], [0, 0, 0], [255, 255, 255], _colour(rng)))
    return {"share": _scaled(rng, s, 0.05, 0.3, 0.0), "sides": rng.random() < 0.5, "paper": paper}


def _motion_blur(rng: Random, s: float) -> Settings:
    lengths = [_scaled(rng, s, 0.01, 0.04, 0.0), 0.0]
    rng.shuffle(lengths)
    return {"across": lengths[0], "down": lengths[1]}


def _text_bar(rng: Random, s: float) -> Settings:
    height, top = _scaled(rng, s, 0.12, 0.25, 0.02), rng.choice((0.0, 1.0))
    return {"text": _text(rng, 3), "height": height, "top": top, "ink": _colour(rng), "paper": _colour(rng)}


def _caption(rng: Random, s: float) -> Settings:
    place = {"left": round(rng.uniform(0.1, 0.9), 3), "top": rng.choice((0.04, 0.85, 0.95))}
    ink = rng.choice(([255, 255, 255], [255, 255, 255], [255, 235, 60], _colour(rng)))
    return {"text": _text(rng, 2), **place, "height": _scaled(rng, s, 0.08, 0.16, 0.02), "ink": ink}


def _watermark(rng: Random, s: float) -> Settings:
    ink = rng.choice(([255, 255, 255], [255, 255, 255], _colour(rng)))
    height, opacity = round(rng.uniform(0.06, 0.12), 3), _scaled(rng, s, 0.15, 0.5, 0.0)
    return {"text": _text(rng, 1), "height": height, "opacity": opacity, "ink": ink}


def _logo(rng: Random, s: float) -> Settings:
    size = _scaled(rng, s, 0.15, 0.35, 0.02)
    place = {"left": rng.choice((0.03, 0.7)), "top": rng.choice((0.03, 0.6))}
    return {"sides": rng.randint(3, 8), "size": size, **place, "ink": _colour(rng), "paper": _colour(rng)}


def _emoji(rng: Random, s: float) -> Settings:
    return {"kind": rng.choice(sorted(MARKS)), **_place(rng), "size": _scaled(rng, s, 0.15, 0.4, 0.02)}


def _pause(rng: Random, s: float) -> Settings:
    return {"at": round(rng.random(), 3), "length": _scaled(rng, s, 0.1, 0.4, 0.0)}


def _shuffle(rng: Random) -> Settings:
    pieces = rng.randint(3, 6)
    order = rng.sample(range(pieces), max(2, pieces - round(pieces / 4)))
    return {"pieces": pieces, "order": order}


def _trim(rng: Random, s: float) -> Settings:
    length = _about_one(rng, s, 0.4, 0.85)
    start = round(rng.uniform(0, 1 - length), 4)
    return {"start": start, "stop": min(1.0, round(start + length, 4))}


def _named(family: str, **drawers: Drawer) -> dict[str, DrawnEdit]:
    return {name: DrawnEdit(family, draw, name) for name, draw in drawers.items()}


EDITS: dict[str, DrawnEdit] = {
    **_named("geometric", crop=_crop),
    "flip": _sometimes("geometric", "flip"),
    "turn": _sometimes("geometric", "turn", lambda rng: {"quarters": rng.choice((1, 1, 2, 3, 3))}),
    **_named(
        "geometric",
        rotate=lambda rng, s: {"degrees": _either_way(rng, s, 3, 25), "fill": rng.random() < 0.5},
        stretch=_stretch,
        perspective=_perspective,
        pad=lambda rng, s: {"scale": _about_one(rng, s, 0.4, 0.8), "blur": 0.08},
        letterbox=_letterbox,
    ),
    **_named(
        "colour",
        brightness=lambda rng, s: {"factor": _about_one(rng, s, 0.5, 1.7)},
        contrast=lambda rng, s: {"factor": _about_one(rng, s, 0.5, 1.7)},
        saturation=lambda rng, s: {"factor": _about_one(rng, s, 0.0, 2.2)},
        warmth=lambda rng, s: {"shift": _either_way(rng, s, 0.05, 0.35)},
        hue=lambda rng, s: {"degrees": _either_way(rng, s, 10, 60)},
        gamma=lambda rng, s: {"power": _about_one(rng, s, 0.5, 2.0)},
    ),
    "grey": _sometimes("colour", "grey"),
    "invert": _sometimes("colour", "invert"),
    **_named(
        "blur",
        blur=lambda rng, s: {"radius": _scaled(rng, s, 0.005, 0.02, 0.0)},
        motion_blur=_motion_blur,
        sharpen=lambda rng, s: {"factor": _about_one(rng, s, 1.5, 4.0)},
        low_resolution=lambda rng, s: {"scale": _about_one(rng, s, 0.2, 0.5)},
    ),
    **_named("noise", noise=lambda rng, s: {"sigma": _scaled(rng, s, 8, 35, 0.0), "seed": rng.randrange(2**31)}),
    **_named(
        "compression",
        compress=lambda rng, s: {"quality": _whole(rng, s, 5, 30, 95)},
        h264=lambda rng, s: {"crf": _whole(rng, s, 36, 48, 12)},
    ),
    **_named("overlay", text_bar=_text_bar, caption=_caption, watermark=_watermark, logo=_logo, emoji=_emoji),
    **_named(
        "picture in picture",
        inset=lambda rng, s: {"scale": _about_one(rng, s, 0.4, 0.8), **_place(rng)},
        guest=lambda rng, s: {"scale": _scaled(rng, s, 0.25, 0.45, 0.02), **_place(rng)},
    ),
    "beside": _sometimes(
        "picture in picture", "beside", lambda rng: {"side": rng.choice(("left", "right", "top", "bottom"))}
    ),
    "fast": DrawnEdit("temporal", lambda rng, s: {"factor": _about_one(rng, s, 1.3, 3.0)}, "speed"),
    "slow": DrawnEdit("temporal", lambda rng, s: {"factor": _about_one(rng, s, 0.4, 0.8)}, "speed"),
    "reverse": _sometimes("temporal", "reverse"),
    **_named("temporal", pause=_pause),
    "shuffle": _sometimes("temporal", "shuffle", _shuffle),
    **_named("temporal", trim=_trim),
}
"""All edits, by name."""

FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(name for name, edit in EDITS.items() if edit.family == family)
    for family in dict.fromkeys(edit.family for edit in EDITS.values())
}
"""The names of the edits of each family."""
