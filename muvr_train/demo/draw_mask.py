"""Where something is to be seen in a shot, exactly as `draw` draws it: one sprite, or the place behind all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from muvr_train.demo.draw import draw_overlay, place_sprite, set_in, take_view
from muvr_train.demo.scenario import Shot
from muvr_train.demo.spec import FRAME_SIZE, WORLD_SIZE

Mask = NDArray[np.bool_]


def mask_actor(shot: Shot, index: int, actor: int) -> Mask:
    """Mark the visible pixels of a sprite: not those that a later actor, the frame's edge or an overlay hides.

    Args:
        shot: Its actors are sprites (dancers have no mask).
        index: Number of the frame in the shot.
        actor: Number of the actor.

    Returns:
        bool [height, width] of the frame.
    """
    world = Image.new("L", WORLD_SIZE, 0)
    for number in range(actor, len(shot.actors)):
        _paste(world, shot, index, number, 255 if number == actor else 0)
    return _finish(world, shot, index)


def mask_place(shot: Shot, index: int) -> Mask:
    """Mark the visible pixels of a shot's background: not those of its actors or of an overlay; see `mask_actor`."""
    world = Image.new("L", WORLD_SIZE, 255)
    for number in range(len(shot.actors)):
        _paste(world, shot, index, number, 0)
    return _finish(world, shot, index)


def _paste(world: Image.Image, shot: Shot, index: int, number: int, value: int) -> None:
    sprite, place = place_sprite(shot.actors[number], shot, index)
    world.paste(value, (*place, place[0] + sprite.width, place[1] + sprite.height), sprite.getchannel("A"))


def _finish(world: Image.Image, shot: Shot, index: int) -> Mask:
    """What the camera, a picture in picture and an overlay leave of a mask in the world."""
    frame, look = take_view(world, shot, index), shot.look
    if look.inset_scene is not None:
        frame = set_in(Image.new("L", FRAME_SIZE, 0), frame, look)
    if look.overlay != "none":
        clear = draw_overlay(look.overlay, look.overlay_seed).getchannel("A").point(lambda alpha: 0 if alpha else 255)
        frame = ImageChops.darker(frame, clear)
    return np.asarray(frame) >= 128
