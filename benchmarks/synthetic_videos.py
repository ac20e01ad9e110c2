"""Videos made on the spot: H.264 as x264 makes it by default (key frame every 250 frames or at a cut, B-frames)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.int16]
WIDTH, HEIGHT = 596, 336
GRAIN = 2.0  # standard deviation of the camera's noise, in grey levels
SPREAD = (0.3, 1.7)  # length of a shot, as a share of the mean


def write_video(
    path: Path, fps: int, seconds: int, shot: float | None, seed: int = 0, size: tuple[int, int] = (HEIGHT, WIDTH)
) -> None:
    """Write a video of camera moves over textures with three things that move in front of them.

    Args:
        path: an .mp4 file.
        fps: frames per second.
        seconds: how long.
        shot: mean seconds between two cuts; None: one shot.
        seed: of the pictures.
        size: height and width in pixels.
    """
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        for picture in _pictures(np.random.default_rng(seed), fps, seconds * fps, shot, size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


def repeat_video(source: Path, path: Path, times: int) -> None:
    """Write the packets of a video's only stream several times, one after the other; nothing is encoded."""
    with av.open(str(source)) as reader, av.open(str(path), "w") as writer:
        stream = reader.streams.video[0]
        copy = writer.add_stream_from_template(stream)
        packets = [packet for packet in reader.demux(stream) if packet.size]
        for turn in range(times):
            for packet in packets:
                new = av.Packet(bytes(packet))
                later = turn * (stream.duration or 0)
                new.pts, new.dts = (stamp if stamp is None else stamp + later for stamp in (packet.pts, packet.dts))
                new.time_base, new.is_keyframe, new.stream = packet.time_base, packet.is_keyframe, copy
                writer.mux(new)


def _pictures(
    rng: np.random.Generator, fps: int, count: int, shot: float | None, size: tuple[int, int]
) -> Iterator[NDArray[np.uint8]]:
    grain = rng.normal(0, GRAIN, (8, *size, 1)).round().astype(np.int16)
    left = count
    while left:
        length = left if shot is None else min(left, max(1, round(fps * shot * rng.uniform(*SPREAD))))
        for picture in _shot(rng, fps, length, size):
            yield np.clip(picture + grain[rng.integers(len(grain))], 0, 255).astype(np.uint8)
        left -= length


def _shot(rng: np.random.Generator, fps: int, length: int, size: tuple[int, int]) -> Iterator[Pictures]:
    """A window that swings over a canvas of twice its size, and things that bounce off its borders."""
    height, width = size
    canvas = _texture(rng, 2 * height, 2 * width)
    things = [_texture(rng, height // 4, width // 5) for _ in range(3)]
    starts, speeds = rng.uniform(0, 1, (3, 2)), rng.uniform(-0.15, 0.15, (3, 2))
    phase, swing = rng.uniform(0, 6, 2), rng.uniform(0.1, 0.5, 2)
    for second in np.arange(length) / fps:
        top, left = ((0.5 + 0.5 * np.sin(phase + swing * second)) * size).astype(int)
        picture = canvas[top : top + height, left : left + width].copy()
        for thing, start, speed in zip(things, starts, speeds, strict=True):
            room = np.subtract(size, thing.shape[:2])
            row, column = (np.abs((start + speed * second) % 2 - 1) * room).astype(int)
            picture[row : row + thing.shape[0], column : column + thing.shape[1]] = thing
        yield picture


def _texture(rng: np.random.Generator, height: int, width: int) -> Pictures:
    """Random colours whose spectrum falls as that of photographs does, int16 [height, width, 3] in 0 ... 255."""
    waves = np.fft.rfft2(rng.standard_normal((3, height, width)))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    values = np.fft.irfft2(waves / np.maximum(frequency, 1 / max(height, width)) ** 1.3, (height, width))
    values = 120 + 45 * (values - values.mean()) / values.std()
    pixels: NDArray[np.int16] = np.clip(values, 0, 255).astype(np.int16).transpose(1, 2, 0)
    return pixels
