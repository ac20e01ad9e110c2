"""The dancer: a figure of limbs that moves through an order of poses; its look is a seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import cos, radians, sin
from random import Random

from PIL import ImageDraw

from muvr_train.demo.draw_scene import Colour, vary
from muvr_train.demo.draw_sprite import COLOUR_VALUES

CLOTHES = ("pale", "dark", "pink", "orange", "white", "black", "red", "blue")


@dataclass(frozen=True)
class Pose:
    """Angles in degrees from straight down (positive: to the right), shifts in body heights."""

    lean: float = 0.0
    arm_l: float = -25.0
    fore_l: float = -15.0
    arm_r: float = 25.0
    fore_r: float = 15.0
    leg_l: float = -10.0
    shin_l: float = -6.0
    leg_r: float = 10.0
    shin_r: float = 6.0
    dx: float = 0.0
    dy: float = 0.0


POSE_SHAPES = {
    "arms_up": Pose(arm_l=-160, fore_l=-170, arm_r=160, fore_r=170, dy=-0.15),
    "crouch": Pose(arm_l=-60, fore_l=20, arm_r=60, fore_r=-20, leg_l=-75, shin_l=25, leg_r=75, shin_r=-25, dy=0.19),
    "lean_left": Pose(lean=-38, arm_l=-95, fore_l=-95, arm_r=120, fore_r=150, leg_l=-5, leg_r=28, shin_r=28, dx=-0.42),
    "lean_right": Pose(lean=38, arm_l=-120, fore_l=-150, arm_r=95, fore_r=95, leg_l=-28, shin_l=-28, leg_r=5, dx=0.42),
    "kick": Pose(lean=-14, arm_l=-95, fore_l=-120, arm_r=70, fore_r=110, leg_r=95, shin_r=95, dx=-0.2),
    "split": Pose(
        arm_l=-92, fore_l=-92, arm_r=92, fore_r=92, leg_l=-48, shin_l=-48, leg_r=48, shin_r=48, dx=0.2, dy=0.1
    ),
}


def blend(a: Pose, b: Pose, share: float) -> Pose:
    """Go from pose `a` (share 0) to pose `b` (share 1)."""
    return Pose(**{f.name: getattr(a, f.name) * (1 - share) + getattr(b, f.name) * share for f in fields(Pose)})


def pose_at(poses: tuple[str, ...], moment: float, script: float) -> Pose:
    """The pose at `moment` of a script of `script` frames: each is held for about 60 % of its time, then left."""
    step = moment % script / script * len(poses)
    index = int(step) % len(poses)
    share = min(1.0, max(0.0, (step - int(step) - 0.6) / 0.4))
    return blend(POSE_SHAPES[poses[index]], POSE_SHAPES[poses[(index + 1) % len(poses)]], share)


def draw_dancer(draw: ImageDraw.ImageDraw, pose: Pose, x: float, y: float, size: float, style: int) -> None:
    """Draw the figure with its hips near pixel (x, y), `size` pixels tall."""
    rng = Random(style)
    skin, (_, top), (_, legs) = _dress(rng)
    width = size * rng.uniform(0.055, 0.1)
    skirt, head = rng.random() < 0.35, size * rng.uniform(0.075, 0.105)
    hips = (x + pose.dx * size, y + pose.dy * size)
    neck = _reach(hips, 180 - pose.lean, 0.3 * size)
    for upper, lower, side in ((pose.leg_l, pose.shin_l, -1), (pose.leg_r, pose.shin_r, 1)):
        root = (hips[0] + side * 0.04 * size, hips[1])
        _limb(draw, root, (upper, lower), 0.23 * size, width, (legs, legs))
    if skirt:
        spread = 0.16 * size
        draw.polygon([neck, (hips[0] - spread, hips[1] + spread), (hips[0] + spread, hips[1] + spread)], fill=top)
    draw.line([neck, hips], fill=top, width=int(width * 2.2))
    for upper, lower, side in ((pose.arm_l, pose.fore_l, -1), (pose.arm_r, pose.fore_r, 1)):
        root = (neck[0] + side * 0.07 * size, neck[1] + 0.03 * size)
        _limb(draw, root, (upper, lower), 0.17 * size, width * 0.85, (top, skin))
    crown = _reach(neck, 180 - pose.lean, head * 1.1)
    draw.ellipse([crown[0] - head, crown[1] - head, crown[0] + head, crown[1] + head], fill=skin)
    hair = vary(rng, rng.choice([(50, 36, 30), (160, 120, 70), (90, 90, 95)]))
    draw.pieslice([crown[0] - head, crown[1] - head, crown[0] + head, crown[1] + head], 190, 350, fill=hair)


def clothes_of(style: int) -> tuple[str, str]:
    """Name the colours of a dancer's top and legs."""
    _, (top, _), (legs, _) = _dress(Random(style))
    return top, legs


def _dress(rng: Random) -> tuple[Colour, tuple[str, Colour], tuple[str, Colour]]:
    """Draw the colours of skin, top and legs."""
    skin = vary(rng, rng.choice([(226, 186, 158), (180, 130, 98), (110, 76, 56), (120, 160, 175)]), 16)
    names = []
    for _ in range(2):
        name = rng.choice(CLOTHES)
        names.append((name, vary(rng, COLOUR_VALUES[name], 20)))
    return skin, names[0], names[1]


def _reach(point: tuple[float, float], angle: float, length: float) -> tuple[float, float]:
    return point[0] + length * sin(radians(angle)), point[1] + length * cos(radians(angle))


def _limb(
    draw: ImageDraw.ImageDraw,
    root: tuple[float, float],
    angles: tuple[float, float],
    length: float,
    width: float,
    colours: tuple[Colour, Colour],
) -> None:
    joint = _reach(root, angles[0], length)
    draw.line([root, joint], fill=colours[0], width=int(width))
    draw.line([joint, _reach(joint, angles[1], length)], fill=colours[1], width=int(width))
