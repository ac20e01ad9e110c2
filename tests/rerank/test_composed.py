"""Videos of the copies benchmark as visuals: composed of their sources when they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from muvr_train.benchmarks.copies import CopiesPlan, plan_copies
from muvr_train.benchmarks.copies_draw import CopiesSettings
from muvr_train.benchmarks.types import Query
from muvr_train.errors import DataError
from muvr_train.features.compose import SourceFrames, compose
from muvr_train.features.copies import PLAN
from muvr_train.features.listing import list_videos
from muvr_train.features.sampling import uniform
from muvr_train.rerank.composed import SHORT_SIDE, ComposedMedia, letterboxed, sources_of
from muvr_train.rerank.pair_questions import PairSettings, pair_question
from muvr_train.rerank.types import Clip, Picture, Visual
from tests.features.test_copies_extract import write_video

NAMES = tuple(f"sörce {number}" for number in range(10))


@pytest.fixture
def plan() -> CopiesPlan:
    return plan_copies(NAMES, 0, (0.4, 0.2, 0.4), CopiesSettings(intros=True))


@pytest.fixture
def media(plan: CopiesPlan, tmp_path: Path) -> ComposedMedia:
    (tmp_path / "videos").mkdir()
    for number, name in enumerate(NAMES):
        write_video(tmp_path / f"videos/{name}.mp4", number)
    (tmp_path / PLAN).write_text(json.dumps(plan.to_json()), encoding="utf-8")
    return ComposedMedia.of_store(tmp_path, tmp_path / "videos")


def loaded(visual: Visual) -> list[np.ndarray]:
    made = visual.load()
    return [made.pixels] if isinstance(made, Picture) else list(made.frames)


def test_frames_are_those_that_the_recipe_gives(media: ComposedMedia, tmp_path: Path) -> None:
    sources = SourceFrames(dict(list_videos(tmp_path / "videos")), short_side=SHORT_SIDE)
    assert any(len(recipe.pieces) > 1 for recipe in media.recipes.values())
    for name, recipe in list(media.recipes.items())[:8]:
        frames = [frame for piece in compose(recipe, sources) for frame in piece]
        visual = media.video(name, 3)
        assert (visual.kind, visual.name) == ("video", name)
        expected = [frames[place] for place in uniform(len(frames), 3)]
        for mine, other in zip(loaded(visual), expected, strict=True):
            np.testing.assert_array_equal(mine, letterboxed(other, *expected[0].shape[:2]))
            assert not mine.flags.writeable


def test_a_query_shows_one_frame_and_sizes_are_bounded(media: ComposedMedia) -> None:
    name = next(iter(media.recipes))
    one, several = media.query(name, None), media.query(name, None, frames=2, resolution=32)
    assert one.kind == "image"
    assert isinstance(one.load(), Picture)
    clip = several.load()
    assert isinstance(clip, Clip)
    assert [max(frame.shape) for frame in clip.frames] == [32, 32]


def test_the_key_is_that_of_recipe_sources_and_sampling(media: ComposedMedia, tmp_path: Path) -> None:
    first, second = list(media.recipes)[:2]
    again = ComposedMedia.of_store(tmp_path, tmp_path / "videos")
    assert media.video(first, 3).key() == again.video(first, 3).key()
    others = [media.video(second, 3), media.video(first, 4), media.video(first, 3, 32), media.query(first, None)]
    keys = {visual.key() for visual in others} | {media.video(first, 3).key()}
    assert len(keys) == 5
    assert str(tmp_path) not in "".join(keys)
    source, before = sorted(sources_of(media.recipes[first]))[0], loaded(media.video(first, 3))
    write_video(tmp_path / f"videos/{source}.mp4", 99)
    changed = ComposedMedia.of_store(tmp_path, tmp_path / "videos").video(first, 3)
    assert changed.key() not in keys
    assert any((mine != other).any() for mine, other in zip(loaded(changed), before, strict=True))


def test_pieces_of_another_shape_get_black_bars() -> None:
    frame = np.full((4, 8, 3), 200, np.uint8)
    boxed = letterboxed(frame, 8, 8)
    assert boxed.shape == (8, 8, 3)
    np.testing.assert_array_equal(boxed[2:6], frame)
    assert not boxed[:2].any()
    assert not boxed[6:].any()
    assert (letterboxed(frame, 1, 1) == 200).all()
    same = letterboxed(frame, 4, 8)
    np.testing.assert_array_equal(same, frame)
    assert same is not frame


def test_missing_and_broken_sources_are_named(media: ComposedMedia, plan: CopiesPlan, tmp_path: Path) -> None:
    split = plan.names("test")
    name = next(name for name in media.recipes if sources_of(media.recipes[name]) & set(split))
    source = sorted(sources_of(media.recipes[name]))[0]
    (tmp_path / f"videos/{source}.mp4").write_bytes(b"no video")
    with pytest.raises(DataError, match=f"video {name}.*{source}"):
        ComposedMedia.of_store(tmp_path, tmp_path / "videos").video(name, 2).load()
    (tmp_path / f"videos/{source}.mp4").unlink()
    lacking = ComposedMedia.of_store(tmp_path, tmp_path / "videos")
    question = pair_question(Query("q", "copies", "copies/q"), None, name, True, lacking, PairSettings())
    (lines,) = ComposedMedia.missing([question]).values()
    assert lines[0].startswith("video q: not in the plan")
    assert lines[1] == f"video {name}: no such file in data.videos: {source}"
    with pytest.raises(DataError, match=r"holds no copies\.json"):
        ComposedMedia.of_store(tmp_path / "videos", tmp_path / "videos")
