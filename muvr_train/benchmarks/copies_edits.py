"""Drawing the edits of the copies benchmark: those of queries, of re-uploads, of channels."""

from __future__ import annotations

from random import Random

from muvr_train.benchmarks.copies_recipes import Edit

WORDS = (
    "BREAKING",
    "LIVE",
    "daily clips",
    "@channel",
    "part 2",
    "subscribe",
    "4K",
    "funny moments",
    "highlights",
    "news",
)


def strong_edits(rng: Random, frames: int) -> tuple[Edit, ...]:
    """Draw the edits of a query or of a training view: several of them, strong ones, temporal ones among them."""
    edits = []
    if rng.random() < 0.4:
        edits.append(Edit("speed", {"factor": round(rng.choice((0.5, 1.5, 2.0)), 2)}))
    if rng.random() < 0.4:
        edits.append(_shuffle(rng, frames))
    shape = rng.random()
    if shape < 0.6:
        edits.append(_crop(rng, 0.35, 0.7))
    elif shape < 0.85:
        edits.append(Edit("pad", {"scale": _draw(rng, 0.4, 0.65), "blur": 0.08}))
    if rng.random() < 0.5:
        edits.append(Edit("flip"))
    if rng.random() < 0.8:
        edits.append(_colour(rng, 0.65))
    if rng.random() < 0.4:
        edits.append(Edit("blur", {"radius": _draw(rng, 0.01, 0.04)}))
    if rng.random() < 0.6:
        edits.append(Edit("compress", {"quality": rng.randint(5, 25)}))
    return tuple(edits)


def mild_edits(rng: Random) -> tuple[Edit, ...]:
    """Draw the edits of a re-upload: a little crop, colour, a logo, compression."""
    edits = []
    if rng.random() < 0.5:
        edits.append(_crop(rng, 0.75, 0.95))
    if rng.random() < 0.5:
        edits.append(_colour(rng, 0.25))
    if rng.random() < 0.5:
        edits.append(Edit("compress", {"quality": rng.randint(25, 60)}))
    return tuple(edits)


def inset(rng: Random, host: str, segment: tuple[float, float]) -> Edit:
    """Draw a picture-in-picture: the piece shrunk into frames of `host`."""
    scale = _draw(rng, 0.45, 0.7)
    place = {"left": _draw(rng, 0.0, 1.0), "top": _draw(rng, 0.0, 1.0)}
    return Edit("inset", {"host": host, "host_start": segment[0], "host_stop": segment[1], "scale": scale, **place})


def _draw(rng: Random, low: float, high: float) -> float:
    return round(rng.uniform(low, high), 3)


def _crop(rng: Random, low: float, high: float) -> Edit:
    height, width = _draw(rng, low, high), _draw(rng, low, high)
    place = {"top": _draw(rng, 0.0, 1.0 - height), "left": _draw(rng, 0.0, 1.0 - width)}
    return Edit("crop", {**place, "height": height, "width": width})


def _colour(rng: Random, strength: float) -> Edit:
    names = ("brightness", "contrast", "saturation")
    settings = {name: _draw(rng, 1 - strength, 1 + strength) for name in names}
    return Edit("colour", {**settings, "warmth": _draw(rng, -strength / 2, strength / 2)})


def draw_channel(rng: Random) -> tuple[Edit, ...]:
    """Draw what a channel puts over all of its videos: a bar with text, a logo, or both."""
    kind, edits = rng.randrange(3), []
    if kind != 1:
        colours = {"ink": _rgb(rng), "paper": _rgb(rng)}
        size = {"height": _draw(rng, 0.12, 0.25), "top": rng.choice((0.0, 1.0))}
        edits.append(Edit("text_bar", {"text": " ".join(rng.sample(WORDS, 3)), **size, **colours}))
    if kind != 0:
        place = {"left": rng.choice((0.05, 0.75)), "top": rng.choice((0.05, 0.65)), "size": _draw(rng, 0.2, 0.3)}
        edits.append(Edit("logo", {"sides": rng.randint(3, 8), **place, "ink": _rgb(rng), "paper": _rgb(rng)}))
    return tuple(edits)


def _rgb(rng: Random) -> list[int]:
    return [rng.randrange(256) for _ in range(3)]


def _shuffle(rng: Random, frames: int) -> Edit:
    pieces = min(4, frames)
    kept = [piece for piece in range(pieces) if rng.random() >= 0.25] or [rng.randrange(pieces)]
    rng.shuffle(kept)
    return Edit("shuffle", {"pieces": pieces, "order": kept})
