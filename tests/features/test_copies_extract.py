"""From a folder of videos to the copies benchmark's store: right, resumable, honest about broken sources."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from muvr_train.benchmarks.copies import CopiesPlan, plan_copies
from muvr_train.benchmarks.copies_draw import CopiesSettings
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import evaluate
from muvr_train.features.compose import SourceFrames, shrink
from muvr_train.features.copies import find_usable, read_plan
from muvr_train.features.edits.apply import apply_edit
from muvr_train.features.edits.overlays import title_card
from muvr_train.features.edits.temporal import take
from muvr_train.features.extract import ExtractReport, ExtractSettings
from muvr_train.features.listing import list_videos
from muvr_train.features.status import read_statuses
from muvr_train.features.store import FeatureStore
from muvr_train.runner.copies import open_copies
from muvr_train.runner.models import baseline_models
from muvr_train.training.copies import extract_copies
from tests.toy_encoder import Means

NAMES = [f"v{number}" for number in range(8)]
FRACTIONS = (0.4, 0.3, 0.3)  # 3, 2 and 3 of 8


class Small(Means):
    """Mean colours of 2 x 2 regions; counts its passes and stops where told to."""

    def __init__(self, stop_after: int = 10**9, device: str = "cpu") -> None:
        super().__init__(device=device)
        self.passes, self.stop_after = 0, stop_after

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        self.passes += 1
        if self.passes > self.stop_after:
            raise RuntimeError("stopped")
        return super().compute(x)

    def manifest(self) -> dict[str, Any]:
        return {"encoder": "small", "features": {"video": {"grid": 1}, "fine": {"grid": 2}}}


def run(
    plan: CopiesPlan, sources: SourceFrames, out: Path, encoder: Small | None = None, **settings: Any
) -> ExtractReport:
    report = extract_copies(
        plan, sources, encoder or Small(), out, settings=ExtractSettings(progress=False, **settings)
    )
    assert report is not None
    return report


def write_video(path: Path, seed: int, frames: int = 24) -> None:
    """Write coloured blocks that drift, other ones for every seed."""
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 16, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h264", rate=10, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(frames):
            picture = np.kron(np.roll(blocks, i // 4, axis=1)[:4, :6], np.ones((16, 16, 1), np.uint8))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture))))
        container.mux(stream.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    videos = tmp_path / "videos"
    videos.mkdir()
    for number, name in enumerate(NAMES):
        write_video(videos / f"{name}.mp4", number)
    return videos


@pytest.fixture
def sources(folder: Path) -> SourceFrames:
    return SourceFrames(dict(list_videos(folder)), short_side=48)


@pytest.fixture
def plan() -> CopiesPlan:
    return plan_copies(NAMES, 0, FRACTIONS, CopiesSettings(intros=True))


def settings_of(folder: Path | None, **changes: Any) -> DictConfig:
    """Give what `open_copies` reads of a config."""
    cfg = OmegaConf.create(
        {
            "data": {
                "videos": None if folder is None else str(folder),
                "features": None,
                "fractions": list(FRACTIONS),
                "views": 2,
            },
            "benchmark": {"name": "copies", "seed": 0, "intros": False},
            "encoder": {"_target_": f"{__name__}.Small"},
            "seed": 5,
            "residency": "mmap",
        }
    )
    for key, value in changes.items():
        OmegaConf.update(cfg, key.replace("__", "."), value)
    return cfg


def slow_features(recipe: Any, paths: dict[str, Path], short_side: int) -> np.ndarray:
    """Decode everything with PyAV, edit, encode frame by frame."""
    parts = []
    for piece in recipe.pieces:
        if piece.card:
            frames = title_card(piece.source, piece.frames)
        else:
            frames = take(decode(paths[piece.source], short_side), piece.start, piece.stop, piece.frames)
        for edit in piece.edits:
            settings = dict(edit.settings)
            if edit.name == "inset":
                span = (settings.pop("host_start"), settings.pop("host_stop"))
                settings["host"] = take(decode(paths[settings["host"]], short_side), *span, len(frames))
            frames = apply_edit(frames, edit.name, **settings)
        encoder = Small()
        parts += [encoder.forward_batch(encoder.prepare(frame[None]))["video"][0] for frame in frames]
    return torch.stack(parts).numpy()


def decode(path: Path, short_side: int) -> np.ndarray:
    with av.open(str(path)) as container:
        return shrink(np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]), short_side)


def test_every_planned_video_is_stored_and_equals_the_slow_way(
    sources: SourceFrames, plan: CopiesPlan, tmp_path: Path
) -> None:
    report = run(plan, sources, tmp_path / "s", workers=2)
    store = FeatureStore(tmp_path / "s")
    ids = {recipe.id for recipe in plan.recipes}
    assert {status.id for status in report.new} == {status.id for status in report.statuses} == ids
    assert all(status.status == "ok" for status in report.statuses)
    assert store.dims.fine_dim is None
    assert store.manifest["features"] == {"video": {"grid": 1}}
    assert read_plan(tmp_path / "s") == plan
    cards = {recipe.id for recipe in plan.recipes if recipe.stream == "cards"}
    assert cards == set(store.ids("cards"))
    assert ids - cards == set(store.ids())
    for name in plan.names("train"):
        assert store.views(f"copies/{name}") == ["view1", "view2"]
    assert any(edit.name == "inset" for r in plan.recipes for piece in r.pieces for edit in piece.edits)
    for recipe in plan.recipes:
        slow = slow_features(recipe, dict(sources.paths), 48)
        np.testing.assert_allclose(store.array(recipe.id, recipe.stream), slow, rtol=1e-3)


@pytest.mark.slow
def test_an_interrupted_extraction_goes_on_and_ends_equal(
    sources: SourceFrames, plan: CopiesPlan, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        run(plan, sources, tmp_path / "s", Small(stop_after=14), workers=1, save_every=0)
    report = run(plan, sources, tmp_path / "s", workers=1)
    assert 10 < len(report.new) < len(report.statuses)
    whole = run(plan, sources, tmp_path / "whole", workers=2)
    assert len(whole.new) == len(report.statuses)
    one, other = FeatureStore(tmp_path / "s"), FeatureStore(tmp_path / "whole")
    for recipe in plan.recipes:
        got, wanted = (store.array(recipe.id, recipe.stream) for store in (one, other))
        np.testing.assert_allclose(got, wanted, rtol=1e-3)
    assert read_statuses(tmp_path / "s") == read_statuses(tmp_path / "whole")


def test_a_source_that_breaks_after_planning_is_listed_and_made_up_for_later(
    sources: SourceFrames, plan: CopiesPlan, tmp_path: Path
) -> None:
    name = plan.names("test")[0]
    path, kept = sources.paths[name], tmp_path / "kept.mp4"
    shutil.copy(path, kept)
    path.write_bytes(b"no video")
    report = run(plan, sources, tmp_path / "s")
    shown = {r.id for r in plan.recipes if any(name == source for piece in r.pieces for source, _, _ in piece.shown())}
    assert {failure.id for failure in report.failures} == shown
    failed = {id_: status for id_, status in read_statuses(tmp_path / "s").items() if status.failed}
    assert set(failed) == shown
    assert all(f"{name}.mp4" in status.reason or status.path == str(path) for status in failed.values())
    assert not set(FeatureStore(tmp_path / "s").ids()) & shown
    shutil.copy(kept, path)
    report = run(plan, sources, tmp_path / "s")
    assert ({status.id for status in report.new}, report.failures) == (shown, ())
    assert not any(status.failed for status in read_statuses(tmp_path / "s").values())


def test_find_usable_names_the_reason(sources: SourceFrames) -> None:
    sources.paths["v3"].write_bytes(b"")
    usable, failures = find_usable(sources, progress=False)
    assert usable == [name for name in NAMES if name != "v3"]
    assert [(failure.id, failure.status, failure.reason) for failure in failures] == [
        ("copies/v3", "undecodable", "the file is empty (0 bytes)")
    ]


def test_a_bounded_cache_gives_the_same_frames(folder: Path) -> None:
    roomy, tight = (SourceFrames(dict(list_videos(folder)), short_side=48, cache_mib=mib) for mib in (64, 0))
    for name in ("v0", "v1", "v0"):
        np.testing.assert_array_equal(roomy(name), tight(name))
    assert roomy("v0").shape == (24, 48, 72, 3)


def test_open_copies_extracts_once_and_can_be_evaluated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    corpus, store, benchmark = open_copies(settings_of(folder), "cpu")
    assert "3 train, 2 val, 3 test" in corpus
    before = sorted((path, path.stat().st_mtime_ns) for path in store.path.iterdir() if path.name != ".lock")
    _, again, _ = open_copies(settings_of(folder, seed=6), "cpu")  # a training's seed changes nothing
    after = sorted((path, path.stat().st_mtime_ns) for path in again.path.iterdir() if path.name != ".lock")
    assert before == after
    _, same, other = open_copies(settings_of(None, data__features=str(store.path)), "cpu")
    assert (same.path, other) == (store.path, benchmark)
    train = benchmark.select("train", "split").video_ids
    model = baseline_models(store, train, ["chamfer global whitened"])["chamfer global whitened"]
    flat = evaluate(model, store, benchmark.select("test")).flat("test")
    assert 0 < flat["test/copies/v/mean/mAP"] <= 1
    _, moved, _ = open_copies(settings_of(folder, benchmark__seed=1), "cpu")
    assert moved.path != store.path


def test_open_copies_leaves_broken_and_equal_files_out_and_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    (folder / "broken.mp4").write_bytes(b"no video at all")
    shutil.copy(folder / "v0.mp4", folder / "w0.mp4")
    with caplog.at_level(logging.WARNING):
        corpus, store, benchmark = open_copies(settings_of(folder), "cpu")
    assert "2 of 10 videos" in caplog.text
    assert "broken.mp4" in caplog.text
    for told in (corpus, benchmark.warnings[0]):
        assert "2 videos of the folder are left out" in told
        assert str(store.path / "status.csv") in told
    assert "pairs of a query and a database video match" in benchmark.warnings[1]  # so few videos are near chance
    assert set(read_plan(store.path).sources) == set(NAMES)
    kept = read_statuses(store.path)
    assert kept["copies/broken"].status == "undecodable"
    assert "cannot be decoded" in kept["copies/broken"].reason  # as it was found out, not what came of it later
    assert (kept["copies/w0"].status, kept["copies/w0"].reason) == ("duplicate", "the same file as v0")
    assert "copies/broken: undecodable" not in caplog.text  # told once, with the folder
    again, _, _ = open_copies(settings_of(folder), "cpu")
    assert again == corpus


def test_open_copies_refuses_what_cannot_work(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=r"needs data\.videos=DIR"):
        open_copies(settings_of(None), "cpu")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="holds no video file"):
        open_copies(settings_of(empty), "cpu")
    (empty / "a.mp4").write_bytes(b"")
    with pytest.raises(DataError, match=r"none of its 1 videos can be decoded: a\.mp4 \(the file is empty"):
        open_copies(settings_of(empty), "cpu")
    shutil.copy(folder / "v1.mp4", empty / "b.mp4")
    with pytest.raises(DataError, match=r"1 usable video gives 1 for train.*at least 2.*a\.mp4"):
        open_copies(settings_of(empty), "cpu")
    with pytest.raises(DataError, match=r"holds no copies\.json"):
        open_copies(settings_of(None, data__features=str(empty)), "cpu")
    _, store, _ = open_copies(settings_of(folder), "cpu")
    with pytest.raises(ConfigError, match=r"was split by \[0\.4, 0\.3, 0\.3\]"):
        open_copies(settings_of(None, data__features=str(store.path), data__fractions=[0.6, 0.2, 0.2]), "cpu")


@pytest.mark.slow
def test_all_real_clips_are_used(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    _, store, benchmark = open_copies(settings_of(shared / "data" / "clips", data__fractions=[0.5, 0.2, 0.3]), "cpu")
    assert not any(status.failed for status in read_statuses(store.path).values())
    assert len(read_plan(store.path).sources) == 48
    assert all(store.has(video) for video in benchmark.video_ids)
