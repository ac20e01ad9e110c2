"""Video files to frames: decord reads only the frames that are needed, PyAV takes what decord cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.features.sampling import TIME_TOLERANCE, FrameSampler
from muvr_train.features.status import OK, SHORT

Frames = NDArray[np.uint8]
CHUNK = 32  # frames that lie in memory at full size at once


class DecodeError(DataError):
    """A video cannot be decoded; the message names the file and each reader's reason."""


@dataclass(frozen=True)
class DecodedFrames:
    """The sampled frames of one video.

    `frames` uint8 [T, H, W, 3] RGB, upright, in display order (or whatever `each` made of them); `indices` their
    places among the `found` frames of the file; `backend` "decord" or "pyav".
    """

    frames: Any
    indices: tuple[int, ...]
    found: int
    backend: str


@dataclass(frozen=True)
class DecodedVideo:
    """What became of a video whose frames were streamed."""

    status: str
    reason: str
    declared: int
    found: int
    indices: tuple[int, ...]
    times: tuple[float, ...]
    backend: str


def stream_frames(
    path: Path,
    sampler: FrameSampler,
    emit: Callable[[Frames], None],
    restart: Callable[[], None],
    beat: Callable[[], None] = lambda: None,
    backends: Sequence[str] = ("decord", "pyav"),
) -> DecodedVideo:
    """Decode the frames that `sampler` selects, chunk by chunk."""
    _check_file(path)
    reasons = []
    for name in backends:
        begun = False
        try:
            indices, found, chunks = _READERS[name](path, sampler, CHUNK)
            for frames in chunks:
                begun = True
                emit(frames)
                beat()
        except _ReaderError as error:
            reasons.append(f"{name}: {error}")
            if begun:
                restart()
            continue
        asked = sampler.frames or 0
        status, reason = (SHORT, f"{found} of {asked} frames") if found < asked else (OK, "")
        return DecodedVideo(status, reason, found, found, tuple(indices), tuple(map(float, indices)), name)
    raise DecodeError(f"{path}: cannot be decoded ({'; '.join(reasons)})")


def read_frames(
    path: Path, sampler: FrameSampler, each: Callable[[Frames], Any] | None = None, chunk: int = CHUNK
) -> DecodedFrames:
    """Decode the frames that `sampler` selects.

    Args:
        path: the video file.
        sampler: which frames.
        each: applied to every `chunk` frames uint8 [t, H, W, 3] as they decode, so that a long video never lies in
            memory at full size; its results (arrays or tensors [t, ...]) are concatenated into `frames`.
        chunk: see `each`.

    Raises:
        DecodeError: if no reader gives all of the selected frames: not a video, no video stream, damaged, cut off.
    """
    _check_file(path)
    reasons = []
    for name, read in (("decord", _read_decord), ("pyav", _read_pyav)):
        try:
            indices, found, chunks = read(path, sampler, chunk)
            parts = [frames if each is None else each(frames) for frames in chunks]
        except _ReaderError as error:
            reasons.append(f"{name}: {error}")
            continue
        return DecodedFrames(_concatenate(parts), tuple(indices), found, name)
    raise DecodeError(f"{path}: cannot be decoded ({'; '.join(reasons)})")


class _ReaderError(Exception):
    """One reader's reason to give up."""


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise DecodeError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise DecodeError(f"{path}: the file is empty (0 bytes)")
    if not os.access(path, os.R_OK):
        raise DecodeError(f"{path}: no permission to read the file")


def _concatenate(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


def _short(error: Exception) -> str:
    """The telling part of a reader's message: decord prefixes a time and a source file, and appends a stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return re.split(r"\(-?\d+ vs\. -?\d+\)", text)[-1].strip()[:200]


def _read_decord(path: Path, sampler: FrameSampler, chunk: int) -> tuple[list[int], int, Iterator[Frames]]:
    import decord

    decord.logging.set_level(decord.logging.QUIET)
    try:
        reader = decord.VideoReader(os.path.abspath(path), ctx=decord.cpu(0), num_threads=1)
        found = len(reader)
        if found and reader.get_frame_timestamp(0)[0] < -TIME_TOLERANCE:
            # an edit list hides the first frames; decord counts them, and its seeks then miss by as many frames
            raise _ReaderError("frames before time 0")
        times = reader.get_frame_timestamp(range(found))[:, 0] if sampler.needs_times else np.arange(float(found))
        indices = sampler.select(times)
    except (decord.DECORDError, RuntimeError, ValueError, IndexError, UnicodeError) as error:
        raise _ReaderError(_short(error)) from error
    if not indices:
        raise _ReaderError("no frames")
    return indices, found, _decord_chunks(reader, indices, chunk)


def _decord_chunks(reader: Any, indices: list[int], chunk: int) -> Iterator[Frames]:
    import decord

    for start in range(0, len(indices), chunk):
        part = indices[start : start + chunk]
        try:
            frames: Frames = reader.get_batch(part).asnumpy()
        except (decord.DECORDError, RuntimeError, IndexError) as error:
            raise _ReaderError(_short(error)) from error
        if frames.ndim != 4 or frames.shape[0] != len(part) or frames.shape[3] != 3:
            raise _ReaderError(f"asked for {len(part)} frames, got an array {frames.shape}")
        yield frames


def _read_pyav(path: Path, sampler: FrameSampler, chunk: int) -> tuple[list[int], int, Iterator[Frames]]:
    times = np.array([_seconds(frame, index) for index, frame in enumerate(_pyav_frames(path))])
    try:
        indices = sampler.select(times)
    except ValueError as error:
        raise _ReaderError(str(error)) from error
    if not indices:
        raise _ReaderError("no frames")
    return indices, len(times), _pyav_chunks(path, indices, chunk)


def _seconds(frame: Any, index: int) -> float:
    return float(index if frame.time is None else frame.time)


def _pyav_frames(path: Path) -> Iterator[Any]:
    """Every frame in display order, not yet converted to RGB; stops with a reason at the first damage."""
    import av

    count, declared = 0, 0
    try:
        with av.open(os.path.abspath(path)) as container:
            if not container.streams.video:
                raise _ReaderError("the file has no video stream")
            stream = container.streams.video[0]
            declared = stream.frames
            for frame in container.decode(stream):
                count += 1
                yield frame
    except (av.FFmpegError, ValueError, EOFError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or _short(error)
        promised = f" of {declared}" if declared else ""
        raise _ReaderError(f"{reason} (after {count}{promised} frames)" if count else str(reason)) from error


def _pyav_chunks(path: Path, indices: list[int], chunk: int) -> Iterator[Frames]:
    wanted, batch = set(indices), []
    for index, frame in enumerate(_pyav_frames(path)):
        if index not in wanted:
            continue
        # ndarray from the decoder is the stored picture; the display matrix says how many degrees counter-clockwise
        batch.append(np.rot90(frame.to_ndarray(format="rgb24"), k=round(frame.rotation / 90)))
        if len(batch) == chunk or index == indices[-1]:
            if len({picture.shape for picture in batch}) > 1:
                raise _ReaderError("the picture size changes inside the video")
            yield np.ascontiguousarray(np.stack(batch))
            batch = []
        if index == indices[-1]:
            return


_READERS = {"decord": _read_decord, "pyav": _read_pyav}
