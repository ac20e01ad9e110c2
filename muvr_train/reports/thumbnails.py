"""Small pictures for a page, as data URIs: strips of video frames, and similarity maps."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.reports.content import Map, Pictures

HEIGHT = 90  # pixels of a frame in a strip
WIDEST = 160
QUALITY = 68
LARGEST_MAP = 160  # frames; longer videos are thinned
WORKERS = 2
T = TypeVar("T", bound=Hashable)
R = TypeVar("R")


@dataclass(frozen=True)
class Thumbnails:
    """Strips of frames by id, and what became of the others.

    Attributes:
        images: Data URIs.
        broken: Why a video could not be decoded.
        left_out: Videos there was no time or room for.
        absent: Videos without a file.
    """

    images: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


def make_thumbnails(ids: Sequence[str], pictures: Pictures, seconds: float, most_bytes: int) -> Thumbnails:
    """Make a strip of frames of each video, as far as time and room go.

    A decoder that hangs costs no more than `seconds`: its thread is left behind.

    Args:
        ids: of queries and database videos, the most important first.
        pictures: gives their frames; a `DataError` counts as a broken video, any other fault is raised.
        seconds: for all.
        most_bytes: of all data URIs.
    """

    def make(name: str) -> bytes | None:
        frames = pictures(name)
        return None if frames is None else strip(frames)

    done = in_time(ids, make, seconds)
    return _sorted_out(list(dict.fromkeys(ids)), done, most_bytes)


def in_time(todo: Iterable[T], make: Callable[[T], R], seconds: float) -> dict[T, R | Exception]:
    """What `make` gives of each, or raises, as far as `seconds` go; a thread that hangs is left behind."""
    waiting = deque(dict.fromkeys(todo))
    done: dict[T, R | Exception] = {}
    stop = time.monotonic() + seconds

    def work() -> None:
        while waiting and time.monotonic() < stop:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                done[item] = make(item)
            except Exception as fault:  # noqa: BLE001 (judged in the thread of the caller)
                done[item] = fault

    threads = [threading.Thread(target=work, name="pictures", daemon=True) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, stop - time.monotonic()))
    return dict(done)


def _sorted_out(ids: Sequence[str], done: Mapping[str, bytes | Exception | None], most_bytes: int) -> Thumbnails:
    images: dict[str, str] = {}
    broken: dict[str, str] = {}
    left_out, absent, size = set(), set(), 0
    for name in ids:
        result = done.get(name, b"")
        if isinstance(result, DataError):
            broken[name] = str(result)
        elif isinstance(result, Exception):
            raise result
        elif result is None:
            absent.add(name)
        elif not result or size + 4 * len(result) // 3 > most_bytes:
            left_out.add(name)
        else:
            images[name] = data_uri("image/jpeg", result)
            size += len(images[name])
    return Thumbnails(images, broken, frozenset(left_out), frozenset(absent))


def strip(frames: Iterable[NDArray[np.uint8]]) -> bytes:
    """Frames uint8 [H, W, 3] side by side, each `HEIGHT` pixels high, as a JPEG file."""
    from PIL import Image

    pieces = []
    for frame in frames:
        height, width = frame.shape[:2]
        size = (min(max(1, round(width * HEIGHT / height)), WIDEST), HEIGHT)
        pieces.append(np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR)))
    file = io.BytesIO()
    Image.fromarray(np.concatenate(pieces, axis=1)).save(file, "JPEG", quality=QUALITY, optimize=True)
    return file.getvalue()


def heat_map(values: Map, low: float, high: float) -> str:
    """A similarity map [T1, T2] as a PNG of one pixel per pair of frames; blue to red where `low` is negative."""
    from matplotlib import colormaps
    from PIL import Image

    scaled = (_thinned(values) - low) / max(high - low, 1e-12)
    pixels: Any = colormaps["RdBu_r" if low < 0 else "viridis"](np.clip(scaled, 0.0, 1.0), bytes=True)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[..., :3])).save(file, "PNG")
    return data_uri("image/png", file.getvalue())


def _thinned(values: Map) -> Map:
    rows, columns = (-(-size // LARGEST_MAP) for size in values.shape)
    return values[::rows, ::columns]


def data_uri(kind: str, content: bytes) -> str:
    """A file as a `data:` address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
