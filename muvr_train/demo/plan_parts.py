"""Random pieces of a plan that every partition uses: places, actors, cameras, gradings, edits, unrelated shots."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from zlib import crc32

from muvr_train.demo.scenario import Actor, Camera, Look, Point, Scene, Shot
from muvr_train.demo.spec import SCENES, SPRITE_COLOURS, SPRITES, TIMES

EDITS = ("crop", "flip", "colour", "blur", "overlay", "inset", "turn")


def make_rng(*key: object) -> Random:
    """A generator that depends on the key alone: equal on every machine and in every process."""
    return Random(crc32("/".join(map(str, key)).encode()))


def uniform(rng: Random, low: float, high: float) -> float:
    """A number of four decimals: plans are written as JSON and hashed."""
    return round(rng.uniform(low, high), 4)


def point(rng: Random, x: Point = (0.05, 0.95), y: Point = (0.05, 0.95)) -> Point:
    """A position within the ranges."""
    return uniform(rng, *x), uniform(rng, *y)


def seed(rng: Random) -> int:
    """The seed of a picture."""
    return rng.randrange(2**31)


def any_scene(rng: Random) -> Scene:
    """Any place at any time."""
    return Scene(rng.choice(SCENES), rng.choice(TIMES), seed(rng))


def make_path(rng: Random, move: str, index: int = 0) -> tuple[Point, ...]:
    """Positions for the `index`-th actor that takes part in a movement named in spec.MOVES."""
    lane = uniform(rng, 0.42, 0.86)
    if move in ("left", "right"):
        xs = [uniform(rng, 0.0, 0.25) + 0.36 * step for step in range(3)]
        return tuple((round(x if move == "right" else 1 - x, 4), lane) for x in xs)
    if move in ("up", "down"):
        x, ys = uniform(rng, 0.15, 0.85), [uniform(rng, 0.08, 0.2) + 0.34 * step for step in range(3)]
        return tuple((round(x + uniform(rng, -0.1, 0.1), 4), round(y if move == "down" else 1 - y, 4)) for y in ys)
    if move == "around":
        cx, cy = point(rng, (0.35, 0.65), (0.4, 0.65))
        ring = [(0.26, 0.0), (0.0, 0.24), (-0.26, 0.0), (0.0, -0.24), (0.26, 0.0)]
        return tuple((round(cx + dx, 4), round(cy + dy, 4)) for dx, dy in ring)
    side = -1 if index % 2 else 1
    far, near = 0.5 + side * uniform(rng, 0.32, 0.46), 0.5 + side * uniform(rng, 0.08, 0.16)
    path = ((round(far, 4), lane), (round((far + near) / 2, 4), uniform(rng, 0.35, 0.8)), (round(near, 4), lane))
    return path if move == "together" else path[::-1]


def any_actor(rng: Random, size: Point = (28, 60)) -> Actor:
    """A sprite that wanders about."""
    path = tuple(point(rng, (0.0, 1.0), (0.3, 0.9)) for _ in range(rng.randint(2, 4)))
    return Actor(rng.choice(SPRITES), rng.choice(SPRITE_COLOURS), uniform(rng, *size), path, seed(rng))


def any_camera(rng: Random, zoom: Point = (1.0, 1.6), drift: float = 0.3, flip: float = 0.0) -> Camera:
    """A framing that drifts by up to `drift` of its free play; `flip` is the chance of a mirrored picture."""
    start = point(rng, (0.1, 0.9), (0.1, 0.9))
    end = tuple(round(min(1.0, max(0.0, value + rng.uniform(-drift, drift))), 4) for value in start)
    return Camera(uniform(rng, *zoom), start, (end[0], end[1]), rng.random() < flip)


def any_look(rng: Random, strength: float = 1.0) -> Look:
    """A grading; at strength 1 about as different as two channels' versions of one picture."""
    s = strength
    return Look(
        gains=(
            uniform(rng, 1 - 0.2 * s, 1 + 0.2 * s),
            uniform(rng, 1 - 0.12 * s, 1 + 0.12 * s),
            uniform(rng, 1 - 0.2 * s, 1 + 0.2 * s),
        ),
        gamma=uniform(rng, 1 - 0.3 * s, 1 + 0.4 * s),
        contrast=uniform(rng, 1 - 0.25 * s, 1 + 0.3 * s),
        brightness=uniform(rng, -0.07 * s, 0.09 * s),
        saturation=uniform(rng, max(0.0, 1 - 0.6 * s), 1 + 0.3 * s),
        overlay=rng.choice(("none", "none", "none", "caption", "logo")),
        overlay_seed=rng.randrange(24),
    )


def filler(rng: Random, frames: int) -> Shot:
    """A shot that has nothing to do with any topic."""
    actors = tuple(any_actor(rng) for _ in range(rng.randint(1, 3)))
    return Shot(frames, any_scene(rng), actors, any_camera(rng), any_look(rng), script=frames)


def fillers(rng: Random, frames: int) -> tuple[Shot, ...]:
    """One or more unrelated shots that last `frames` together; none for 0."""
    if frames <= 0:
        return ()
    if frames < 24:
        return (filler(rng, frames),)
    cut = rng.randint(10, frames - 10)
    return (filler(rng, cut), *fillers(rng, frames - cut))


def untrimmed(rng: Random, core: tuple[Shot, ...], frames: int) -> tuple[Shot, ...]:
    """Put unrelated shots before and after `core` so that all last `frames`; a side of fewer than 5 is dropped."""
    rest = frames - sum(shot.frames for shot in core)
    before = rng.randint(0, rest)
    before = 0 if before < 5 else rest if rest - before < 5 else before
    return (*fillers(rng, before), *core, *fillers(rng, rest - before))


def edited(rng: Random, shot: Shot, edits: tuple[str, ...], strength: float = 1.0) -> Shot:
    """Edit a shot as re-uploaders do (names in EDITS, besides the speed, which is the shot's own)."""
    camera, look = shot.camera, shot.look
    if "crop" in edits:
        zoom = 1 + uniform(rng, 0.25, 0.75) * strength
        start = point(rng, (0.1, 0.9), (0.1, 0.9))
        camera = replace(camera, zoom=round(max(camera.zoom, 1) * zoom, 4), start=start, end=start)
    if "flip" in edits:
        camera = replace(camera, flip=not camera.flip)
    if "turn" in edits:
        camera = replace(camera, zoom=max(camera.zoom, 1.25), turn=rng.choice((-1, 1)) * uniform(rng, 5, 14))
    if "colour" in edits:
        look = replace(any_look(rng, 1.3 * strength), hue=uniform(rng, -55, 55), overlay=look.overlay)
    if "blur" in edits:
        look = replace(look, blur=uniform(rng, 0.8, 2.0 * strength))
    if "overlay" in edits:
        look = replace(look, overlay=rng.choice(("caption", "both")), overlay_seed=rng.randrange(24))
    if "inset" in edits:
        look = replace(look, inset=uniform(rng, 0.55, 0.8), inset_scene=any_scene(rng), overlay_seed=rng.randrange(24))
    return replace(shot, camera=camera, look=look)
