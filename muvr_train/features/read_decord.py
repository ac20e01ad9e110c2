"""Frames by decord, which decodes only what is needed. It is trusted with sound files alone.

decord gives repeated, broken or wrong pictures without an error: on damaged files, on sound ones with open groups of
pictures (the habit of x265 and of MPEG-4 and MPEG-2 with B frames), and on transport streams and AVI. So it is asked
only where the packets are sound (`Probe.is_plain`) and the format is one that it reads rightly, and in processes that
decode (`watch_errors`) its FFmpeg must report no error meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import decord
import numpy as np
from numpy.typing import NDArray

from muvr_train.features.probe import Probe, ReaderError
from muvr_train.features.sampling import FrameSampler

Frames = NDArray[np.uint8]
PIECE = 4  # frames that are asked for at once, between two signs of life
CONTAINERS = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
HARMLESS = ("[swscaler",)
_ERRORS = (decord.DECORDError, RuntimeError, ValueError, IndexError, UnicodeError)


class _Watch:
    """Where standard error goes while decord works: a file in memory, or nowhere else (-1)."""

    file = -1


def watch_errors() -> None:
    """From now on catch what decord's FFmpeg writes to standard error; only for processes that do nothing else.

    What Python writes there (warnings) still arrives.
    """
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    _Watch.file = os.memfd_create("decord")


def read(
    path: Path,
    sampler: FrameSampler,
    probe: Probe,
    emit: Callable[[Frames], None],
    chunk: int,
    beat: Callable[[], None],
) -> list[int]:
    """Decode the frames that the sampler selects; gives their indices in display order.

    Raises:
        ReaderError: decord cannot, or must not be trusted with this file.
    """
    if not probe.is_plain or (len(probe.times) and probe.times.min() < 0):
        raise ReaderError(f"not asked: {probe.fault or 'frames are hidden, or have no times of their own'}")
    if probe.has_leading:
        raise ReaderError("not asked: it misses frames of open groups of pictures")
    if probe.container not in CONTAINERS:
        raise ReaderError(f"not asked: it misses frames of {probe.container}")
    with _watched():
        try:
            reader = decord.VideoReader(os.path.abspath(path), ctx=decord.cpu(0), num_threads=1)
            found = len(reader)
        except _ERRORS as error:
            raise ReaderError(_short(error)) from error
        if found != len(probe.times):
            raise ReaderError(f"counts {found} frames instead of {len(probe.times)}")
        beat()
        indices = sampler.select(probe.shown)
        pending: list[Frames] = []
        for start in range(0, len(indices), min(PIECE, chunk)):
            pending.append(_take(reader, indices[start : start + min(PIECE, chunk)]))
            beat()
            if sum(map(len, pending)) >= chunk:
                emit(np.concatenate(pending))
                pending = []
        if pending:
            emit(np.concatenate(pending))
    return indices


def _take(reader: Any, indices: list[int]) -> Frames:
    try:
        frames: Frames = reader.get_batch(indices).asnumpy()
    except _ERRORS as error:
        raise ReaderError(_short(error)) from error
    if frames.ndim != 4 or frames.shape[0] != len(indices) or frames.shape[3] != 3:
        raise ReaderError(f"asked for {len(indices)} frames, got an array {frames.shape}")
    return frames


@contextmanager
def _watched() -> Iterator[None]:
    """Silence decord's FFmpeg, or where it is watched, turn its errors into one of ours."""
    if _Watch.file < 0:
        decord.logging.set_level(decord.logging.QUIET)
        yield
        return
    decord.logging.set_level(decord.logging.INFO)  # that pictures are mended it tells as information
    os.ftruncate(_Watch.file, 0)
    os.lseek(_Watch.file, 0, os.SEEK_SET)
    kept = os.dup(2)
    os.dup2(_Watch.file, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    text = os.pread(_Watch.file, 4000, 0).decode(errors="replace")
    said = [line for line in text.splitlines() if line.strip() and not line.startswith(HARMLESS)]
    if said:
        raise ReaderError(f"reports {re.sub(r'^.*?@ .*?] *', '', said[0])[:100]}")


def _short(error: Exception) -> str:
    """The telling part of decord's message: it prefixes a time and a source file, and appends a stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    text = re.sub(r"^\[[\d:]+\] \S+:\d+: (\[.*?\] )?", "", text)
    return re.split(r"\(-?\d+ vs\. -?\d+\)", text)[-1].strip()[:200]
