"""Edits of pixels, as copies on the web carry them: pure functions on frames uint8 [T, H, W, 3], every parameter given.

Lengths and places are fractions of the picture, so that an edit means the same at every resolution. No edit gives back
a video without frames.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from muvr_train.errors import ConfigError
from muvr_train.features.sampling import uniform

Frames = NDArray[np.uint8]
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def crop(frames: Frames, top: float, left: float, height: float, width: float) -> Frames:
    """Cut out a rectangle, at least 1 x 1 pixel."""
    rows, columns = frames.shape[1:3]
    high, wide = max(1, round(height * rows)), max(1, round(width * columns))
    y, x = min(round(top * rows), rows - high), min(round(left * columns), columns - wide)
    return frames[:, y : y + high, x : x + wide]


def flip(frames: Frames) -> Frames:
    """Mirror left and right."""
    return frames[:, :, ::-1]


def colour(frames: Frames, brightness: float, contrast: float, saturation: float, warmth: float = 0.0) -> Frames:
    """Scale saturation (about each pixel's luma), contrast (about each frame's mean luma), then brightness.

    1 leaves each as it is; `warmth` in [-1, 1] makes red stronger and blue weaker.
    """
    x: NDArray[Any] = frames.astype(np.float32)
    grey = (x @ LUMA)[..., None]
    x = grey + saturation * (x - grey)
    mean = grey.mean(axis=(1, 2), keepdims=True)
    x = brightness * (mean + contrast * (x - mean))
    x *= np.array([1 + warmth, 1, 1 - warmth], dtype=np.float32)
    return np.asarray(x.round().clip(0, 255), dtype=np.uint8)


def blur(frames: Frames, radius: float) -> Frames:
    """Gaussian blur; `radius` is a fraction of the short side."""
    pixels = radius * min(frames.shape[1:3])
    return _each(frames, lambda picture: picture.filter(ImageFilter.GaussianBlur(pixels)))


def compress(frames: Frames, quality: int) -> Frames:
    """Code every frame as JPEG of this quality (1 to 95) and decode it."""

    def code(picture: Image.Image) -> Image.Image:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality)
        return Image.open(file).convert("RGB")

    return _each(frames, code)


def text_bar(frames: Frames, text: str, top: float, height: float, ink: Sequence[int], paper: Sequence[int]) -> Frames:
    """Put a bar with a line of text across all frames."""
    rows, columns = frames.shape[1:3]
    high = max(1, round(height * rows))
    y = min(round(top * rows), rows - high)
    out = frames.copy()
    out[:, y : y + high] = np.array(text_picture(text, columns, high, ink, paper))
    return out


def logo(
    frames: Frames, sides: int, left: float, top: float, size: float, ink: Sequence[int], paper: Sequence[int]
) -> Frames:
    """Put a filled polygon on a disc over all frames; `size` is a fraction of the short side."""
    rows, columns = frames.shape[1:3]
    edge = max(2, round(size * min(rows, columns)))
    stamp = Image.new("RGBA", (edge, edge), (0, 0, 0, 0))
    draw = ImageDraw.Draw(stamp)
    draw.ellipse((0, 0, edge - 1, edge - 1), fill=_rgb(paper))
    draw.regular_polygon((edge / 2, edge / 2, 0.4 * edge), sides, fill=_rgb(ink))
    place = (round(left * columns), round(top * rows))

    def stamped(picture: Image.Image) -> Image.Image:
        picture.paste(stamp, place, stamp)
        return picture

    return _each(frames, stamped)


def inset(frames: Frames, host: Frames, scale: float, left: float, top: float) -> Frames:
    """Shrink the video into the frames of another one.

    Args:
        frames: the video.
        host: what it is shown in, uint8 [T', H', W', 3]; stretched in time to T.
        scale: edges of the inset as a share of the host's.
        left: 0 puts the inset at the left edge, 1 at the right.
        top: 0 puts it at the upper edge, 1 at the lower.
    """
    rows, columns = host.shape[1:3]
    high, wide = max(1, round(scale * rows)), max(1, round(scale * columns))
    y, x = round(top * (rows - high)), round(left * (columns - wide))
    out: Frames = host[np.arange(len(frames)) * len(host) // len(frames)]
    out[:, y : y + high, x : x + wide] = _each(frames, lambda picture: picture.resize((wide, high), _SMOOTH))
    return out


def pad(frames: Frames, scale: float, blur: float) -> Frames:
    """Shrink the video onto a blurred, darker copy of itself, as portrait uploads are."""
    soft = _each(frames, lambda picture: picture.filter(ImageFilter.GaussianBlur(blur * min(picture.size))))
    return inset(frames, soft // 2, scale, 0.5, 0.5)


def speed(frames: Frames, factor: float) -> Frames:
    """Play faster (factor > 1 leaves frames out) or slower (factor < 1 repeats them)."""
    count = max(1, round(len(frames) / factor))
    chosen: Frames = frames[np.minimum((np.arange(count) * factor).astype(int), len(frames) - 1)]
    return chosen


def shuffle(frames: Frames, pieces: int, order: Sequence[int]) -> Frames:
    """Cut into so many pieces and show those that `order` names, in its order; pieces without frames are left out."""
    parts = np.array_split(frames, pieces)
    chosen = [parts[number] for number in order if len(parts[number])]
    return np.concatenate(chosen) if chosen else frames


EDITS: dict[str, Callable[..., Frames]] = {
    edit.__name__: edit for edit in (crop, flip, colour, blur, compress, text_bar, logo, inset, pad, speed, shuffle)
}
"""The edits that a recipe may name."""


def apply_edit(frames: Frames, name: str, **settings: Any) -> Frames:
    """Apply the edit of that name to frames uint8 [T, H, W, 3].

    Raises:
        ConfigError: there is no such edit.
    """
    if name not in EDITS:
        raise ConfigError(f"there is no edit {name!r}; known: {', '.join(EDITS)}")
    return EDITS[name](frames, **settings)


def take(frames: Frames, start: float, stop: float, count: int) -> Frames:
    """Take at most `count` frames, evenly and each once, from the part (start, stop) of a video; at least one."""
    first = min(int(start * len(frames)), len(frames) - 1)
    part = frames[first : max(first + 1, round(stop * len(frames)))]
    return part[uniform(len(part), count)]


def text_picture(text: str, width: int, height: int, ink: Sequence[int], paper: Sequence[int]) -> Image.Image:
    """Draw one line of text, scaled to fill a picture of width x height pixels."""
    font = ImageFont.load_default()
    left, top, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), text, font=font)
    line = Image.new("RGB", (int(right - left) + 8, int(bottom - top) + 4), _rgb(paper))
    ImageDraw.Draw(line).text((4 - left, 2 - top), text, fill=_rgb(ink), font=font)
    return line.resize((width, height), _SMOOTH)


def title_card(name: str, count: int, height: int = 144, width: int = 256) -> Frames:
    """Draw `count` equal frames of a title card; the name alone decides what it looks like."""
    rng = np.random.default_rng(list(name.encode()))
    paper, ink = (rng.integers(0, 256, 3).tolist() for _ in range(2))
    card = Image.new("RGB", (width, height), _rgb(paper))
    draw = ImageDraw.Draw(card)
    for _ in range(4):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        shape = (x, y, float(rng.uniform(0.1, 0.3)) * height)
        draw.regular_polygon(shape, int(rng.integers(3, 9)), fill=_rgb(rng.integers(0, 256, 3).tolist()))
    letters = "".join(chr(65 + int(letter)) for letter in rng.integers(0, 26, 8))
    card.paste(text_picture(letters, width // 2, height // 4, ink, paper), (width // 4, height // 3))
    return np.repeat(np.array(card)[None], count, axis=0)


_SMOOTH = Image.Resampling.BILINEAR


def _rgb(values: Sequence[int]) -> tuple[int, int, int]:
    red, green, blue = values
    return int(red), int(green), int(blue)


def _each(frames: Frames, change: Callable[[Image.Image], Image.Image]) -> Frames:
    return np.stack([np.asarray(change(Image.fromarray(frame))) for frame in np.ascontiguousarray(frames)])
