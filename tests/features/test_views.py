"""Edited views: the plain video is untouched, views depend on what they say, broken donors are never silent."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.copies_recipes import Edit, Piece, Recipe
from muvr_train.errors import ConfigError
from muvr_train.features import views as views_module
from muvr_train.features.compose import SourceFrames
from muvr_train.features.decode import DecodedVideo, DecodeError
from muvr_train.features.edits.draw import EDITS
from muvr_train.features.edits.views import DONORS, choose_donors, draw_view
from muvr_train.features.extract import ExtractSettings, extraction_manifest
from muvr_train.features.jobs import PlainJob
from muvr_train.features.listing import list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.store import FeatureStore
from muvr_train.features.view_sheet import CELL, FRAMES, save_view_sheet
from muvr_train.features.views import WINDOW, ViewSampler, ViewsJob, views_jobs, views_manifest
from muvr_train.training.extraction import extract
from tests.toy_encoder import Means, write_grey

IDS = [f"video {number}" for number in range(30)]


class Collected:
    """Takes what a job gives."""

    def __init__(self) -> None:
        self.made: dict[str, list[np.ndarray]] = {}
        self.beats = self.restarts = 0

    def emit(self, stream: str, frames: np.ndarray) -> None:
        self.made.setdefault(stream, []).append(frames.copy())

    def restart(self) -> None:
        self.made.clear()
        self.restarts += 1

    def beat(self) -> None:
        self.beats += 1

    def frames(self, stream: str) -> np.ndarray:
        return np.concatenate(self.made[stream])

    def greys(self, stream: str) -> list[int]:
        return [int(frame.mean().round()) for part in self.made[stream] for frame in part]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six videos; video k's frame i is grey with value 20 * k + i // 5, the first video has one frame."""
    for k in range(6):
        write_grey(tmp_path / "videos" / f"v{k}.mp4", [20 * k + i // 5 for i in range(100 if k else 1)])
    return tmp_path / "videos"


def job_of(folder: Path, id_: str, *recipes: Recipe, sampler: FrameSampler | None = None) -> ViewsJob:
    videos = dict(list_videos(folder))
    return ViewsJob(id_, videos[id_], sampler or FrameSampler(10), recipes, SourceFrames(videos, 16, 32), 48)


def view(id_: str, *edits: Edit, view: int = 1, around: Sequence[Piece] = ()) -> Recipe:
    return Recipe(id_, (*around, Piece(id_, 0.0, 1.0, 10**6, (*edits, Edit("thin", {"share": 1.0})))), f"view{view}")


def test_views_depend_on_seed_id_number_and_strength() -> None:
    first = draw_view(IDS[0], 1, IDS)
    assert draw_view(IDS[0], 1, IDS) == first
    assert first.stream == "view1"
    others = [
        draw_view(IDS[0], 1, IDS, seed=1),
        replace(draw_view(IDS[0], 2, IDS), stream="view1"),
        draw_view(IDS[0], 1, IDS, strength=0.5),
    ]
    assert all(other != first for other in others)
    assert len({repr(draw_view(id_, 1, IDS).pieces[-1].edits) for id_ in IDS}) > 25


def test_every_edit_intros_and_outros_occur() -> None:
    drawn = [draw_view(id_, view, IDS) for id_ in IDS for view in range(1, 11)]
    names = {edit.name for recipe in drawn for piece in recipe.pieces for edit in piece.edits}
    assert names == {edit.applied for edit in EDITS.values()} | {"thin"}
    own = [[piece.source == recipe.id and not piece.card for piece in recipe.pieces] for recipe in drawn]
    assert all(sum(flags) == 1 for flags in own)
    assert {tuple(flags) for flags in own} == {(True,), (False, True), (True, False), (False, True, False)}
    foreign = [piece for recipe in drawn for piece in recipe.pieces if piece.card or piece.source != recipe.id]
    assert all(2 <= piece.frames <= 4 for piece in foreign)
    assert {piece.source for piece in foreign if piece.card} == {f"train{number}" for number in range(4)}
    assert len({piece.source for piece in foreign if not piece.card}) > 10
    still = draw_view(IDS[0], 1, IDS, strength=0.0)
    assert still.pieces == (Piece(IDS[0], 0.0, 1.0, 10**6, (Edit("thin", {"share": 1.0}),)),)


def test_donors_are_few_unrelated_and_independent_of_the_order() -> None:
    many = [f"clip {number}" for number in range(200)]
    donors = choose_donors(many, 0)
    assert len(donors) == DONORS
    assert choose_donors(reversed(many), 0) == donors
    assert choose_donors(many, 1) != donors
    cuts = [f"talk_00.0{minute}.00-00.0{minute}.30" for minute in range(5)]
    for number in range(40):  # cuts of one upload never stand in for unrelated material
        recipe = draw_view(cuts[0], number, cuts)
        assert {name for piece in recipe.pieces for name, _, _ in piece.shown()} == {cuts[0]}


def test_the_plain_video_is_what_a_plain_job_gives(folder: Path) -> None:
    for id_ in ("v0", "v3"):
        for sampler in (FrameSampler(10), FrameSampler(60), FrameSampler(fps=4.0)):
            job = job_of(folder, id_, view(id_, Edit("flip")), sampler=sampler)
            plain, both = Collected(), Collected()
            status = PlainJob(id_, job.path, sampler).run(plain)
            assert job.run(both) == status
            np.testing.assert_array_equal(both.frames("video"), plain.frames("video"))
            rates = zip(both.greys("view1"), both.greys("video"), strict=True)  # thinned to the same rate
            assert all(abs(one - other) <= 2 for one, other in rates)
            assert both.beats > 0


def test_slow_motion_shows_frames_between_the_plain_ones(folder: Path) -> None:
    def timed(number: int, *edits: Edit) -> Recipe:
        return view("v1", *edits, view=number)

    first_half = Edit("trim", {"start": 0.0, "stop": 0.5})
    twice, half = Edit("speed", {"factor": 2.0}), Edit("speed", {"factor": 0.5})
    got = Collected()
    job_of(folder, "v1", timed(1, first_half), timed(2, twice), timed(3, first_half, half)).run(got)
    assert len(got.greys("video")) == 10
    assert len(got.greys("view1")) == len(got.greys("view2")) == 5
    assert max(got.greys("view1")) <= 31 < max(got.greys("view2"))
    assert len(got.greys("view3")) == 10
    assert len(set(got.greys("view3"))) > 7  # of the first half too, but not five frames shown twice
    assert max(got.greys("view3")) <= 31


def test_windows_of_long_videos_are_consecutive_and_their_own() -> None:
    times = np.arange(1000) / 10
    sampler = ViewSampler.of(FrameSampler(fps=5.0), "a")
    every = sampler.select(times)
    assert every == sampler.chosen["plain"] == FrameSampler(fps=5.0).select(times)
    window = sampler.chosen["views"]
    assert len(window) == WINDOW
    assert np.diff(window).tolist() == [2] * (WINDOW - 1)
    other = ViewSampler.of(FrameSampler(fps=5.0), "b")
    other.select(times)
    assert other.chosen["views"] != window
    fixed = ViewSampler.of(FrameSampler(15), "a")
    assert set(FrameSampler(15).select(times)) <= set(fixed.select(times))
    assert len(fixed.chosen["views"]) == 48
    assert fixed.select(times[:3]) == [0, 1, 2]


def test_views_are_equal_in_any_order_and_process(folder: Path) -> None:
    videos = list_videos(folder)
    jobs = views_jobs(videos, FrameSampler(6), 2, size=32)
    again = views_jobs(videos[::-1], FrameSampler(6), 2, size=32)[::-1]
    assert jobs == again
    one, other = [], []
    for job in jobs:
        job.run(taken := Collected())
        one.append(taken)
    for job in reversed(again):
        job.run(taken := Collected())
        other.append(taken)
    for first, second in zip(one, reversed(other), strict=True):
        assert list(first.made) == ["video", "view1", "view2"]
        for stream, parts in first.made.items():
            for a, b in zip(parts, second.made[stream], strict=True):
                np.testing.assert_array_equal(a, b)


def test_intros_come_first_in_their_own_size(folder: Path) -> None:
    card, other = Piece("train0", 0.0, 1.0, 3, card=True), Piece("v4", 0.0, 0.2, 2)
    got = Collected()
    job_of(folder, "v2", view("v2", around=[card, other])).run(got)
    assert [part.shape for part in got.made["view1"]] == [(3, 144, 256, 3), (2, 32, 32, 3), (10, 32, 32, 3)]
    assert got.greys("view1")[3] in range(80, 84)


def test_a_broken_donor_is_replaced_and_named(folder: Path) -> None:
    (folder / "v3.mp4").write_bytes(b"no video")
    host = {"host": "v3", "host_start": 0.0, "host_stop": 0.5}
    recipe = view("v2", Edit("beside", {"side": "right", **host}), around=[Piece("v3", 0.0, 0.5, 2)])
    got = Collected()
    status = job_of(folder, "v2", recipe).run(got)
    assert status.status == "ok"
    assert "view1: v3 cannot be shown in it" in status.reason
    assert "v4 is shown instead" in status.reason
    assert got.greys("view1")[0] in range(80, 91)
    assert got.made["view1"][1].shape == (10, 32, 64, 3)
    again = Collected()
    job_of(folder, "v2", recipe).run(again)
    assert again.greys("view1") == got.greys("view1")


def test_without_any_donor_the_edit_is_left_out_and_that_is_said(folder: Path) -> None:
    for name in ("v3", "v4", "v5", "v0", "v1"):
        (folder / f"{name}.mp4").write_bytes(b"no video")
    host = {"host": "v3", "host_start": 0.0, "host_stop": 0.5}
    recipe = view("v2", Edit("beside", {"side": "right", **host}), Edit("flip"), around=[Piece("v3", 0.0, 0.5, 2)])
    got = Collected()
    status = job_of(folder, "v2", recipe).run(got)
    assert "no other video is shown instead" in status.reason
    assert [part.shape for part in got.made["view1"]] == [(10, 32, 32, 3)]


def test_a_video_that_cannot_be_decoded_fails(folder: Path) -> None:
    job = job_of(folder, "v3", view("v3"))
    job.path.write_bytes(b"no video")
    with pytest.raises(DecodeError, match=r"v3\.mp4"):
        job.run(Collected())


def test_other_frames_than_chosen_take_two_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may drop damaged frames; the plain video and the views must not mix them up."""
    whole = views_module.stream_frames

    def lossy(path: Path, sampler: FrameSampler, emit: Any, *rest: Any) -> DecodedVideo:
        made = whole(path, sampler, lambda frames: emit(frames[1:]), *rest)
        return replace(made, indices=made.indices[1:])

    monkeypatch.setattr(views_module, "stream_frames", lossy)
    job, got, plain = job_of(folder, "v1", view("v1")), Collected(), Collected()
    status = job.run(got)
    assert PlainJob("v1", job.path, job.sampler).run(plain) == status
    assert got.restarts == 1
    np.testing.assert_array_equal(got.frames("video"), plain.frames("video"))
    assert len(got.greys("view1")) == 10


def test_views_are_stored_beside_the_video_and_completed_later(folder: Path, tmp_path: Path) -> None:
    videos, sampler, encoder = list_videos(folder), FrameSampler(6), Means()
    manifest = extraction_manifest(encoder, sampler, {"views": views_manifest(1.0, 0, 32)})

    def run(views: int, out: str) -> Any:
        jobs = views_jobs(videos, sampler, views, size=32)
        return extract(jobs, Means(), tmp_path / out, manifest, ExtractSettings(progress=False, workers=2))

    assert run(1, "store").ok
    assert run(3, "store").ok
    assert run(3, "whole").ok
    store, whole = FeatureStore(tmp_path / "store"), FeatureStore(tmp_path / "whole")
    for id_, _ in videos:
        assert store.views(id_) == ["view1", "view2", "view3"]
        for stream in ("video", "view1", "view3"):
            np.testing.assert_allclose(store.array(id_, stream), whole.array(id_, stream), rtol=1e-3)
    assert not run(3, "store").new


def test_impossible_numbers(folder: Path) -> None:
    videos = list_videos(folder)
    for views, strength in ((0, 1.0), (2, 1.1), (2, -0.1)):
        with pytest.raises(ConfigError, match="views >= 1 and a view_strength in"):
            views_jobs(videos, FrameSampler(), views, strength)


def test_the_sheet_has_a_row_per_video_and_survives_a_broken_one(folder: Path, tmp_path: Path) -> None:
    jobs = views_jobs(list_videos(folder), FrameSampler(6), 2, size=32)[:3]
    jobs[1].path.write_bytes(b"no video")
    save_view_sheet(tmp_path / "views.png", jobs)
    sheet = np.asarray(Image.open(tmp_path / "views.png").convert("L"))
    rows = len(sheet) // 3
    assert sheet.shape[1] > 3 * FRAMES * CELL[0]
    inks = [(sheet[row * rows : row * rows + CELL[1], : CELL[0]] < 200).mean() for row in range(3)]
    assert inks[0] > 0.05
    assert inks[2] > 0.05
    assert inks[1] < 0.01


@pytest.mark.slow
def test_views_of_real_clips(shared: Path, tmp_path: Path) -> None:
    clips = tmp_path / "clips"
    clips.mkdir()
    for name in ("canary_cage", "squats", "store_aisle", "skier"):
        shutil.copy(shared / "data" / "clips" / f"{name}.mp4", clips)
    for job in views_jobs(list_videos(clips), FrameSampler(), 6):
        job.run(got := Collected())
        assert len(got.greys("video")) == 15
        for number in range(1, 7):
            assert 1 <= len(got.greys(f"view{number}")) <= 60


@pytest.mark.parametrize(
    "sampler", [FrameSampler(), FrameSampler(fps=2.0), FrameSampler(kind="muvr_official")], ids=str
)
def test_odd_and_damaged_videos_have_the_plain_status_and_frames(
    shared: Path, tmp_path: Path, sampler: FrameSampler
) -> None:
    odd = tmp_path / "odd"
    shutil.copytree(shared / "data" / "odd_videos", odd)
    clip = (shared / "data" / "clips" / "canary_cage.mp4").read_bytes()
    broken = bytearray(clip)
    for place in np.random.default_rng(0).integers(2000, len(clip), len(clip) // 400):
        broken[place] ^= 0xFF
    (odd / "flipped.mp4").write_bytes(bytes(broken))
    (odd / "cut.mp4").write_bytes(clip[: int(0.7 * len(clip))])
    for job in views_jobs(list_videos(odd), sampler, 1, size=32):
        outcomes = []
        for one in (PlainJob(job.id, job.path, sampler), job):
            try:
                outcomes.append((one.run(got := Collected()), got.frames("video").tobytes()))
            except DecodeError as error:
                outcomes.append((str(error), b""))
        plain, both = outcomes
        if not isinstance(plain[0], str):
            assert both[0].status == plain[0].status
            assert both[0].used == plain[0].used
            assert got.greys("view1")
        assert both[1] == plain[1], job.id
