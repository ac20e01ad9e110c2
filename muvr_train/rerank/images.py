"""Pixels as the data URIs that chat servers take, within bounds on their size."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muvr_train.errors import ConfigError
from muvr_train.rerank.types import AnswerError, Clip, Part, Picture, Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("jpeg", "png")
QUALITIES = (1.0, 0.85, 0.7, 0.55)
"""The steps by which JPEGs get smaller first, as shares of the quality that was asked for; then their sides shrink."""
SHRINK = 0.8
SMALLEST_SIDE = 64
"""No image is made smaller than this, in pixels of the longest side."""
LAST_STEP = 30


@dataclass(frozen=True)
class ImageSettings:
    """How images are sent.

    Attributes:
        image_format: "jpeg" or "png".
        image_quality: of JPEGs, 1 to 100.
        max_side: bound on the longest side in pixels; None: as it is.
        max_image_mb: bound on one image as it is sent (base64), in 10^6 bytes; None: no bound.
        max_request_mb: the same for all images and texts of a request.

    Raises:
        ConfigError: a value is impossible.
    """

    image_format: str = "jpeg"
    image_quality: int = 90
    max_side: int | None = 2048
    max_image_mb: float | None = 10.0
    max_request_mb: float | None = 45.0

    def __post_init__(self) -> None:
        if self.image_format not in FORMATS:
            raise ConfigError(f"answerer.image_format must be one of {', '.join(FORMATS)}, got {self.image_format!r}")
        if not isinstance(self.image_quality, int) or not 1 <= self.image_quality <= 100:
            raise ConfigError(f"answerer.image_quality must be a whole number from 1 to 100, got {self.image_quality}")
        for name in ("max_side", "max_image_mb", "max_request_mb"):
            value, kind = getattr(self, name), int if name == "max_side" else (int, float)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool) or not value > 0):
                number = "whole number" if kind is int else "number"
                raise ConfigError(f"answerer.{name} must be a {number} above 0, or null, got {value!r}")


@dataclass(frozen=True)
class EncodedImages:
    """Images that are ready to be sent.

    Attributes:
        uris: one data URI per image, in order.
        shrunk: how many are smaller or coarser than the settings ask for, to keep the bounds on bytes.
    """

    uris: tuple[str, ...]
    shrunk: int = 0


def flat_parts(parts: Sequence[Part], frame_times: bool = False) -> list[str | Pixels]:
    """Give texts and single images in the order in which they are shown.

    Args:
        parts: texts, images, frames of videos.
        frame_times: put a short text with its time before each frame of a clip that has times.

    Raises:
        AnswerError: a clip has not one time per frame.
    """
    flat: list[str | Pixels] = []
    for part in parts:
        if isinstance(part, Clip):
            if part.times and len(part.times) != len(part.frames):
                raise AnswerError(f"a clip has {len(part.frames)} frames, but {len(part.times)} times")
            for i, frame in enumerate(part.frames):
                if frame_times and part.times:
                    flat.append(f"[{part.times[i]:.1f} s]")
                flat.append(frame)
        else:
            flat.append(part.pixels if isinstance(part, Picture) else part)
    return flat


def encode_images(images: Sequence[Pixels], settings: ImageSettings, other_bytes: int = 0) -> EncodedImages:
    """Encode images as data URIs that keep the bounds; what does not fit gets coarser, then smaller, step by step.

    Each image first gets within its own bound. While the request is too large, all images go on by one step together,
    so that frames of one video stay alike. The same images and settings always give the same bytes. They are encoded
    one after another: beside images and URIs, the memory holds one copy.

    Args:
        images: uint8 [H, W, 3], RGB.
        settings: format and bounds.
        other_bytes: what else the request holds.

    Raises:
        AnswerError: the images do not fit, even when they are smallest.
    """
    steps = [0] * len(images)
    uris = [_uri(pixels, settings, 0) for pixels in images]
    image_bound, request_bound = _bytes(settings.max_image_mb), _bytes(settings.max_request_mb)

    def shrink(i: int, step: int, bound: str) -> None:
        if step > LAST_STEP:
            raise AnswerError(
                f"{len(images)} images do not fit into answerer.{bound}={getattr(settings, bound)}, even with "
                f"a longest side of {SMALLEST_SIDE} pixels: raise it, or ask with fewer frames"
            )
        steps[i], uris[i] = step, _uri(images[i], settings, step)

    for i in range(len(images)):
        while len(uris[i]) > image_bound:
            shrink(i, steps[i] + 1, "max_image_mb")
    least = 0
    while images and sum(map(len, uris)) + other_bytes > request_bound:
        least += 1
        for i in range(len(images)):
            if steps[i] < least:
                shrink(i, least, "max_request_mb")
    return EncodedImages(tuple(uris), sum(step > 0 for step in steps))


def _bytes(megabytes: float | None) -> float:
    return float("inf") if megabytes is None else megabytes * 1e6


def _picture(pixels: Pixels, max_side: int | None) -> Image:
    """Make an image whose longest side is `max_side` at most."""
    from PIL import Image

    if pixels.dtype.name != "uint8" or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise AnswerError(f"an image must be uint8 [height, width, 3], got {pixels.dtype} {list(pixels.shape)}")
    picture = Image.fromarray(pixels)
    return picture if max_side is None else _bounded(picture, max_side)


def _bounded(picture: Image, side: int) -> Image:
    from PIL.Image import Resampling

    longest = max(picture.size)
    if longest <= side:
        return picture
    width, height = (max(1, round(length * side / longest)) for length in picture.size)
    return picture.resize((width, height), Resampling.LANCZOS)


def _uri(pixels: Pixels, settings: ImageSettings, step: int) -> str:
    """Encode an image at one step of getting smaller; 0: as the settings say."""
    picture, buffer = _picture(pixels, settings.max_side), io.BytesIO()
    shares = QUALITIES if settings.image_format == "jpeg" else QUALITIES[:1]
    sides = max(0, step - len(shares) + 1)
    if sides:
        picture = _bounded(picture, max(SMALLEST_SIDE, round(max(picture.size) * SHRINK**sides)))
    if settings.image_format == "jpeg":  # colours at full size: a thin outline keeps its own
        quality = max(1, round(settings.image_quality * shares[min(step, len(shares) - 1)]))
        picture.save(buffer, "JPEG", quality=quality, subsampling=0)
    else:
        picture.save(buffer, "PNG")
    return f"data:image/{settings.image_format};base64,{base64.b64encode(buffer.getbuffer()).decode()}"
