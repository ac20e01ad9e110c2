"""Foregrounds: small pictures of things (cars, animals, objects of the instance partition) with transparency."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import cos, pi, sin
from random import Random
from zlib import crc32

from PIL import Image, ImageDraw

from muvr_train.demo.draw_scene import Colour, vary

Draw = ImageDraw.ImageDraw
SS = 3
"""Sprites are drawn this many times larger and then reduced, which smooths their edges."""

COLOUR_VALUES: dict[str, Colour] = {
    "pale": (222, 214, 200),
    "dark": (48, 46, 52),
    "brown": (112, 76, 52),
    "grey": (128, 130, 134),
    "pink": (206, 148, 152),
    "olive": (118, 120, 70),
    "teal": (72, 122, 124),
    "orange": (205, 130, 66),
    "red": (228, 24, 30),
    "yellow": (250, 222, 18),
    "green": (20, 176, 50),
    "blue": (24, 70, 232),
    "purple": (160, 32, 200),
    "white": (252, 252, 252),
    "black": (12, 12, 12),
}
OUTLINE = (24, 22, 26)


def _car(d: Draw, s: float, c: Colour, r: Random) -> None:
    glass = vary(r, (170, 195, 210))
    d.rounded_rectangle([0, 0.45 * s, s, 0.75 * s], radius=0.08 * s, fill=c)
    d.polygon([(0.2 * s, 0.45 * s), (0.32 * s, 0.22 * s), (0.68 * s, 0.22 * s), (0.84 * s, 0.45 * s)], fill=c)
    d.polygon([(0.3 * s, 0.43 * s), (0.37 * s, 0.28 * s), (0.64 * s, 0.28 * s), (0.72 * s, 0.43 * s)], fill=glass)
    for x in (0.22, 0.76):
        d.ellipse([(x - 0.12) * s, 0.62 * s, (x + 0.12) * s, 0.86 * s], fill=OUTLINE)


def _bus(d: Draw, s: float, c: Colour, r: Random) -> None:
    d.rounded_rectangle([0, 0.2 * s, s, 0.76 * s], radius=0.05 * s, fill=c)
    for i in range(4):
        d.rectangle([(0.06 + 0.23 * i) * s, 0.28 * s, (0.22 + 0.23 * i) * s, 0.46 * s], fill=(175, 200, 212))
    d.rectangle([0, 0.54 * s, s, 0.6 * s], fill=vary(r, (235, 225, 205)))
    for x in (0.2, 0.8):
        d.ellipse([(x - 0.1) * s, 0.66 * s, (x + 0.1) * s, 0.86 * s], fill=OUTLINE)


def _person(d: Draw, s: float, c: Colour, r: Random) -> None:
    skin, legs = vary(r, (205, 160, 130), 35), vary(r, (60, 62, 85))
    d.line([(0.46 * s, 0.6 * s), (0.36 * s, 0.98 * s)], fill=legs, width=int(0.1 * s))
    d.line([(0.54 * s, 0.6 * s), (0.64 * s, 0.98 * s)], fill=legs, width=int(0.1 * s))
    d.line([(0.4 * s, 0.32 * s), (0.24 * s, 0.58 * s)], fill=skin, width=int(0.07 * s))
    d.line([(0.6 * s, 0.32 * s), (0.76 * s, 0.56 * s)], fill=skin, width=int(0.07 * s))
    d.rounded_rectangle([0.36 * s, 0.25 * s, 0.64 * s, 0.64 * s], radius=0.06 * s, fill=c)
    d.ellipse([0.4 * s, 0.02 * s, 0.6 * s, 0.25 * s], fill=skin)
    d.pieslice([0.38 * s, 0, 0.62 * s, 0.2 * s], 180, 360, fill=vary(r, (70, 50, 40), 40))


def _dog(d: Draw, s: float, c: Colour, r: Random) -> None:
    ear = vary(r, OUTLINE, 16)
    d.ellipse([0.12 * s, 0.4 * s, 0.76 * s, 0.7 * s], fill=c)
    d.ellipse([0.64 * s, 0.22 * s, 0.96 * s, 0.52 * s], fill=c)
    d.polygon([(0.68 * s, 0.28 * s), (0.64 * s, 0.1 * s), (0.8 * s, 0.24 * s)], fill=ear)
    for x in (0.2, 0.32, 0.58, 0.68):
        d.line([(x * s, 0.6 * s), (x * s, 0.9 * s)], fill=c, width=int(0.07 * s))
    d.line([(0.14 * s, 0.5 * s), (0.02 * s, 0.28 * s)], fill=c, width=int(0.06 * s))
    d.ellipse([0.8 * s, 0.3 * s, 0.85 * s, 0.35 * s], fill=OUTLINE)


def _bird(d: Draw, s: float, c: Colour, r: Random) -> None:
    d.ellipse([0.25 * s, 0.42 * s, 0.75 * s, 0.62 * s], fill=c)
    d.polygon([(0.4 * s, 0.48 * s), (0.12 * s, 0.1 * s), (0.6 * s, 0.46 * s)], fill=vary(r, c, 40))
    d.polygon([(0.46 * s, 0.5 * s), (0.62 * s, 0.12 * s), (0.66 * s, 0.5 * s)], fill=c)
    d.polygon([(0.74 * s, 0.48 * s), (0.96 * s, 0.52 * s), (0.74 * s, 0.56 * s)], fill=(215, 150, 70))
    d.polygon([(0.28 * s, 0.5 * s), (0.04 * s, 0.42 * s), (0.06 * s, 0.6 * s)], fill=c)


def _balloon(d: Draw, s: float, c: Colour, r: Random) -> None:
    d.ellipse([0.18 * s, 0, 0.82 * s, 0.66 * s], fill=c)
    d.pieslice([0.36 * s, 0, 0.64 * s, 0.66 * s], 0, 360, fill=vary(r, c, 55))
    d.line([(0.3 * s, 0.6 * s), (0.42 * s, 0.8 * s)], fill=OUTLINE, width=SS)
    d.line([(0.7 * s, 0.6 * s), (0.58 * s, 0.8 * s)], fill=OUTLINE, width=SS)
    d.rectangle([0.4 * s, 0.8 * s, 0.6 * s, 0.95 * s], fill=(110, 80, 55))


def _boat(d: Draw, s: float, c: Colour, r: Random) -> None:
    d.polygon([(0, 0.66 * s), (s, 0.66 * s), (0.84 * s, 0.88 * s), (0.14 * s, 0.88 * s)], fill=c)
    d.line([(0.48 * s, 0.66 * s), (0.48 * s, 0.04 * s)], fill=OUTLINE, width=max(2, int(0.03 * s)))
    d.polygon([(0.52 * s, 0.08 * s), (0.52 * s, 0.6 * s), (0.9 * s, 0.6 * s)], fill=vary(r, (232, 226, 214)))
    d.polygon([(0.44 * s, 0.16 * s), (0.44 * s, 0.6 * s), (0.14 * s, 0.6 * s)], fill=vary(r, c, 50))


def _ball(d: Draw, s: float, c: Colour, r: Random) -> None:
    d.ellipse([0.06 * s, 0.06 * s, 0.94 * s, 0.94 * s], fill=c)
    for start in (10, 130, 250):
        d.pieslice([0.06 * s, 0.06 * s, 0.94 * s, 0.94 * s], start, start + 60, fill=vary(r, (230, 226, 216), 30))
    d.ellipse([0.38 * s, 0.38 * s, 0.62 * s, 0.62 * s], fill=c)


def _polygon(d: Draw, s: float, c: Colour, points: list[tuple[float, float]]) -> None:
    d.polygon([(x * s, y * s) for x, y in points], fill=c, outline=OUTLINE, width=max(2, int(0.045 * s)))


def _object(shape: str, d: Draw, s: float, c: Colour) -> None:
    """Draw one object of the instance partition: a flat, saturated shape with a dark outline."""
    edge = max(2, int(0.045 * s))
    if shape == "star":
        radii = [0.48 if i % 2 == 0 else 0.21 for i in range(10)]
        _polygon(d, s, c, [(0.5 + q * sin(i * pi / 5), 0.5 - q * cos(i * pi / 5)) for i, q in enumerate(radii)])
    elif shape == "ring":
        d.ellipse([0.03 * s, 0.03 * s, 0.97 * s, 0.97 * s], fill=c, outline=OUTLINE, width=edge)
        d.ellipse([0.3 * s, 0.3 * s, 0.7 * s, 0.7 * s], fill=(0, 0, 0, 0), outline=OUTLINE, width=edge)
    elif shape == "cross":
        a, b = 0.33, 0.67
        outer = [
            (a, 0.03),
            (b, 0.03),
            (b, a),
            (0.97, a),
            (0.97, b),
            (b, b),
            (b, 0.97),
            (a, 0.97),
            (a, b),
            (0.03, b),
            (0.03, a),
            (a, a),
        ]
        _polygon(d, s, c, outer)
    elif shape == "heart":
        turns = [2 * pi * i / 40 for i in range(40)]
        curve = [(16 * sin(t) ** 3, 13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t)) for t in turns]
        _polygon(d, s, c, [(0.5 + x / 34, 0.46 - y / 34) for x, y in curve])
    elif shape == "arrow":
        _polygon(d, s, c, [(0.03, 0.34), (0.5, 0.34), (0.5, 0.06), (0.97, 0.5), (0.5, 0.94), (0.5, 0.66), (0.03, 0.66)])
    elif shape == "square":
        _polygon(d, s, c, [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)])
    elif shape == "moon":
        d.ellipse([0.03 * s, 0.03 * s, 0.97 * s, 0.97 * s], fill=c, outline=OUTLINE, width=edge)
        d.ellipse([0.35 * s, -0.1 * s, 1.2 * s, 0.8 * s], fill=(0, 0, 0, 0))
    else:
        raise ValueError(f"there is no object {shape!r}")


DRAWERS: dict[str, Callable[[Draw, float, Colour, Random], None]] = {
    "car": _car,
    "bus": _bus,
    "person": _person,
    "dog": _dog,
    "bird": _bird,
    "balloon": _balloon,
    "boat": _boat,
    "ball": _ball,
}


@lru_cache(maxsize=256)
def draw_sprite(kind: str, colour: str, size: int, style: int) -> Image.Image:
    """Draw a thing as an RGBA picture of `size` x `size` pixels; `object:<shape>` are the instance objects."""
    image = Image.new("RGBA", (size * SS, size * SS), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    rng = Random(crc32(f"{kind}/{colour}/{style}".encode()))
    if kind.startswith("object:"):
        _object(kind.removeprefix("object:"), draw, size * SS - 1.0, COLOUR_VALUES[colour])
    else:
        DRAWERS[kind](draw, size * SS - 1.0, vary(rng, COLOUR_VALUES[colour], 14), rng)
    return image.resize((size, size), Image.Resampling.BOX)
