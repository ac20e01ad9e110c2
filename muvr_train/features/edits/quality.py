"""Edits of quality: blur, noise, resolution, compression."""

from __future__ import annotations

import io

import av
import numpy as np
from PIL import Image, ImageFilter
from torchvision.transforms.v2 import functional as tv

from muvr_train.features.edits.arrays import Frames, each_picture, through_tensor


def blur(frames: Frames, radius: float) -> Frames:
    """Gaussian blur; `radius` is a fraction of the short side. Pillow's, as torchvision's takes ten times as long."""
    pixels = radius * min(frames.shape[1:3])
    return each_picture(frames, lambda picture: picture.filter(ImageFilter.GaussianBlur(pixels)))


def motion_blur(frames: Frames, across: float, down: float) -> Frames:
    """Average over boxes; half their width and height are fractions of the short side. One of them 0: a motion."""
    short = min(frames.shape[1:3])
    pixels = (across * short, down * short)
    return each_picture(frames, lambda picture: picture.filter(ImageFilter.BoxBlur(pixels)))


def sharpen(frames: Frames, factor: float) -> Frames:
    """Sharpen; 1 is as it was, 2 much sharper."""
    return through_tensor(frames, lambda x: tv.adjust_sharpness(x, factor))


def noise(frames: Frames, sigma: float, seed: int) -> Frames:
    """Add Gaussian noise of this standard deviation (in grey levels of 255): one drawn field, shifted every frame."""
    rng = np.random.default_rng(seed)
    rows, columns = frames.shape[1:3]
    field = rng.normal(0.0, sigma, (rows, columns, 3)).round().astype(np.int16)
    out = np.empty_like(frames, order="C")
    for frame, made in zip(frames, out, strict=True):
        shift = (int(rng.integers(rows)), int(rng.integers(columns)))
        np.clip(frame + np.roll(field, shift, (0, 1)), 0, 255, out=made, casting="unsafe")
    return out


def low_resolution(frames: Frames, scale: float) -> Frames:
    """Scale down and up again, as from a small upload."""
    rows, columns = frames.shape[1:3]
    size = [max(1, round(scale * rows)), max(1, round(scale * columns))]
    return through_tensor(frames, lambda x: tv.resize(tv.resize(x, size, antialias=True), [rows, columns]))


def compress(frames: Frames, quality: int) -> Frames:
    """Code every frame as JPEG of this quality (1 to 95) and decode it."""

    def code(picture: Image.Image) -> Image.Image:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality)
        return Image.open(file).convert("RGB")

    return each_picture(frames, code)


def h264(frames: Frames, crf: int) -> Frames:
    """Code the frames as H.264 video at this rate factor (0 to 51, the worst) and decode it."""
    rows, columns = frames.shape[1:3]
    lacking = [(0, max(16, size + size % 2) - size) for size in (rows, columns)]
    even = np.pad(frames, [(0, 0), *lacking, (0, 0)], mode="edge")
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as made:
        stream = made.add_stream("libx264", rate=6, options={"preset": "ultrafast", "crf": str(crf)})
        stream.height, stream.width, stream.pix_fmt = even.shape[1], even.shape[2], "yuv420p"
        stream.thread_count = 1
        for picture in even:
            made.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture))))
        made.mux(stream.encode())
    file.seek(0)
    with av.open(file, "r") as coded:
        decoded = np.stack([frame.to_ndarray(format="rgb24") for frame in coded.decode(video=0)])
    return np.ascontiguousarray(decoded[:, :rows, :columns])
