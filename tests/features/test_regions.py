"""Region features: hand-worked averages, the same geometry as the frames', real videos with masks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.pixels import FitFrames, PillowFrames
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.manifest import make_manifest
from muvr_train.features.mask_frames import MaskSampler
from muvr_train.features.masked import add_regions, check_maps, read_regions
from muvr_train.features.masks import Mask
from muvr_train.features.regions import pool_inside, shares_inside
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from tests.features.test_masks import save

SIZE, CELL = 32, 8  # the input of the network and a cell of its map, in pixels
QUIET = ExtractSettings(workers=1, progress=False)


class Colours(FrameEncoder):
    """The mean colour of each cell, 0 to 255."""

    def __init__(self, preprocess: Callable[..., Any] | None = None) -> None:
        super().__init__("colours", torch.nn.Identity(), 2)
        self.preprocess = preprocess or FitFrames(SIZE, "squash", 1.0, "bilinear")

    streams = ("video",)

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        return {"video": x.mean(dim=(2, 3))[:, None]}

    def compute_maps(self, x: Tensor, stream: str) -> Tensor:
        return torch.nn.functional.avg_pool2d(x, CELL).permute(0, 2, 3, 1) * 255

    def manifest(self) -> dict[str, Any]:
        return {"encoder": self.name}


def box(rows: slice, columns: slice, size: tuple[int, int] = (SIZE, SIZE)) -> np.ndarray:
    mask = np.zeros(size, bool)
    mask[rows, columns] = True
    return mask


def shares(mask: np.ndarray, preprocess: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
    preprocess = preprocess or FitFrames(SIZE, "squash", 1.0, "bilinear")
    pictures = [np.repeat(values[None, :, :, None], 3, axis=3) for values in (mask, mask * 0, mask * 0 + 1)]
    return shares_inside(*(preprocess((picture * 255).astype(np.uint8)) for picture in pictures))[0]


def test_hand_worked_averages() -> None:
    maps = np.random.default_rng(0).standard_normal((6, 4, 4, 3)).astype(np.float32)
    masks = [
        box(slice(8, 16), slice(16, 24)),  # exactly cell (1, 2)
        box(slice(0, 8), slice(4, 12)),  # half of (0, 0), half of (0, 1)
        box(slice(0, 8), slice(0, 10)),  # all of (0, 0), a quarter of (0, 1)
        box(slice(20, 21), slice(20, 21)),  # one pixel
        box(slice(0, 0), slice(0, 0)),  # nothing
        box(slice(0, 32), slice(0, 32)),  # everything
    ]
    found, used = pool_inside(maps, np.stack(masks).astype(np.float32))
    assert used == [0, 1, 2, 3, 5]
    assert found.dtype == np.float32
    assert np.array_equal(found[0, 0], maps[0, 1, 2])
    assert np.array_equal(found[3, 0], maps[3, 2, 2])
    assert np.allclose(found[1, 0], (maps[1, 0, 0] + maps[1, 0, 1]) / 2, atol=1e-6)
    assert np.allclose(found[2, 0], 0.8 * maps[2, 0, 0] + 0.2 * maps[2, 0, 1], atol=1e-6)
    assert np.allclose(found[4, 0], maps[5].mean(axis=(0, 1)), atol=1e-6)


def test_no_frame_with_anything_inside() -> None:
    found, used = pool_inside(np.ones((2, 4, 4, 3), np.float32), np.zeros((2, 32, 32), np.float32))
    assert (found.shape, used) == ((0, 1, 3), [])


def test_masks_go_the_way_of_the_frames() -> None:
    wide = box(slice(0, 64), slice(64, 96), (64, 128))  # the right half of the centre
    assert np.array_equal(shares(wide, FitFrames(SIZE, "crop", 1.0, "bilinear")), box(slice(0, 32), slice(16, 32)))
    assert np.array_equal(shares(wide), box(slice(0, 32), slice(16, 24)))
    outside = box(slice(0, 64), slice(0, 30), (64, 128))
    assert not shares(outside, FitFrames(SIZE, "crop", 1.0, "bicubic")).any()
    padded = PillowFrames((SIZE, SIZE), "longest", "bilinear", fill=114)
    assert np.array_equal(shares(np.ones((64, 128), bool), padded), box(slice(8, 24), slice(0, 32)))


def test_edges_are_sharp_and_thin_masks_do_not_vanish() -> None:
    large = box(slice(32, 64), slice(64, 96), (128, 128))  # four times the input: cell (1, 2)
    for interpolation in ("bilinear", "bicubic"):
        found = shares(large, FitFrames(SIZE, "squash", 1.0, interpolation))
        assert np.array_equal(found, box(slice(8, 16), slice(16, 24)))
    dot = box(slice(50, 51), slice(50, 51), (128, 128))
    found = shares(dot)
    assert 0 < found.max() < 0.5
    assert found.argmax() == 12 * SIZE + 12


def masks_of(*places: int | float | None) -> tuple[Mask, ...]:
    return tuple(
        Mask(
            f"m{place}", place if isinstance(place, int) else None, place if isinstance(place, float) else None, Path()
        )
        for place in places
    )


@pytest.mark.parametrize(
    ("sampler", "places", "expected"),
    [
        (FrameSampler(3), (7, 2, 5), [2, 5, 7]),
        (FrameSampler(2), (1, 2, 3, 9), [2, 9]),  # the centres of two equal parts of four
        (FrameSampler(2), (1, 40), [1]),  # 40 is beyond the end
        (FrameSampler(3), (None,), [1, 5, 8]),  # all ten: as without masks
        (FrameSampler(15), (0.25, 0.99), [2, 9]),  # what is shown then
        (FrameSampler(15), (0.25, 1.2), [2]),
        (FrameSampler(fps=5), (0, 1, 2, 3), [0, 2]),
    ],
)
def test_the_sampler_chooses_among_masked_frames(
    sampler: FrameSampler, places: tuple[Any, ...], expected: list[int]
) -> None:
    masked = MaskSampler(base=sampler, masks=masks_of(*places))
    assert masked.select(np.arange(10) / 10) == expected
    assert set(expected) <= masked.at.keys()


def test_masks_that_fit_no_frame_or_one_frame_twice() -> None:
    with pytest.raises(DataError, match="no mask is for one of its 10 frames; the first is m10"):
        MaskSampler(masks=masks_of(10, 12)).select(np.arange(10) / 10)
    with pytest.raises(DataError, match=r"two masks for frame 2: m2 and m0\.25"):
        MaskSampler(masks=masks_of(2, 0.25)).select(np.arange(10) / 10)


def write_video(path: Path, frames: int = 12, height: int = 64, width: int = 128) -> Path:
    """Frame i: the left half of brightness 40 + 10 i, the right half of 200 - 10 i."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
        stream = file.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.options = width, height, "yuv420p", {"crf": "1"}
        for number in range(frames):
            picture = np.full((height, width, 3), 40 + 10 * (number % 16), np.uint8)
            picture[:, width // 2 :] = 200 - 10 * (number % 16)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    return path


def extract(
    tmp_path: Path, masks: Mapping[str, Path], videos: Mapping[str, Path | str], sampler: FrameSampler | None = None
) -> tuple[int, dict[str, Any], Path]:
    out = tmp_path / "store"
    encoder = Colours()
    with StoreWriter(out, make_manifest("colours"), "float32") as writer:
        new, statuses = add_regions(writer, encoder, masks, videos, sampler or FrameSampler(15), QUIET)
    return new, {status.id: status for status in statuses}, out


def test_regions_of_a_video(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4")
    left, right = box(slice(0, 64), slice(0, 64), (64, 128)), box(slice(0, 64), slice(64, 128), (64, 128))
    save(tmp_path / "m" / "q1" / "2.png", left)
    save(tmp_path / "m" / "q1" / "7.png", right)
    save(tmp_path / "m" / "q1" / "9.png", left & right)  # nothing
    save(tmp_path / "m" / "q2.png", right)
    save(tmp_path / "m" / "ü" / "0.4s.png", right[::2, ::2])
    masks = {"q1": tmp_path / "m" / "q1", "q2": tmp_path / "m" / "q2.png", "ü": tmp_path / "m" / "ü"}
    new, statuses, out = extract(tmp_path, masks, dict.fromkeys(masks, video), FrameSampler(3))
    store = FeatureStore(out)
    assert new == 3
    assert store.array("q1", "region")[:, 0, 0] == pytest.approx([60, 130], abs=3)
    assert store.array("q2", "region")[:, 0, 1] == pytest.approx([180, 140, 100], abs=3)  # frames 2, 6, 10
    assert store.array("ü", "region")[:, 0, 2] == pytest.approx([160], abs=3)
    assert [(status.status, status.frames, status.used) for status in statuses.values()] == [
        ("partial", 3, 2),
        ("ok", 3, 3),
        ("ok", 1, 1),
    ]
    assert statuses["q1"].reason == "1 of 3 frames have nothing inside the mask that the encoder sees"
    assert read_regions(out) == statuses
    again, same, _ = extract(tmp_path, masks, dict.fromkeys(masks, video), FrameSampler(3))
    assert (again, same) == (0, statuses)


def test_what_fails_is_named_and_tried_again(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4")
    good = box(slice(0, 64), slice(0, 64), (64, 128))
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    files = {"turned": good.T, "late": good, "empty": good & False, "broken": good, "nowhere": good}
    for name, mask in files.items():
        save(tmp_path / "m" / name / ("99.png" if name == "late" else "1.png"), mask)
    (tmp_path / "m" / "json.json").write_text(json.dumps({"1": {"size": [64, 128], "counts": [1]}}))
    masks = {name: tmp_path / "m" / name for name in files} | {"json": tmp_path / "m" / "json.json"}
    videos: dict[str, Path | str] = dict.fromkeys(masks, video)
    videos |= {"broken": tmp_path / "broken.mp4", "nowhere": "no file of video v7"}
    new, statuses, out = extract(tmp_path, masks, videos)
    assert new == 0
    assert {status.status for status in statuses.values()} == {"failed"}
    reasons = {name: status.reason for name, status in statuses.items()}
    assert "1.png: the mask is 64 x 128 pixels, the frame 128 x 64" in reasons["turned"]
    assert reasons["late"] == f"no mask is for one of its 12 frames; the first is {tmp_path / 'm' / 'late' / '99.png'}"
    assert reasons["empty"] == "1 of 1 frames have nothing inside the mask that the encoder sees"
    assert "cannot be decoded" in reasons["broken"]
    assert reasons["nowhere"] == "no file of video v7"
    assert "json.json (frame 1): 'counts' give 1 pixels" in reasons["json"]
    save(tmp_path / "m" / "turned" / "1.png", good)
    new, statuses, _ = extract(tmp_path, masks, videos)
    assert (new, statuses["turned"].status, len(FeatureStore(out).ids("region"))) == (1, "ok", 1)


def test_a_video_that_is_cut_off(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", 60)
    video.write_bytes(video.read_bytes()[:-400])
    save(tmp_path / "q.png", np.ones((64, 128), bool))
    _, statuses, out = extract(tmp_path, {"q": tmp_path / "q.png"}, {"q": video}, FrameSampler(3))
    assert (statuses["q"].status, statuses["q"].used) == ("partial", 3)
    assert "broken ones are not counted" in statuses["q"].reason
    assert FeatureStore(out).length("q", "region") == 3


def test_masks_beyond_the_end_are_counted(tmp_path: Path) -> None:
    for number in (1, 50, 51):
        save(tmp_path / "q" / f"{number}.png", np.ones((64, 128), bool))
    _, statuses, _ = extract(tmp_path, {"q": tmp_path / "q"}, {"q": write_video(tmp_path / "a.mp4")})
    assert (statuses["q"].status, statuses["q"].used) == ("partial", 1)
    assert statuses["q"].reason == "2 of 3 masks are for frames that it does not have"


def test_changed_masks_are_refused(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4")
    save(tmp_path / "q.png", np.ones((64, 128), bool))
    extract(tmp_path, {"q": tmp_path / "q.png"}, {"q": video})
    save(tmp_path / "q.png", np.random.default_rng(0).random((64, 128)) < 0.5)
    with pytest.raises(DataError, match="regions of other masks than those of today for 1 queries: q"):
        extract(tmp_path, {"q": tmp_path / "q.png"}, {"q": video})


def test_encoders_that_cannot(tmp_path: Path) -> None:
    class Blind(Colours):
        compute_maps = FrameEncoder.compute_maps

    class Taken(Colours):
        streams = ("video", "region")

    with pytest.raises(ConfigError, match="gives no maps"):
        check_maps(Blind())
    with pytest.raises(ConfigError, match=r"encoder\.streams\.region"):
        check_maps(Taken())
    check_maps(Colours())
