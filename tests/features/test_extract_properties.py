"""The same features whatever the batches, workers, processes and kills; equal to a slow twin."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
import pytest

from muvr_train.features.encoders.timm_encoder import TimmEncoder
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.index import INDEX
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import read_statuses
from muvr_train.features.store import FeatureStore
from muvr_train.training.extraction import extract_folder
from tests.reference.extraction import slow_features

ROOT = Path(__file__).parents[2]
FRAMES = 5
SIZES = ((64, 48), (96, 64), (50, 70))  # width, height
ENCODER = ("encoder=timm", "encoder.architecture=test_resnet", "encoder.pretrained=false", "encoder.size=48")


def write_noise(path: Path, frames: int, size: tuple[int, int], seed: int) -> None:
    """A video of coarse, moving noise: every frame is another one."""
    width, height = size
    rng = np.random.default_rng(seed)
    pattern = rng.integers(0, 256, (height // 2, width // 2, 3), dtype=np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "20", "g": "5", "bf": "2"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            picture = np.roll(pattern, 2 * number, axis=1) // 2 + 60 * (number % 3)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture.astype(np.uint8), format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 videos of 1 to 37 frames."""
    folder = tmp_path_factory.mktemp("videos")
    for number in range(13):
        write_noise(folder / f"part{number % 2}" / f"v{number:02d}.mp4", 1 + 3 * number, SIZES[number % 3], number)
    return folder


def small(batch_size: int = 32) -> TimmEncoder:
    return TimmEncoder("test_resnet", False, size=48, batch_size=batch_size)


@pytest.fixture(scope="module")
def expected(videos: Path) -> dict[str, np.ndarray]:
    encoder = small()
    files = sorted(videos.glob("*/*.mp4"))
    return {f"{file.parent.name}/{file.stem}": slow_features(file, encoder, FRAMES) for file in files}


def check(store: Path, expected: dict[str, np.ndarray]) -> None:
    """Exactly the right ids, each once, with the right values, and a status for each."""
    opened = FeatureStore(store)
    assert sorted(opened.ids()) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(opened.array(name), values, rtol=1e-5, atol=1e-5, err_msg=name)
    statuses = read_statuses(store)
    assert sorted(statuses) == sorted(expected)
    assert {name: status.used for name, status in statuses.items()} == {name: len(x) for name, x in expected.items()}
    assert not [entry.name for entry in store.iterdir() if entry.name.endswith(".tmp") or entry.name == ".parts"]


def test_the_twin_tells_frames_apart(expected: dict[str, np.ndarray]) -> None:
    values = expected["part0/v12"][:, 0]
    apart = np.abs(values[:, None] - values[None]).max(axis=-1)[~np.eye(len(values), dtype=bool)]
    assert apart.min() > 1e-3  # a hundred times the tolerance


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (7, 3), (64, 2)])
def test_same_features_whatever_the_batches_and_workers(
    videos: Path, tmp_path: Path, expected: dict[str, np.ndarray], batch_size: int, workers: int
) -> None:
    settings = ExtractSettings(dtype="float32", workers=workers, progress=False)
    report = extract_folder(videos, small(batch_size), tmp_path / "store", FrameSampler(FRAMES), settings)
    assert report is not None
    assert report.ok
    check(tmp_path / "store", expected)


def command(videos: Path, out: Path, *more: str) -> list[str]:
    program = [sys.executable, "-m", "muvr_train.extract", *ENCODER]
    return [*program, f"videos={videos}", f"out={out}", f"frames={FRAMES}", "dtype=float32", "device=cpu", *more]


def small_steps(videos: Path, out: Path, devices: int) -> list[str]:
    """A command that saves after every video."""
    return command(videos, out, f"devices={devices}", "workers=1", "save_every=0", "shard_mib=0.01")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(arguments: Sequence[str]) -> str:
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def begin(arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own."""
    with log.open("w") as output:
        return subprocess.Popen(
            arguments, env=environment(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "count"), [(2, 13), (3, 13), (3, 2)])
def test_several_processes_make_the_same_store(
    videos: Path, tmp_path: Path, expected: dict[str, np.ndarray], devices: int, count: int
) -> None:
    """Numbers that do not divide, and more processes than videos."""
    names = sorted(expected)[:count]
    for name in names:
        (tmp_path / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(videos / f"{name}.mp4", tmp_path / "videos" / f"{name}.mp4")
    shown = run(command(tmp_path / "videos", tmp_path / "store", f"devices={devices}", "workers=1"))
    assert shown.count(f"extracted     {count} (") == 1
    check(tmp_path / "store", {name: expected[name] for name in names})


@pytest.fixture(scope="module")
def copies(
    videos: Path, expected: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, np.ndarray]]:
    """The videos, eight times over, and their features."""
    folder, features = tmp_path_factory.mktemp("copies"), {}
    for copy in range(8):
        shutil.copytree(videos, folder / f"c{copy}", copy_function=os.link)
    for copy in range(8):
        for name, values in expected.items():
            features[f"c{copy}/{name}"] = values
    return folder, features


def interrupted(arguments: Sequence[str], out: Path, after: int, log: Path) -> bool:
    """Run until `after` shards are there, then kill everything at once; whether it was still running."""
    process = begin(arguments, log)
    while stored(out) < after:
        try:
            assert process.wait(0.005) == 0, log.read_text()[-3000:]
        except subprocess.TimeoutExpired:
            continue
        return False
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def stored(out: Path) -> int:
    """How many shards there are, in the store and in the parts of other processes."""
    return len(list(out.glob("video-*.safetensors"))) + len(list(out.glob(".parts/*/video-*.safetensors")))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_killed_at_random_points_and_resumed_the_store_has_no_hole_and_nothing_twice(
    copies: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, devices: int
) -> None:
    folder, expected = copies
    out = tmp_path / "store"
    arguments = small_steps(folder, out, devices)
    points = sorted(np.random.default_rng(devices).integers(1, len(expected), 4 - devices))
    kills = [interrupted(arguments, out, int(point), tmp_path / "log") for point in points]
    assert any(kills)
    held = FeatureStore(out).ids()
    assert len(held) == len(set(held))
    run(arguments)
    check(out, expected)


def saved(out: Path) -> int:
    """How many videos the store and the parts have; a killed process may leave a shard that none of them lists."""
    folders = [out, *out.glob(".parts/*")]
    return sum(len(FeatureStore(folder).ids()) for folder in folders if (folder / INDEX).exists())


def command_line(process: int) -> bytes:
    """Empty where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_where_one_process_dies_the_others_end_with_a_message_and_what_was_made_is_kept(
    copies: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, victim: int
) -> None:
    folder, expected = copies
    out, log = tmp_path / "store", tmp_path / "log"
    arguments = small_steps(folder, out, devices=2)
    first = begin(arguments, log)
    while not (len(list(out.glob(".parts/*/video-*.safetensors"))) > 2 and stored(out) > 6):
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert first.wait(0.005) is None, log.read_text()[-3000:]
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    (second,) = [int(child) for child in children if b"muvr_train.extract" in command_line(int(child))]
    os.kill(second if victim else first.pid, signal.SIGKILL)
    assert first.wait(60) != 0
    deadline = time.monotonic() + 60
    while command_line(second):
        assert time.monotonic() < deadline, "the other process goes on"
        time.sleep(0.05)
    shown = log.read_text()
    assert "terminated with code -9" in shown or "What was extracted is kept; run the same command again" in shown
    kept = saved(out)
    assert kept >= 5
    shown = run(arguments)
    assert int(shown.split("already there")[1].split()[0]) >= kept
    check(out, expected)
