"""Masks of the built-in corpus against the pictures themselves: what changes when the marked thing is another one."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFilter

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.demo.annotations import write_annotations
from muvr_train.demo.draw import draw_video
from muvr_train.demo.draw_mask import mask_actor, mask_place
from muvr_train.demo.masks import MASKED, encode_rle, query_masks, shared_place, write_masks
from muvr_train.demo.plan import make_plan
from muvr_train.demo.scenario import Actor, Camera, Look, Scene, Shot
from muvr_train.demo.spec import FRAME_SIZE, FRAMES
from muvr_train.features.masks import decode_rle, find_masks, list_masks
from tests.reference.rle import encode_counts

PLAN = make_plan("tiny")
BY_NUMBER = {video.number: video for video in PLAN.videos}
SCENE = Scene("desert", "noon", 5)
SHAPE = (FRAME_SIZE[1], FRAME_SIZE[0])


def query(partition, place=0):
    topic = [topic for topic in PLAN.topics if topic.partition == partition][place]
    return BY_NUMBER[topic.members["query"][place]], topic


def frames(video):
    return [np.asarray(frame).astype(int) for frame in draw_video(video)]


def grow(mask, by=1):
    picture = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(picture.filter(ImageFilter.MaxFilter(2 * by + 1))) > 0


def without(video, is_marked, change):
    """The same video where marked shots are changed."""
    return replace(video, shots=tuple(change(shot) if is_marked(shot) else shot for shot in video.shots))


def check(masks, before, after):
    """Pixels change inside the masks (but for chance) and nowhere beyond their edge."""
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        changed = np.abs(old - new).max(axis=2) > 24  # overlays let 8 % through
        mask = masks.get(number, np.zeros(SHAPE, bool))
        assert (changed & ~grow(mask)).sum() <= 20  # of 19,200: thin edges
        if number in masks:
            inside = ~grow(~mask)
            assert changed[inside].mean() > 0.7


@pytest.mark.parametrize("place", [0, 1, 2])
def test_objects(place):
    video, topic = query("instance", place)
    masks = query_masks(video, topic, BY_NUMBER)
    assert len(masks) >= 20
    bare = without(
        video,
        lambda shot: any(actor.kind.startswith("object:") for actor in shot.actors),
        lambda shot: replace(shot, actors=tuple(a for a in shot.actors if not a.kind.startswith("object:"))),
    )
    check(masks, frames(video), frames(bare))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_places(place):
    video, topic = query("region", place)
    masks, scene = query_masks(video, topic, BY_NUMBER), shared_place(topic, BY_NUMBER)
    assert sorted(masks) == list(range(min(masks), max(masks) + 1))
    assert len(masks) == sum(shot.frames for shot in video.shots if shot.scene == scene)
    other = replace(scene, kind="room" if scene.kind != "room" else "beach", time="night", layout=11)
    moved = without(video, lambda shot: shot.scene == scene, lambda shot: replace(shot, scene=other))
    check(masks, frames(video), frames(moved))


def shot(actors=(), look=None, camera=None):
    return Shot(10, SCENE, tuple(actors), camera or Camera(), look or Look())


BALL = Actor("ball", "dark", 60, ((0.5, 0.5),))


def test_a_sprite_in_the_middle_is_where_it_is_drawn():
    mask = mask_actor(shot([BALL]), 0, 0)
    rows, columns = np.nonzero(mask)
    assert mask.shape == SHAPE
    assert (rows.mean(), columns.mean()) == pytest.approx((59.5, 79.5), abs=1)
    assert np.ptp(columns) == pytest.approx(0.88 * 60 * 2 / 3, abs=2)  # the world is 1.5 times as large as the frame


def test_a_later_actor_hides_an_earlier_one():
    cover = replace(BALL, kind="object:square", colour="red", size=80)
    both = shot([BALL, cover])
    assert not mask_actor(both, 0, 0).any()
    assert np.array_equal(mask_actor(both, 0, 1), mask_actor(shot([cover]), 0, 0))
    assert np.array_equal(mask_place(both, 0), ~mask_actor(both, 0, 1))


def test_out_of_the_picture():
    assert not mask_actor(shot([replace(BALL, path=((-0.5, 0.5),))]), 3, 0).any()
    assert mask_place(shot(), 0).all()


def test_overlays_and_pictures_in_pictures_hide_the_place():
    captioned = shot(look=Look(overlay="caption", overlay_seed=1))
    covered = ~mask_place(captioned, 0)
    assert covered.all(axis=1).sum() >= 20
    small = shot(look=Look(inset=0.6, inset_scene=replace(SCENE, layout=9), overlay_seed=2))
    assert mask_place(small, 0).sum() == pytest.approx(0.36 * SHAPE[0] * SHAPE[1], rel=0.02)


def test_a_mirrored_camera_mirrors_the_mask():
    left = replace(BALL, path=((0.2, 0.5),))
    plain, flipped = (mask_actor(shot([left], camera=Camera(flip=flip)), 0, 0) for flip in (False, True))
    assert np.array_equal(flipped, plain[:, ::-1])


@pytest.mark.parametrize("mask", [np.zeros((3, 4)), np.ones((3, 4)), np.eye(3, 4), np.eye(4, 3)[::-1], np.ones((1, 1))])
def test_run_lengths(mask):
    mask = mask.astype(bool)
    code = encode_rle(mask)
    assert code["counts"] == encode_counts(mask)
    assert np.array_equal(decode_rle(code, "here"), mask)


def test_the_reader_finds_a_mask_of_every_query_that_should_have_one(tmp_path):
    write_annotations(PLAN, tmp_path / "annotations")
    write_masks(PLAN, tmp_path / "masks")
    benchmark = read_muvr(tmp_path / "annotations")
    found = find_masks(tmp_path / "masks", benchmark)
    assert set(found) == {query.id for query in benchmark.queries if query.partition in MASKED}
    video, topic = query("instance")
    drawn = query_masks(video, topic, BY_NUMBER)
    read = list_masks(found[f"instance/{video.id}"])
    assert [mask.frame for mask in read] == sorted(drawn)
    assert all(np.array_equal(mask.read(), drawn[mask.frame]) for mask in read)
    assert max(drawn) < FRAMES
