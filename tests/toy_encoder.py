"""A cheap frame encoder whose right values are known, and videos whose frames tell where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from muvr_train.features.encoders.base import FrameEncoder

EDGE = 4


def shrink_frames(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures of 4 x 4 pixels, taken from the middles of equal cells."""
    rows = (2 * np.arange(EDGE) + 1) * frames.shape[1] // (2 * EDGE)
    columns = (2 * np.arange(EDGE) + 1) * frames.shape[2] // (2 * EDGE)
    return np.ascontiguousarray(frames[:, rows][:, :, columns])


class Means(FrameEncoder):
    """Mean colours, of the picture and of its quarters."""

    streams = ("video", "fine")  # type: ignore[assignment]

    def __init__(self, scale: float = 1.0, batch_size: int = 32, device: str = "cpu") -> None:
        super().__init__("means", nn.Identity(), batch_size, device)
        self.preprocess = shrink_frames
        self.scale = scale

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        quarters = nn.functional.adaptive_avg_pool2d(x * 255 * self.scale, 2)
        return {"video": quarters.mean((2, 3))[:, None], "fine": quarters.flatten(2).transpose(1, 2)}

    def manifest(self) -> dict[str, Any]:
        return {"encoder": "means", "preprocessing": {"scale": self.scale}}


def write_grey(path: Path, values: list[int], size: int = 32) -> None:
    """An H.264 video of grey frames, 10 per second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h264", rate=10, options={"crf": "1"})
        stream.width, stream.height, stream.pix_fmt = size, size, "yuv420p"
        for value in values:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((size, size, 3), value, np.uint8))))
        container.mux(stream.encode())
