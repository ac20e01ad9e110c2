"""Frames to batches across videos, and features back to videos."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor

from muvr_train.features.batches import FeatureCollector, Finished, FrameBatch, batch_frames
from muvr_train.features.events import Done, Event, FrameChunk, Void
from muvr_train.features.status import VideoStatus


def chunk(job: int, first: int, count: int, stream: str = "video") -> FrameChunk:
    """Frames whose pixels are all first, first + 1, ..."""
    values = np.arange(first, first + count, dtype=np.uint8)
    return FrameChunk(job, stream, np.broadcast_to(values[:, None, None, None], (count, 4, 6, 3)).copy())


def done(job: int, status: str = "ok") -> Done:
    return Done(job, VideoStatus(str(job), f"{job}.mp4", status))


def encode(frames: Tensor) -> dict[str, Tensor]:
    x = frames.float()
    return {"video": x.mean((2, 3))[:, None], "fine": x.flatten(2).transpose(1, 2)[:, :4]}


def run(events: Iterable[Event], size: int, dtype: str = "float32", scale: float = 1.0) -> list[Finished]:
    collector, found = FeatureCollector(dtype), []
    for batch in batch_frames(events, size):
        features = {} if batch.frames is None else encode(batch.frames)
        found += collector.take(batch, {name: scale * values for name, values in features.items()})
    return found


EVENTS: list[Event] = [
    *(chunk(0, 0, 5), chunk(0, 5, 2), done(0)),
    *(done(1, "undecodable"),),
    *(chunk(2, 90, 3), Void(2), chunk(2, 20, 4), done(2)),
    *(chunk(3, 30, 1), chunk(3, 40, 2, "view1"), chunk(3, 31, 1), done(3)),
    *(chunk(4, 99, 2), Void(4), done(4, "timeout")),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 100])
def test_videos_are_put_together_again_whatever_the_batch_size(size: int) -> None:
    batches = list(batch_frames(EVENTS, size))
    sizes = [0 if batch.frames is None else len(batch.frames) for batch in batches]
    assert sum(sizes) == 7 + 3 + 4 + 4 + 2
    assert all(count == size for count in sizes[:-1])
    found = run(EVENTS, size)
    assert [one.status.id for one in found] == ["0", "1", "2", "3", "4"]
    assert found[0].features["video"][:, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert found[0].features["fine"].shape == (7, 4, 3)
    assert found[1].features == {}
    assert found[2].features["video"][:, 0, 0].tolist() == [20, 21, 22, 23], "what was void is not there"
    assert found[3].features["video"][:, 0, 0].tolist() == [30, 31]
    assert found[3].features["view1"][:, 0, 0].tolist() == [40, 41]
    assert sorted(found[3].features) == ["fine", "video", "view1"]
    assert found[4].features == {}


def test_frames_lie_channels_last() -> None:
    (batch,) = batch_frames([chunk(0, 1, 2), done(0)], 8)
    assert isinstance(batch, FrameBatch)
    assert batch.frames is not None
    assert batch.frames.shape == (2, 3, 4, 6)
    assert batch.frames.dtype == torch.uint8
    assert batch.frames.is_contiguous(memory_format=torch.channels_last)


def test_nothing() -> None:
    assert list(batch_frames([], 4)) == []
    (batch,) = batch_frames([done(0, "timeout")], 4)
    assert batch.frames is None


@pytest.mark.parametrize(
    ("dtype", "scale", "reason"),
    [("float16", 1e5, "beyond the range of float16 (stream video)"), ("float32", float("nan"), "not finite")],
)
def test_features_that_cannot_be_stored_are_failures_of_their_video_alone(
    dtype: str, scale: float, reason: str
) -> None:
    events: list[Event] = [chunk(0, 200, 2), done(0)]
    (found,) = run(events, 4, dtype, scale)
    assert found.status.status == "undecodable"
    assert reason in found.status.reason
    assert found.features == {}
    both = run([chunk(0, 0, 1), done(0), chunk(1, 200, 1), done(1)], 4, "float16", 1e5)
    assert [one.status.failed for one in both] == [False, True]


def test_features_are_kept_in_the_dtype_of_the_store() -> None:
    (found,) = run([chunk(0, 3, 2), done(0)], 4, "bfloat16")
    assert found.features["video"].dtype == torch.bfloat16
