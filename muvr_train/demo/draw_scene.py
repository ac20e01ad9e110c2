"""Backgrounds: eight kinds of place, four times of day, and a layout that a seed decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import pi, sin
from random import Random
from zlib import crc32

import numpy as np
from PIL import Image, ImageDraw

from muvr_train.demo.scenario import Scene
from muvr_train.demo.spec import WORLD_SIZE

Colour = tuple[int, int, int]
Draw = ImageDraw.ImageDraw
W, H = WORLD_SIZE

_SKIES = {
    "morning": ((150, 190, 225), (250, 228, 205), (1.0, 0.96, 0.9)),
    "noon": ((85, 145, 225), (190, 220, 248), (1.0, 1.0, 1.0)),
    "sunset": ((95, 65, 125), (250, 150, 95), (1.0, 0.76, 0.66)),
    "night": ((8, 12, 36), (42, 52, 92), (0.42, 0.46, 0.66)),
}


def vary(rng: Random, colour: Colour, by: int = 22) -> Colour:
    """Shift a colour's channels by up to `by`."""
    r, g, b = (max(0, min(255, channel + rng.randint(-by, by))) for channel in colour)
    return r, g, b


def _ridge(draw: Draw, rng: Random, base: float, height: float, colour: Colour, waves: int = 3) -> None:
    parts = [(rng.uniform(0.5, 4.0), rng.uniform(0, 2 * pi), rng.uniform(0.3, 1.0)) for _ in range(waves)]
    total = sum(weight for _, _, weight in parts)
    points = []
    for x in range(0, W + 6, 6):
        wave = sum(weight * sin(2 * pi * x / W * speed + phase) for speed, phase, weight in parts) / total
        points.append((x, base - height * (wave + 1) / 2))
    draw.polygon([(0, H), *points, (W, H)], fill=colour)


def _street(draw: Draw, rng: Random) -> None:
    x = -rng.randint(0, 20)
    ground = rng.randint(125, 145)
    while x < W:
        width, top = rng.randint(22, 52), rng.randint(15, 95)
        wall = vary(rng, rng.choice([(150, 130, 120), (120, 130, 145), (175, 160, 130), (110, 105, 110)]))
        draw.rectangle([x, top, x + width, ground], fill=wall)
        dx, dy, pane = rng.randint(7, 13), rng.randint(9, 17), vary(rng, rng.choice([(240, 220, 140), (70, 85, 105)]))
        for wx in range(x + 4, x + width - 5, dx):
            for wy in range(top + 5, ground - 10, dy):
                draw.rectangle([wx, wy, wx + dx // 2, wy + dy // 2], fill=pane)
        x += width + rng.choice([0, 0, 6, 14])
    draw.rectangle([0, ground, W, ground + 9], fill=vary(rng, (165, 160, 155)))
    draw.rectangle([0, ground + 9, W, H], fill=vary(rng, (85, 85, 90)))
    for lane in range(-rng.randint(0, 20), W, rng.randint(26, 44)):
        draw.rectangle([lane, ground + 26, lane + 14, ground + 29], fill=(215, 215, 200))


def _hills(draw: Draw, rng: Random) -> None:
    base = rng.randint(90, 115)
    for layer in range(3):
        green = vary(rng, (90 + 18 * layer, 130 - 6 * layer, 85 - 12 * layer))
        _ridge(draw, rng, base + 26 * layer, rng.uniform(25, 70 - 12 * layer), green)
    for _ in range(rng.randint(4, 14)):
        x, y, r = rng.randint(0, W), rng.randint(125, 175), rng.randint(4, 11)
        draw.ellipse([x - r, y - r, x + r, y + r * 0.7], fill=vary(rng, (60, 95, 55)))
    x = rng.randint(0, W)
    draw.line([(x, H), (x + rng.randint(-70, 70), 140), (rng.randint(0, W), base + 5)], fill=(200, 180, 140), width=6)


def _forest(draw: Draw, rng: Random) -> None:
    ground = rng.randint(118, 140)
    draw.rectangle([0, ground, W, H], fill=vary(rng, (95, 90, 55)))
    pointed = rng.random() < 0.5
    for row in range(3):
        for _ in range(rng.randint(5, 9)):
            x, height = rng.randint(-5, W), rng.randint(45, 105)
            y = ground + row * 14 + rng.randint(-4, 4)
            leaf = vary(rng, (40 + 14 * row, 85 + 10 * row, 50))
            draw.rectangle([x - 2, y - 15, x + 3, y], fill=vary(rng, (85, 60, 40)))
            if pointed:
                for part in range(3):
                    half, top = 8 + 5 * part, y - height + part * height // 4
                    draw.polygon([(x, top), (x - half, top + height // 3), (x + half, top + height // 3)], fill=leaf)
            else:
                r = height // 4
                draw.ellipse([x - r, y - height, x + r, y - height // 3], fill=leaf)


def _beach(draw: Draw, rng: Random) -> None:
    horizon, shore = rng.randint(65, 95), rng.randint(118, 145)
    draw.rectangle([0, horizon, W, H], fill=vary(rng, (50, 115, 155)))
    for _ in range(rng.randint(12, 30)):
        x, y = rng.randint(0, W), rng.randint(horizon + 3, shore)
        draw.line([(x, y), (x + rng.randint(8, 30), y)], fill=vary(rng, (150, 195, 215)), width=rng.randint(1, 2))
    _ridge(draw, rng, shore + 8, rng.uniform(8, 26), vary(rng, (225, 200, 150)), 2)
    for _ in range(rng.randint(2, 5)):
        x, y, r = rng.randint(10, W - 10), rng.randint(shore + 12, H - 8), rng.randint(10, 22)
        shade = rng.choice([(190, 110, 110), (235, 225, 205), (105, 130, 140), (200, 165, 90)])
        draw.pieslice([x - r, y - r, x + r, y + r], 180, 360, fill=vary(rng, shade))
        draw.line([(x, y - 2), (x, y + r)], fill=(120, 95, 70), width=2)
    if rng.random() < 0.6:
        _palm(draw, rng, rng.randint(10, W - 10), shore + 10)


def _palm(draw: Draw, rng: Random, x: int, y: int) -> None:
    top = (x + rng.randint(-18, 18), y - rng.randint(55, 85))
    draw.line([(x, y), top], fill=(110, 85, 60), width=5)
    for _ in range(7):
        tip = (top[0] + rng.randint(-32, 32), top[1] + rng.randint(-14, 26))
        draw.line([top, tip], fill=vary(rng, (60, 110, 60)), width=4)


def _room(draw: Draw, rng: Random) -> None:
    floor = rng.randint(118, 140)
    wall = vary(rng, rng.choice([(200, 185, 160), (160, 175, 180), (190, 165, 160), (165, 170, 145)]))
    draw.rectangle([0, 0, W, floor], fill=wall)
    if rng.random() < 0.5:
        step, stripe = rng.randint(12, 26), vary(rng, wall, 26)
        for x in range(0, W, step):
            draw.rectangle([x, 0, x + step // 2, floor], fill=stripe)
    draw.rectangle([0, floor, W, H], fill=vary(rng, (135, 100, 75)))
    for _ in range(rng.randint(2, 5)):
        x, y, w, h = rng.randint(0, W - 30), rng.randint(8, 60), rng.randint(22, 55), rng.randint(20, 45)
        draw.rectangle([x - 3, y - 3, x + w + 3, y + h + 3], fill=vary(rng, (85, 65, 50)))
        draw.rectangle(
            [x, y, x + w, y + h], fill=vary(rng, rng.choice([(150, 190, 220), (180, 150, 110), (95, 120, 105)]))
        )
    for _ in range(rng.randint(2, 4)):
        x, w, h = rng.randint(-10, W - 30), rng.randint(28, 75), rng.randint(22, 62)
        body = vary(rng, rng.choice([(125, 80, 60), (95, 105, 125), (140, 95, 100), (90, 110, 90)]))
        draw.rounded_rectangle([x, floor + 12 - h, x + w, floor + 14], radius=rng.randint(1, 10), fill=body)
        draw.line([(x + 4, floor + 12 - h // 2), (x + w - 4, floor + 12 - h // 2)], fill=vary(rng, body, 40), width=2)


def _harbour(draw: Draw, rng: Random) -> None:
    water = rng.randint(85, 112)
    for _ in range(rng.randint(3, 7)):
        x, w, h = rng.randint(-10, W), rng.randint(18, 50), rng.randint(15, 50)
        draw.rectangle(
            [x, water - h, x + w, water], fill=vary(rng, rng.choice([(170, 150, 140), (150, 110, 95), (185, 185, 175)]))
        )
    draw.rectangle([0, water, W, H], fill=vary(rng, (55, 90, 115)))
    for _ in range(rng.randint(3, 6)):
        x, y, w = rng.randint(0, W - 20), rng.randint(water + 8, 150), rng.randint(28, 66)
        hull = vary(rng, rng.choice([(150, 85, 75), (225, 220, 210), (70, 85, 105)]))
        draw.polygon([(x, y), (x + w, y), (x + w - 8, y + 12), (x + 8, y + 12)], fill=hull)
        mast = x + w // 2
        draw.line([(mast, y), (mast, y - rng.randint(30, 70))], fill=(95, 80, 65), width=2)
        if rng.random() < 0.7:
            draw.polygon(
                [(mast + 2, y - 4), (mast + 2, y - 38), (mast + w // 2, y - 4)], fill=vary(rng, (225, 215, 200))
            )
    if rng.random() < 0.6:
        x = rng.randint(10, W - 20)
        draw.polygon(
            [(x, water), (x + 4, water - 75), (x + 12, water - 75), (x + 16, water)], fill=vary(rng, (215, 205, 200))
        )
        draw.rectangle([x + 2, water - 86, x + 14, water - 75], fill=(150, 70, 65))


def _desert(draw: Draw, rng: Random) -> None:
    base = rng.randint(85, 110)
    if rng.random() < 0.6:
        x, w = rng.randint(-10, W - 60), rng.randint(50, 120)
        rock, top = vary(rng, (165, 105, 80)), base - rng.randint(25, 60)
        draw.polygon([(x, base + 10), (x + w // 5, top), (x + 4 * w // 5, top), (x + w, base + 10)], fill=rock)
    for layer in range(3):
        sand = vary(rng, (225 - 14 * layer, 185 - 14 * layer, 130 - 8 * layer), 16)
        _ridge(draw, rng, base + 24 * layer, rng.uniform(14, 40), sand, 2)
    for _ in range(rng.randint(2, 6)):
        x, y, h = rng.randint(5, W - 5), rng.randint(115, 170), rng.randint(22, 52)
        green = vary(rng, (75, 115, 75))
        draw.line([(x, y), (x, y - h)], fill=green, width=7)
        for side in (-1, 1):
            arm = y - h * rng.uniform(0.3, 0.6)
            draw.line([(x, arm), (x + side * 11, arm), (x + side * 11, arm - 14)], fill=green, width=5)


def _village(draw: Draw, rng: Random) -> None:
    base = rng.randint(95, 120)
    for x in range(-30, W, rng.randint(45, 80)):
        peak = (x + rng.randint(25, 60), rng.randint(18, 60))
        draw.polygon([(x, base), peak, (x + 110, base)], fill=vary(rng, (120, 125, 145)))
        draw.polygon([(peak[0] - 10, peak[1] + 14), peak, (peak[0] + 13, peak[1] + 14)], fill=(240, 240, 245))
    draw.rectangle([0, base, W, H], fill=vary(rng, rng.choice([(225, 228, 235), (125, 150, 90)]), 10))
    for _ in range(rng.randint(3, 6)):
        x, w, h = rng.randint(-10, W - 20), rng.randint(30, 58), rng.randint(20, 36)
        y = base + rng.randint(5, 40)
        draw.rectangle(
            [x, y - h, x + w, y], fill=vary(rng, rng.choice([(210, 190, 160), (160, 120, 95), (190, 200, 205)]))
        )
        roof = vary(rng, rng.choice([(150, 80, 65), (90, 80, 85), (110, 105, 90)]))
        draw.polygon([(x - 5, y - h), (x + w // 2, y - h - rng.randint(12, 26)), (x + w + 5, y - h)], fill=roof)
        draw.rectangle([x + w // 2 - 4, y - 14, x + w // 2 + 4, y], fill=(85, 60, 45))
        draw.rectangle([x + 5, y - h + 6, x + 12, y - h + 14], fill=(240, 220, 150))


PAINTERS: dict[str, Callable[[Draw, Random], None]] = {
    "street": _street,
    "hills": _hills,
    "forest": _forest,
    "beach": _beach,
    "room": _room,
    "harbour": _harbour,
    "desert": _desert,
    "village": _village,
}


def _gradient(top: Colour, bottom: Colour) -> Image.Image:
    ramp = np.linspace(0.0, 1.0, H)[:, None, None] ** 0.8
    rows = np.asarray(top) * (1 - ramp) + np.asarray(bottom) * ramp
    return Image.fromarray(np.broadcast_to(rows, (H, W, 3)).astype(np.uint8))


def _grain(seed: int, strength: float) -> np.ndarray:
    """Noise of several scales, float32 [H, W, 1], that makes flat areas look like surfaces."""
    rng = np.random.default_rng(seed)
    total = np.zeros((H, W), np.float32)
    for cells in (6, 24, 96):
        patch = Image.fromarray(rng.standard_normal((cells * 3 // 4, cells)).astype(np.float32))
        total += np.asarray(patch.resize((W, H), Image.Resampling.BICUBIC))
    return (total * strength)[..., None]


@lru_cache(maxsize=24)
def draw_scene(scene: Scene) -> Image.Image:
    """Draw a background as an RGB picture of spec.WORLD_SIZE. The picture is shared: copy it before changing it."""
    seed = crc32(f"{scene.kind}/{scene.layout}".encode())
    rng = Random(seed)
    top, bottom, light = _SKIES[scene.time]
    image = _gradient(vary(rng, top, 14), vary(rng, bottom, 14))
    draw = ImageDraw.Draw(image)
    if scene.time in ("sunset", "night") or rng.random() < 0.5:
        x, y, r = rng.randint(10, W - 10), rng.randint(10, 60), rng.randint(7, 15)
        draw.ellipse([x - r, y - r, x + r, y + r], fill=(255, 244, 214))
    layer = Image.new("RGB", (W, H), (1, 2, 3))
    PAINTERS[scene.kind](ImageDraw.Draw(layer), rng)
    ground = np.asarray(layer).astype(np.float32)
    drawn = (ground != (1, 2, 3)).any(-1, keepdims=True)
    lit = ground * np.asarray(light, np.float32)
    pixels = np.where(drawn, lit, np.asarray(image)) + _grain(seed, 4.0)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
