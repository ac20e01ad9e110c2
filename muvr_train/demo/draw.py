"""From a video's plan to its frames: world picture, actors, camera, grading, overlays, title cards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import cos, radians, sin
from random import Random
from zlib import crc32

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from muvr_train.demo.draw_dancer import draw_dancer, pose_at
from muvr_train.demo.draw_scene import draw_scene, vary
from muvr_train.demo.draw_sprite import draw_sprite
from muvr_train.demo.scenario import Actor, Look, Shot, Video
from muvr_train.demo.spec import FRAME_SIZE, WORLD_SIZE

W, H = WORLD_SIZE
BILINEAR = Image.Resampling.BILINEAR
Place = tuple[int, int]


def draw_video(video: Video) -> Iterator[Image.Image]:
    """Yield the frames of a video, RGB pictures of spec.FRAME_SIZE."""
    for shot in video.shots:
        if shot.card is not None:
            card = draw_card(shot.card)
            yield from (card for _ in range(shot.frames))
        else:
            yield from _draw_shot(shot)


def _draw_shot(shot: Shot) -> Iterator[Image.Image]:
    if shot.scene is None:
        raise ValueError("a shot needs a scene or a card")
    background = draw_scene(shot.scene)
    matrix, table = _colour_matrix(shot.look), _tone_table(shot.look)
    for index in range(shot.frames):
        world = background.copy()
        for actor in shot.actors:
            _draw_actor(world, actor, shot, index)
        frame = take_view(world, shot, index)
        yield _finish(frame, shot.look, matrix, table)


def _moment(shot: Shot, index: int) -> float:
    return shot.offset + shot.speed * index


def _draw_actor(world: Image.Image, actor: Actor, shot: Shot, index: int) -> None:
    if actor.kind == "dancer":
        moment = _moment(shot, index)
        pose = pose_at(actor.poses, moment, shot.script)
        x, y = _position(actor, moment, shot.script)
        draw_dancer(ImageDraw.Draw(world), pose, x, y, actor.size, actor.style)
        return
    sprite, place = place_sprite(actor, shot, index)
    world.paste(sprite, place, sprite)


def _position(actor: Actor, moment: float, script: float) -> tuple[float, float]:
    """Where an actor is in the world, in pixels."""
    xs, ys = zip(*actor.path, strict=True)
    share = moment % script / script * (len(xs) - 1)
    return float(np.interp(share, range(len(xs)), xs)) * W, float(np.interp(share, range(len(ys)), ys)) * H


def place_sprite(actor: Actor, shot: Shot, index: int) -> tuple[Image.Image, Place]:
    """A sprite, and where its left upper corner lies in the world, at a frame of a shot."""
    x, y = _position(actor, _moment(shot, index), shot.script)
    sprite = draw_sprite(actor.kind, actor.colour, round(actor.size), actor.style)
    return sprite, (round(x - sprite.width / 2), round(y - sprite.height / 2))


def take_view(world: Image.Image, shot: Shot, index: int) -> Image.Image:
    """Cut out what the camera sees of the world (of any mode) at a frame of a shot."""
    camera, share = shot.camera, index / max(1, shot.frames - 1)
    width, height = W / camera.zoom, H / camera.zoom
    cx = (camera.start[0] * (1 - share) + camera.end[0] * share) * (W - width) + width / 2
    cy = (camera.start[1] * (1 - share) + camera.end[1] * share) * (H - height) + height / 2
    if camera.turn:
        scale, a = width / FRAME_SIZE[0], radians(camera.turn)
        ca, sa = cos(a) * scale, sin(a) * scale
        hx, hy = FRAME_SIZE[0] / 2, FRAME_SIZE[1] / 2
        coefficients = (ca, sa, cx - ca * hx - sa * hy, -sa, ca, cy + sa * hx - ca * hy)
        frame = world.transform(FRAME_SIZE, Image.Transform.AFFINE, coefficients, BILINEAR)
    else:
        box = (max(0.0, cx - width / 2), max(0.0, cy - height / 2), min(W, cx + width / 2), min(H, cy + height / 2))
        frame = world.resize(FRAME_SIZE, BILINEAR, box=box)
    return frame.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if camera.flip else frame


def _colour_matrix(look: Look) -> tuple[float, ...]:
    """Gains, saturation and hue as one 3 x 4 matrix (row-major, as Pillow's `convert` takes it)."""
    grey = np.full((3, 3), 1 / 3) * np.ones(3)
    saturate = grey + look.saturation * (np.eye(3) - grey)
    a = radians(look.hue)
    third, root = (1 - cos(a)) / 3, sin(a) / 3**0.5
    hue = np.full((3, 3), third) + np.eye(3) * cos(a) + root * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    matrix = np.diag(look.gains) @ hue @ saturate
    return tuple(float(value) for row in matrix for value in (*row, 0.0))


def _tone_table(look: Look) -> list[int]:
    levels = (np.arange(256) / 255) ** look.gamma
    levels = (levels - 0.5) * look.contrast + 0.5 + look.brightness
    return [round(float(level)) for level in (levels * 255).clip(0, 255)] * 3


def _finish(frame: Image.Image, look: Look, matrix: tuple[float, ...], table: list[int]) -> Image.Image:
    frame = frame.convert("RGB", matrix).point(table)
    if look.blur:
        frame = frame.filter(ImageFilter.BoxBlur(look.blur))
    if look.inset_scene is not None:
        frame = set_in(draw_scene(look.inset_scene).resize(FRAME_SIZE), frame, look)
    if look.overlay != "none":
        layer = draw_overlay(look.overlay, look.overlay_seed)
        frame.paste(layer, (0, 0), layer)
    return frame


def set_in(around: Image.Image, frame: Image.Image, look: Look) -> Image.Image:
    """Paste a frame, shrunk, into the picture around it."""
    small = frame.resize((round(FRAME_SIZE[0] * look.inset), round(FRAME_SIZE[1] * look.inset)), BILINEAR)
    rng = Random(look.overlay_seed)
    around.paste(small, (rng.randint(0, around.width - small.width), rng.randint(0, around.height - small.height)))
    return around


@lru_cache(maxsize=64)
def draw_overlay(kind: str, seed: int) -> Image.Image:
    """Draw a caption or a logo (or both) as an RGBA picture of spec.FRAME_SIZE."""
    rng = Random(crc32(f"overlay/{kind}/{seed}".encode()))
    layer = Image.new("RGBA", FRAME_SIZE, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    colour = vary(rng, rng.choice([(40, 50, 90), (120, 30, 40), (235, 235, 235), (30, 30, 30)]))
    ink = (20, 20, 20) if sum(colour) > 380 else (240, 240, 235)
    if kind in ("caption", "both"):
        top = rng.choice([0, 96, 100])
        draw.rectangle([0, top, 160, top + 22], fill=(*colour, 235))
        _letters(draw, rng, 6, top + 7, 148, ink)
    if kind in ("logo", "both"):
        x, y = rng.choice([4, 126]), rng.choice([4, 28])
        draw.rounded_rectangle([x, y, x + 30, y + 18], radius=4, fill=(*colour, 235))
        _letters(draw, rng, x + 4, y + 5, 22, ink)
    return layer


def _letters(draw: ImageDraw.ImageDraw, rng: Random, x: int, y: int, width: int, ink: tuple[int, int, int]) -> None:
    """Blocks that look like a line of writing from afar."""
    end = x + width
    while x < end - 4:
        letter = rng.randint(2, 6)
        draw.rectangle([x, y + rng.choice([0, 0, 3]), x + letter, y + 8], fill=ink)
        x += letter + rng.choice([2, 2, 2, 7])


@lru_cache(maxsize=16)
def draw_card(number: int) -> Image.Image:
    """Draw title card `number`: a picture with a logo and a line of writing, the same in every video it is in."""
    rng = Random(crc32(f"card/{number}".encode()))
    ground = vary(
        rng, rng.choice([(28, 44, 96), (130, 26, 36), (20, 90, 80), (228, 224, 210), (70, 30, 100), (24, 24, 28)])
    )
    ink = vary(rng, (30, 30, 40) if sum(ground) > 380 else (240, 230, 190))
    image = Image.new("RGB", FRAME_SIZE, ground)
    draw = ImageDraw.Draw(image)
    bright = vary(rng, (205, 145, 60), 60)
    step, width = rng.randint(18, 40), rng.randint(3, 10)
    style = rng.randrange(3)
    for offset in range(-120, 200, step):
        line = [(offset, 0), (offset + 120, 120)] if style == 0 else [(0, offset), (160, offset)]
        if style < 2:
            draw.line(line, fill=vary(rng, ground, 24), width=width)
    if style == 2:
        for radius in range(110, 20, -step):
            draw.ellipse(
                [80 - radius, 55 - radius, 80 + radius, 55 + radius], outline=vary(rng, ground, 40), width=width
            )
    r = rng.randint(18, 27)
    draw.rounded_rectangle([80 - r, 46 - r, 80 + r, 46 + r], radius=rng.choice([0, 8, r]), fill=bright)
    draw.regular_polygon((80, 46, r * 0.6), rng.randint(3, 7), rotation=rng.randint(0, 90), fill=ink)
    _letters(draw, rng, 24, 86, 112, ink)
    _letters(draw, rng, 48, 102, 64, bright)
    return image
