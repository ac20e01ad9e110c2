"""Decoding of real and odd files (../shared/data), against a plain full decode."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from muvr_train.features import decode
from muvr_train.features.decode import BACKENDS, DecodeError, read_frames, stream_frames
from muvr_train.features.sampling import FrameSampler

ALL = FrameSampler(100_000)
ROTATED = ("video_0.mov", "video_90.mov", "video_180.mov", "video_270.mov")

# name -> (frames found, height, width, reader in processes that decode), or why the file must be refused
EXPECTED = {
    "-video-with-dash-.mp4": (5, 1, 1, "pyav"),
    "animated.gif": (16, 90, 160, "pyav"),
    "audio_only.mp4": "no video stream",
    "av1_video.mkv": (125, 360, 640, "pyav"),
    "bt709_full_range.mp4": (30, 720, 1280, "pyav"),
    "corrupted.mp4": (29, 720, 1280, "pyav"),
    "empty_file.mp4": "empty",
    "failing_audio.mp4": (280, 360, 640, "pyav"),
    "five_frames.mp4": (5, 720, 1280, "pyav"),
    "h265_10bits.mp4": (30, 200, 200, "pyav"),
    "lfs_pointer.mp4": "Invalid data",
    "mmtracking_demo.mp4": (8, 1080, 1920, "pyav"),
    "naïve name – 猫.mp4": (59, 91, 161, "pyav"),
    "no_duration.webm": (74, 720, 1280, "pyav"),
    "truncated_60pct.mp4": (53, 480, 480, "pyav"),
    "unordered.mov": (4, 50, 50, "pyav"),
    "variable_frame_rate.mp4": (150, 180, 320, "pyav"),
    "very_short_1s.mp4": (32, 256, 340, "pyav"),
    "video_0.mov": (3, 320, 568, "pyav"),
    "video_90.mov": (3, 568, 320, "pyav"),
    "video_180.mov": (3, 320, 568, "pyav"),
    "video_270.mov": (3, 568, 320, "pyav"),
}


@pytest.fixture(scope="module")
def odd(shared: Path) -> Path:
    return shared / "data" / "odd_videos"


@pytest.fixture
def write_video(tmp_path: Path) -> Callable[..., Path]:
    """A small H.264 file whose frame i is grey with value 8 * i."""

    def write(name: str, n_frames: int = 20, rate: int = 10, size: tuple[int, int] = (64, 48)) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("h264", rate=rate, options={"crf": "1"})
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            for index in range(n_frames):
                picture = np.full((size[1], size[0], 3), 8 * index, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode())
        return path

    return write


def plain(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_every_odd_file_is_expected(odd: Path) -> None:
    with (odd / "odd_videos.csv").open(newline="") as file:
        assert {row["name"] for row in csv.DictReader(file)} == set(EXPECTED)


@pytest.mark.parametrize("name", list(EXPECTED))
def test_odd_files(odd: Path, name: str) -> None:
    expected = EXPECTED[name]
    if isinstance(expected, str):
        with pytest.raises(DecodeError, match=expected) as error:
            read_frames(odd / name, FrameSampler())
        assert str(odd / name) in str(error.value)
        return
    found, height, width, _ = expected
    decoded = read_frames(odd / name, FrameSampler())
    assert (decoded.found, decoded.backend) == (found, "pyav")
    assert decoded.frames.shape == (min(found, 15), height, width, 3)
    assert decoded.frames.dtype == np.uint8
    assert len(set(decoded.indices)) == len(decoded.indices)


@pytest.mark.parametrize(
    ("name", "rate", "indices"),
    [
        ("variable_frame_rate.mp4", 1.0, (0, 30, 60, 70, 80, 90, 100, 110, 120, 130, 140, 149)),
        ("very_short_1s.mp4", 1.0, (0, 30)),
        ("mmtracking_demo.mp4", 4.0, tuple(range(8))),
        ("five_frames.mp4", 1.0, (0,)),
        ("no_duration.webm", 1.0, (0, 15, 30, 45, 60)),
    ],
)
def test_frames_per_second(odd: Path, name: str, rate: float, indices: tuple[int, ...]) -> None:
    decoded = read_frames(odd / name, FrameSampler(fps=rate))
    assert np.abs(np.subtract(decoded.indices, indices)).max() <= 1
    assert len(decoded.frames) == len(indices)


@pytest.mark.parametrize(
    "name", ["naïve name – 猫.mp4", "unordered.mov", "variable_frame_rate.mp4", "very_short_1s.mp4"]
)
def test_sampled_frames_equal_a_full_decode(odd: Path, name: str) -> None:
    decoded = read_frames(odd / name, FrameSampler(7))
    everything = plain(odd / name)
    assert decoded.found == len(everything)
    for index, frame in zip(decoded.indices, decoded.frames, strict=True):
        np.testing.assert_array_equal(frame, everything[index])


def test_hidden_first_frames_are_not_counted(shared: Path) -> None:
    """This clip's edit list hides four frames; decord counts them, and its seeks miss by four."""
    path = shared / "data" / "clips" / "animated_squirrel.mp4"
    given: list[np.ndarray] = []
    made = stream_frames(path, FrameSampler(5), given.append, given.clear)
    everything = plain(path)
    assert (made.found, made.backend) == (131, "pyav")
    for index, frame in zip(made.indices, np.concatenate(given), strict=True):
        np.testing.assert_array_equal(frame, everything[index])


@pytest.mark.parametrize("name", ROTATED)
def test_both_readers_rotate_alike(odd: Path, name: str) -> None:
    pictures = []
    for backend in BACKENDS:
        given: list[np.ndarray] = []
        assert stream_frames(odd / name, ALL, given.append, given.clear, backends=[backend]).backend == backend
        pictures.append(np.concatenate(given))
    np.testing.assert_array_equal(*pictures)


def test_the_right_frames_in_order(write_video: Callable[..., Path]) -> None:
    decoded = read_frames(write_video("plain.mp4"), FrameSampler(4))
    assert decoded.indices == (2, 7, 12, 17)
    means = decoded.frames.mean(axis=(1, 2, 3))
    np.testing.assert_allclose(means, [16, 56, 96, 136], atol=3)


@pytest.mark.parametrize("name", ["-dash.mp4", "UPPER.MP4", "ünï – 猫.mkv", "a=b,[c] {d} %s.mov", "sub dir/-x.MKV"])
def test_names(write_video: Callable[..., Path], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_video(name)
    monkeypatch.chdir(tmp_path)
    assert read_frames(Path(name), FrameSampler(3)).frames.shape == (3, 48, 64, 3)


def test_frames_are_handed_on_in_chunks(write_video: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, sizes = write_video("chunks.mp4"), []

    def each(frames: np.ndarray) -> np.ndarray:
        sizes.append(len(frames))
        return frames[:, :1, :1]

    monkeypatch.setattr(decode, "CHUNK", 4)
    decoded = read_frames(path, FrameSampler(15), each)
    assert sizes == [4, 4, 4, 3]
    np.testing.assert_array_equal(decoded.frames, read_frames(path, FrameSampler(15)).frames[:, :1, :1])


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.8, 0.95, 0.99])
def test_a_cut_file_is_refused_or_right(write_video: Callable[..., Path], tmp_path: Path, keep: float) -> None:
    whole = write_video("whole.mkv", n_frames=30)
    reference = plain(whole)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * keep)])
    try:
        decoded = read_frames(cut, FrameSampler())
    except DecodeError:
        return
    # the cut may take frames out of the middle (they are stored out of order): all that comes is real and in order
    places = [next(i for i, kept in enumerate(reference) if np.array_equal(kept, frame)) for frame in decoded.frames]
    assert sorted(set(places)) == places


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="no such file"):
        read_frames(tmp_path / "nothing.mp4", FrameSampler())


DECORD_FAILS = ("av1_video.mkv", "no_duration.webm", "animated.gif")  # asked first: PyAV skips no pictures of these
SHORT = ("-video-with-dash-.mp4", "five_frames.mp4", "mmtracking_demo.mp4", "unordered.mov")
STATUS = dict.fromkeys(("corrupted.mp4", "truncated_60pct.mp4"), "truncated") | dict.fromkeys(SHORT + ROTATED, "short")


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if not isinstance(expected, str)])
def test_status_counts_and_times(odd: Path, name: str) -> None:
    given: list[np.ndarray] = []
    made = stream_frames(odd / name, FrameSampler(15), given.append, given.clear)
    assert made.status == STATUS.get(name, "ok")
    assert (made.found, made.backend) == (EXPECTED[name][0], EXPECTED[name][3])
    assert (made.reason == "") == (made.status == "ok" and name not in DECORD_FAILS)
    assert sum(map(len, given)) == len(made.indices) == len(made.times) == min(15, made.found)
    assert list(made.times) == sorted(set(made.times))
    assert made.declared == 0 or (made.declared > made.found) == (made.status == "truncated")


def test_both_counts_of_a_cut_file(tmp_path: Path) -> None:
    whole, cut, rng = tmp_path / "whole.mp4", tmp_path / "cut.mp4", np.random.default_rng(0)
    with av.open(str(whole), "w", options={"movflags": "faststart"}) as container:  # the index stands before the frames
        stream = container.add_stream("h264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(30):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(rng.integers(0, 255, (48, 64, 3), np.uint8))))
        container.mux(stream.encode())
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.7)])
    given: list[np.ndarray] = []
    made = stream_frames(cut, FrameSampler(5), given.append, given.clear)
    assert (made.status, made.declared, len(made.indices)) == ("truncated", 30, 5)
    assert 10 < made.found < 25
    assert f"{made.found} of 30 frames decode" in made.reason
    everything = plain(whole)
    for index, frame in zip(made.indices, np.concatenate(given), strict=True):
        np.testing.assert_array_equal(frame, everything[index])


@pytest.mark.parametrize(
    ("codec", "suffix"), [("libvpx", "webm"), ("libvpx-vp9", "webm"), ("libsvtav1", "mkv"), ("libx265", "mp4")]
)
def test_codecs(tmp_path: Path, codec: str, suffix: str) -> None:
    path = tmp_path / f"{codec}.{suffix}"
    try:
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=10)
            stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
            for index in range(12):
                picture = np.full((96, 128, 3), 20 * index, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode())
    except (av.FFmpegError, ValueError) as error:
        pytest.skip(f"PyAV here has no encoder {codec} ({error})")
    given: list[np.ndarray] = []
    made = stream_frames(path, FrameSampler(4), given.append, given.clear)
    assert (made.status, made.found, made.indices) == ("ok", 12, (1, 4, 7, 10))
    np.testing.assert_allclose(np.concatenate(given).mean((1, 2, 3)), [20, 80, 140, 200], atol=4)


@pytest.mark.parametrize(("count", "status"), [(1, "short"), (3, "short"), (4, "ok")])
def test_one_and_three_frames(write_video: Callable[..., Path], count: int, status: str) -> None:
    given: list[np.ndarray] = []
    made = stream_frames(write_video("few.mp4", n_frames=count), FrameSampler(4), given.append, given.clear)
    assert (made.status, made.found, made.indices) == (status, count, tuple(range(count)))
    assert sum(map(len, given)) == count


def test_large_pictures_come_in_small_chunks(write_video: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video("large.mp4")
    monkeypatch.setattr(decode, "CHUNK_BYTES", 3 * 48 * 64 * 2)
    sizes: list[int] = []
    beats: list[int] = []
    stream_frames(path, FrameSampler(7), lambda frames: sizes.append(len(frames)), sizes.clear, lambda: beats.append(1))
    assert sizes == [2, 2, 2, 1]
    assert beats
