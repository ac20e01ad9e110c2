from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError
from muvr_train.features import sampling
from muvr_train.features.sampling import FrameSampler, fps, uniform


@pytest.mark.parametrize(
    ("n_frames", "count", "expected"),
    [
        (60, 4, [7, 22, 37, 52]),  # segments of 15 frames, centres at 7.5
        (10, 3, [1, 5, 8]),
        (16, 15, [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15]),
        (15, 15, list(range(15))),
        (8, 15, list(range(8))),
        (1, 15, [0]),
        (0, 15, []),
        (9, 1, [4]),
    ],
)
def test_uniform(n_frames: int, count: int, expected: list[int]) -> None:
    assert uniform(n_frames, count) == expected


@given(st.integers(0, 5000), st.integers(1, 300))
def test_uniform_takes_each_frame_once_and_is_symmetric_to_one_frame(n_frames: int, count: int) -> None:
    taken = uniform(n_frames, count)
    assert len(taken) == min(n_frames, count)
    assert sorted(set(taken)) == taken
    assert all(0 <= frame < n_frames for frame in taken)
    if taken:
        assert abs(taken[0] - (n_frames - 1 - taken[-1])) <= 1


def test_fps_on_a_steady_video() -> None:
    times = np.arange(75) / 25  # 3 s
    assert fps(times, 1) == [0, 25, 50]
    assert fps(times, 2) == [0, 12, 25, 37, 50, 62]
    assert fps(times + 100, 1) == [0, 25, 50]  # a first time stamp other than 0
    assert fps(times.astype(np.float32) + np.float32(7200), 1) == [0, 25, 50]  # as coarse as a reader keeps them


def test_fps_on_a_variable_frame_rate() -> None:
    times = np.concatenate([np.arange(60) / 30, 2 + np.arange(30) / 10])  # 30 fps for 2 s, then 10 fps for 3 s
    assert fps(times, 1) == [0, 30, 60, 70, 80]


def test_fps_faster_than_the_video_gives_each_frame_once() -> None:
    assert fps(np.arange(8) / 3, 4) == list(range(8))
    assert fps([0.0, 10.0], 1) == [0, 1]
    assert fps(np.arange(75) / 25, 25) == list(range(75))


def test_fps_short_and_empty() -> None:
    assert fps([0.0, 0.03, 0.07], 1) == [0]
    assert fps([], 1) == []


@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=60), st.floats(0.1, 60))
def test_fps_properties(gaps: list[float], rate: float) -> None:
    times = np.cumsum(gaps)
    taken = fps(times, rate)
    assert taken[0] == 0
    assert sorted(set(taken)) == taken
    assert len(taken) <= (times[-1] - times[0] + gaps[-1]) * rate + 1


@pytest.mark.parametrize("times", [[0.0, 1.0, 0.5], [0.0, float("nan")]])
def test_fps_refuses_time_stamps_that_make_no_sense(times: list[float]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        fps(times, 1)


def test_sampler() -> None:
    assert FrameSampler().manifest() == {"kind": "uniform", "frames": 15}
    assert FrameSampler(fps=1.0).manifest() == {"kind": "fps", "fps": 1.0}
    assert FrameSampler(2).select([0.0, 5.0, 5.1, 5.2]) == [1, 3]
    assert FrameSampler(fps=1.0).select([0.0, 5.0, 5.1, 5.2]) == [0, 1]
    for frames, rate in ((15, 1.0), (0, None), (None, 0.0), (None, float("inf")), (2.5, None)):
        with pytest.raises(ConfigError):
            FrameSampler(frames, rate)


@pytest.mark.parametrize("n_frames", [0, 1, 3, 14, 15, 16, 29, 30, 31, 100])
def test_muvr_official_is_a_stride_from_frame_0(n_frames: int) -> None:
    frames = list(range(n_frames))
    expected = frames[:: n_frames // 15][:15] if n_frames >= 15 else frames
    assert sampling.muvr_official(n_frames, 15) == expected


def test_kinds() -> None:
    times = np.arange(40) / 10
    assert FrameSampler(kind="all").select(times) == list(range(40))
    assert FrameSampler(4, kind="muvr_official").select(times) == [0, 10, 20, 30]
    assert FrameSampler(4).select(times) == [5, 15, 25, 35]
    assert FrameSampler(fps=1.0).select(times) == FrameSampler(fps=1.0, kind="fps").select(times) == [0, 10, 20, 30]
    assert FrameSampler().manifest() == {"kind": "uniform", "frames": 15}
    assert FrameSampler(kind="muvr_official").manifest() == {"kind": "muvr_official", "frames": 15}
    assert FrameSampler(kind="all").manifest() == {"kind": "all"}
    assert FrameSampler(fps=2).manifest() == {"kind": "fps", "fps": 2}
    with pytest.raises(ValueError, match="-1"):
        sampling.every(-1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "random"}, "sampling=random is not possible"),
        ({"kind": "fps"}, "needs fps=RATE"),
        ({"kind": "fps", "frames": 3}, "frames=3 and sampling=fps exclude"),
        ({"kind": "all", "frames": 3}, "frames=3 and sampling=all exclude"),
        ({"kind": "uniform", "fps": 1.0}, "fps=1.0 and sampling=uniform exclude"),
    ],
)
def test_kinds_that_contradict(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FrameSampler(**settings)  # type: ignore[arg-type]
