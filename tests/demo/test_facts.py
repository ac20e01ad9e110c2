"""What is true of a video: by its plan, and seen in its pictures."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from muvr_train.demo.draw import draw_video
from muvr_train.demo.draw_dancer import CLOTHES, POSE_SHAPES, clothes_of, draw_dancer
from muvr_train.demo.draw_sprite import COLOUR_VALUES
from muvr_train.demo.facts import facts_of
from muvr_train.demo.plan import make_plan
from muvr_train.demo.scenario import Actor, Camera, Look, Scene, Shot, Video
from muvr_train.demo.spec import SPRITES

BEACH = Scene("beach", "noon", 5)
CAR = Actor("car", "grey", 50, ((0.5, 0.5),))


def facts(*shots):
    return dict(facts_of(Video("a", 1, "news", "train", 1, "query", shots)))


def shot(frames=20, actors=(), scene=BEACH, camera=None, **look):
    return Shot(frames, scene, tuple(actors), camera or Camera(), Look(**look))


def test_a_bare_place():
    assert facts(shot()) == {"beach": True, "noon": True}


def test_no_shots():
    assert facts() == {}


@pytest.mark.parametrize(
    ("tag", "made"),
    [
        ("title card", Shot(20, card=1)),
        ("night", shot(scene=replace(BEACH, time="night"))),
        ("caption", shot(overlay="caption")),
        ("caption", shot(overlay="both")),
        ("logo", shot(overlay="both")),
        ("blurred", shot(blur=1.0)),
        ("tilted", shot(camera=Camera(turn=-6))),
        ("picture in picture", shot(inset=0.6, inset_scene=BEACH)),
        ("close view", shot(camera=Camera(zoom=1.35))),
        ("washed out", shot(saturation=0.65)),
        ("three things", shot(actors=[CAR] * 3)),
        ("car", shot(actors=[CAR])),
        ("red clothes", shot(actors=[Actor("dancer", "", 110, ((0.5, 0.5),), 12, ("kick",))])),
    ],
)
def test_what_lasts_is_true_and_what_flashes_up_is_open(tag, made):
    if tag == "red clothes":
        assert "red" in clothes_of(12)
    assert facts(made)[tag] is True
    assert tag not in facts(shot())
    assert facts(replace(made, frames=8), shot(52))[tag] is True
    few = 3 if tag == "car" else 7
    assert facts(replace(made, frames=few), shot(60 - few))[tag] is None
    if tag != "car":
        assert facts(replace(made, frames=4), shot(52), replace(made, frames=4))[tag] is True


def test_limits():
    assert facts(shot(camera=Camera(zoom=1.34), saturation=0.66, actors=[CAR] * 2)).keys() == {"beach", "noon", "car"}


def test_a_car_that_is_hardly_seen_is_open():
    outside = replace(CAR, path=((-0.4, 0.5),))
    behind = [CAR, replace(CAR, kind="object:square", size=120)]
    assert facts(shot(60, [outside]))["car"] is None
    assert facts(shot(60, behind))["car"] is None
    assert facts(shot(60, [outside, CAR]))["car"] is True


def test_boats_of_a_harbour_are_open_unless_one_sails():
    boat = replace(CAR, kind="boat")
    harbour = replace(BEACH, kind="harbour")
    assert facts(shot(scene=harbour))["boat"] is None
    assert facts(shot(inset=0.6, inset_scene=harbour))["boat"] is None
    assert facts(shot(scene=harbour, actors=[boat]))["boat"] is True


def test_the_place_around_a_picture_in_picture_is_open():
    found = facts(shot(inset=0.6, inset_scene=Scene("room", "night", 1)))
    assert (found["room"], found["night"], found["beach"], found["noon"]) == (None, None, True, True)
    assert facts(shot(inset=0.6, inset_scene=BEACH))["beach"] is True


def test_clothes_are_drawn_in_the_colours_that_they_are_named_by():
    for style in range(12):
        ground = (255, 0, 255)
        picture = Image.new("RGB", (120, 180), ground)
        draw_dancer(ImageDraw.Draw(picture), POSE_SHAPES["split"], 60, 90, 120, style)
        pixels = np.asarray(picture).reshape(-1, 3).astype(int)
        for name in clothes_of(style):
            near = (np.abs(pixels - COLOUR_VALUES[name]) <= 20).all(axis=1)
            assert near.sum() > 30, (style, name)
    assert {name for style in range(200) for name in clothes_of(style)} == set(CLOTHES)


def pictures(video):
    return np.stack([np.asarray(frame).astype(int) for frame in draw_video(video)])


def change(video, make):
    return replace(video, shots=tuple(shot if shot.scene is None else make(shot) for shot in video.shots))


REMOVED = {
    "caption": lambda shot: replace(shot, look=replace(shot.look, overlay="none")),
    "logo": lambda shot: replace(shot, look=replace(shot.look, overlay="none")),
    "blurred": lambda shot: replace(shot, look=replace(shot.look, blur=0.0)),
    "tilted": lambda shot: replace(shot, camera=replace(shot.camera, turn=0.0)),
    "picture in picture": lambda shot: replace(shot, look=replace(shot.look, inset=1.0, inset_scene=None)),
    **{
        kind: lambda shot, kind=kind: replace(shot, actors=tuple(a for a in shot.actors if a.kind != kind))
        for kind in ("ball", "balloon", "boat", "bus", "car")
    },
}


@pytest.mark.parametrize("tag", REMOVED)
def test_what_is_true_is_seen_and_what_is_false_is_nowhere(tag):
    """Taking the thing away changes the picture of videos that have it, by many pixels, and of no others."""
    videos = list(make_plan("tiny").videos)
    Random(3).shuffle(videos)
    have = [video for video in videos if facts_of(video).get(tag)][:2]
    lack = [video for video in videos if tag not in facts_of(video)][:1]
    assert len(have) == 2
    for video in have:
        changed = (np.abs(pictures(video) - pictures(change(video, REMOVED[tag]))).max(axis=-1) > 8).sum(axis=(1, 2))
        assert (changed >= 40).sum() >= 5
    for video in lack:
        assert change(video, REMOVED[tag]) == video or tag in ("caption", "logo")


def test_every_tag_of_a_sprite_is_a_sprite():
    from muvr_train.demo.facts import CLOTHES_TAGS, SPRITE_TAGS

    assert set(SPRITE_TAGS) <= set(SPRITES)
    assert set(CLOTHES_TAGS) <= set(CLOTHES)
