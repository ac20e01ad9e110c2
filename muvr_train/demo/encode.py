"""Frames to a real mp4 file (x264), written atomically."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from muvr_train.demo.spec import FPS, FRAME_SIZE

CODEC_OPTIONS = {"preset": "veryfast", "crf": "26", "g": "12"}


def write_video(path: Path, frames: Iterable[Image.Image]) -> None:
    """Encode RGB pictures of spec.FRAME_SIZE at spec.FPS frames per second; `path` appears only when it is whole."""
    import av

    part = path.with_name(f".{path.stem}.{os.getpid()}.part")
    try:
        with av.open(str(part), "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=FPS, options=CODEC_OPTIONS)
            stream.width, stream.height = FRAME_SIZE
            stream.pix_fmt = "yuv420p"
            stream.codec_context.thread_count = 1
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(frame), format="rgb24")))
            container.mux(stream.encode(None))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
