"""Decoding of the needed groups of pictures alone gives exactly the frames of a full decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import av
import numpy as np
import pytest

from muvr_train.features.decode import BACKENDS, stream_frames
from muvr_train.features.probe import ReaderError, probe_video
from muvr_train.features.read_groups import needed_packets, read
from muvr_train.features.sampling import FrameSampler

N_FRAMES = 90
KEYS = {"g": "24"}
X264 = {"crf": "30", "preset": "fast"}
STREAMS = {
    "closed groups": ("libx264", "mp4", X264 | {"x264-params": "keyint=24:bframes=3:b-pyramid=normal"}),
    "open groups": ("libx264", "mkv", X264 | {"x264-params": "keyint=24:open-gop=1:bframes=3:scenecut=0"}),
    "open groups in mp4": ("libx264", "mp4", X264 | {"x264-params": "keyint=24:open-gop=1:bframes=3:scenecut=0"}),
    "no key but the first": ("libx264", "mp4", X264 | {"x264-params": "keyint=infinite:scenecut=0"}),
    "interlaced": ("libx264", "ts", X264 | {"x264-params": "keyint=24:tff=1"}),
    "yuv444": ("libx264", "mp4", X264 | {"x264-params": "keyint=24", "profile": "high444"}),
    "HEVC, open groups": ("libx265", "mp4", {"crf": "30", "x265-params": "keyint=24:open-gop=1:log-level=none"}),
    "AV1": ("libsvtav1", "mkv", {"crf": "50", "preset": "10", **KEYS}),
    "VP8": ("libvpx", "webm", {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k", **KEYS}),
    "VP9": ("libvpx-vp9", "webm", {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k", "cpu-used": "8", **KEYS}),
    "MPEG-4, B frames": ("mpeg4", "mp4", {"bf": "2", **KEYS}),
    "MPEG-2, open groups": ("mpeg2video", "ts", {"bf": "2", **KEYS}),
}

LEFT = {  # to a decode of the whole file
    "intra refresh": ("libx264", "mkv", X264 | {"x264-params": "keyint=24:intra-refresh=1"}),
    "B frames in AVI": ("libx264", "avi", X264 | {"x264-params": "keyint=24:bframes=3"}),
}
KNOWN = STREAMS | LEFT


def write(path: Path, codec: str, options: dict[str, str], rate: int = 24) -> None:
    """A bright square that moves over noise."""
    noise = np.random.default_rng(0).integers(0, 60, (96, 128 + N_FRAMES, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.width, stream.height = 128, 96
        stream.pix_fmt = "yuv444p" if "profile" in options else "yuv420p"
        stream.codec_context.thread_count = 1
        for index in range(N_FRAMES):
            picture = noise[:, index : index + 128].copy()
            picture[30:60, index : index + 30] = 2 * index + 60
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("groups")

    def make(name: str) -> Path:
        codec, suffix, options = KNOWN[name]
        path = folder / f"{name}.{suffix}"
        if not path.exists():
            try:
                write(path, codec, options)
            except (av.FFmpegError, ValueError) as error:
                pytest.skip(f"PyAV here has no encoder {codec} ({error})")
        return path

    return make


def everything(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


SAMPLERS = (FrameSampler(1), FrameSampler(4), FrameSampler(13), FrameSampler(fps=5), FrameSampler(kind="all"))


@pytest.mark.parametrize("name", list(STREAMS))
def test_equal_to_a_full_decode(encoded: Callable[[str], Path], name: str) -> None:
    path = encoded(name)
    probe = probe_video(path, lambda: None)
    right = everything(path)
    assert len(right) == len(probe.shown) == N_FRAMES
    for sampler in SAMPLERS:
        given: list[np.ndarray] = []
        indices = read(path, sampler, probe, given.append, 8, lambda: None)
        assert max(map(len, given)) <= 8
        np.testing.assert_array_equal(np.concatenate(given), [right[index] for index in indices])


@pytest.mark.parametrize("backends", [BACKENDS, BACKENDS[1:]], ids="+".join)
@pytest.mark.parametrize("name", list(KNOWN))
def test_every_stream_is_read_rightly(encoded: Callable[[str], Path], name: str, backends: Sequence[str]) -> None:
    """decord alone gives wrong frames of half of these without an error."""
    path = encoded(name)
    right = everything(path)
    for sampler in SAMPLERS:
        given: list[np.ndarray] = []
        made = stream_frames(path, sampler, given.append, given.clear, backends=backends)
        assert (made.status, made.found) == ("ok", N_FRAMES)
        assert list(made.times) == sorted(set(made.times))
        np.testing.assert_array_equal(np.concatenate(given), [right[index] for index in made.indices])


@pytest.mark.parametrize("name", list(LEFT))
def test_left_to_a_full_decode(encoded: Callable[[str], Path], name: str) -> None:
    path = encoded(name)
    with pytest.raises(ReaderError):
        read(path, FrameSampler(13), probe_video(path, lambda: None), print, 8, lambda: None)


def test_needed_packets_of_a_group_and_of_leading_pictures() -> None:
    times = np.array([0.0, 3, 1, 2, 6, 4, 5, 7, 10, 8, 9])
    keys = np.isin(times, [0, 6, 10])
    needed = lambda *seconds: times[needed_packets(times, keys, np.isin(times, seconds))].tolist()  # noqa: E731
    assert needed(7) == [6, 4, 5, 7]
    assert needed(0) == [0]
    assert needed(10) == [10]
    assert needed(9) == [6, 4, 5, 7, 10, 8, 9]  # leads the third group
    assert needed(1, 10) == [0, 3, 1, 10]
    assert needed() == []


def test_a_stream_without_key_frames_begins_at_its_beginning() -> None:
    times = np.arange(4.0)
    assert needed_packets(times, np.zeros(4, bool), times == 2).tolist() == [True, True, True, False]


def test_damage_is_left_to_a_full_decode(encoded: Callable[[str], Path], tmp_path: Path) -> None:
    whole = encoded("no key but the first").read_bytes()
    start = whole.index(b"mdat")
    path = tmp_path / "damaged.mp4"
    path.write_bytes(whole[: start + 6000] + bytes(2000) + whole[start + 8000 :])
    probe = probe_video(path, lambda: None)
    with pytest.raises(ReaderError):
        read(path, FrameSampler(4), probe, print, 8, lambda: None)


def test_an_edit_list_that_cuts_is_no_damage(encoded: Callable[[str], Path], tmp_path: Path) -> None:
    """As telephones do it: the file keeps the frames that were cut away, the header counts them."""
    data = bytearray(encoded("closed groups").read_bytes())
    place = data.index(b"elst") + 12
    length = int.from_bytes(data[place : place + 4], "big")
    data[place : place + 4] = (length // 2).to_bytes(4, "big")
    path = tmp_path / "cut away.mp4"
    path.write_bytes(data)
    right = everything(path)
    assert len(right) == N_FRAMES // 2
    for backends in (BACKENDS, BACKENDS[1:]):
        given: list[np.ndarray] = []
        made = stream_frames(path, FrameSampler(5), given.append, given.clear, backends=backends)
        assert (made.status, made.declared, made.found) == ("ok", N_FRAMES // 2, N_FRAMES // 2)
        np.testing.assert_array_equal(np.concatenate(given), [right[index] for index in made.indices])


def test_codecs_whose_key_frames_are_none_are_not_asked(shared: Path) -> None:
    path = shared / "data" / "odd_videos" / "animated.gif"
    with pytest.raises(ReaderError, match="gif"):
        read(path, FrameSampler(4), probe_video(path, lambda: None), print, 8, lambda: None)
