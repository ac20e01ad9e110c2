"""Video files to frames: decord or, where it is faster, PyAV decodes what is needed; PyAV takes what decord cannot.

Only frames that decode are sampled, and none is given twice. A file that is cut off or damaged gives its sound frames
and says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError
from muvr_train.features.probe import Probe, ReaderError, probe_video
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import OK, SHORT, TRUNCATED

Frames = NDArray[np.uint8]
BACKENDS = ("decord", "pyav")
CHUNK = 32  # frames that lie in memory at full size at once,
CHUNK_BYTES = 64 * 2**20  # unless they are larger than this together


class DecodeError(DataError):
    """A video cannot be decoded; the message names the file and each reader's reason."""


@dataclass(frozen=True)
class DecodedVideo:
    """What became of a video whose frames were streamed.

    Attributes:
        status: "ok"; "short" (fewer frames than were asked for); "truncated" (cut off or damaged).
        reason: why it is not ok, or why decord did not read it.
        declared: frames that the header promises to show, 0 where it does not say.
        found: frames that decode. decord decodes only the chosen ones: there it is what the packets say.
        indices: places of the chosen frames among those found, in display order.
        times: seconds at which they are shown.
        backend: "decord" or "pyav".
    """

    status: str
    reason: str
    declared: int
    found: int
    indices: tuple[int, ...]
    times: tuple[float, ...]
    backend: str


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


def stream_frames(
    path: Path,
    sampler: FrameSampler,
    emit: Callable[[Frames], None],
    restart: Callable[[], None],
    beat: Callable[[], None] = lambda: None,
    backends: Sequence[str] = BACKENDS,
) -> DecodedVideo:
    """Decode the frames that `sampler` selects and give them chunk by chunk; memory does not grow with the video.

    Args:
        path: the video file.
        sampler: which frames.
        emit: takes the next frames uint8 [t, H, W, 3] RGB, upright, in display order.
        restart: says that the frames so far are void, since a reader gave up half-way and another one begins.
        beat: called about once a second, so that nobody takes a long video for a hanging one.
        backends: readers that may be tried, in this order.

    Raises:
        DecodeError: no frame decodes.
    """
    _check_file(path)
    try:
        probe = probe_video(path, beat)
    except ReaderError as error:
        raise DecodeError(f"{path}: cannot be decoded ({error})") from error
    stream = _Stream(emit, restart)
    reasons = []
    for name in _order(backends, probe):
        try:
            made = _READERS[name](path, sampler, probe, stream, beat)
        except ReaderError as error:
            stream.void()
            reasons.append(f"{name}: {error}")
            continue
        if made.status == TRUNCATED or not reasons:
            return made
        return _because(made, reasons)
    raise DecodeError(f"{path}: cannot be decoded ({'; '.join(reasons)})")


def read_frames(
    path: Path,
    sampler: FrameSampler,
    each: Callable[[Frames], Any] | None = None,
    beat: Callable[[], None] = lambda: None,
) -> DecodedFrames:
    """Decode the frames that `sampler` selects, by PyAV alone: decord is only watched in processes that decode.

    Args:
        path: the video file.
        sampler: which frames.
        each: applied to chunks of frames uint8 [t, H, W, 3] as they decode, so that a long video never lies in memory
            at full size; its results (arrays or tensors [t, ...]) are concatenated into `frames`.
        beat: see `stream_frames`.

    Raises:
        DecodeError: no frame decodes.
    """
    parts: list[Any] = []
    made = stream_frames(
        path,
        sampler,
        lambda frames: parts.append(frames if each is None else each(frames)),
        parts.clear,
        beat,
        BACKENDS[1:],
    )
    return DecodedFrames(_concatenate(parts), made.indices, made.found, made.backend)


def _order(backends: Sequence[str], probe: Probe) -> Sequence[str]:
    """Without decord where PyAV passes over pictures that nothing refers to: 1.4 to 1.8 times as fast, and as exact."""
    from muvr_train.features.read_groups import SKIPPING

    return [name for name in backends if name != "decord" or probe.codec not in SKIPPING] or backends


class _Stream:
    """Knows whether anything was given that would have to be taken back."""

    def __init__(self, emit: Callable[[Frames], None], restart: Callable[[], None]) -> None:
        self._emit, self._restart = emit, restart
        self._given = False

    def give(self, frames: Frames) -> None:
        self._given = True
        self._emit(frames)

    def void(self) -> None:
        if self._given:
            self._restart()
        self._given = False


Reader = Callable[[Path, FrameSampler, Probe, _Stream, Callable[[], None]], DecodedVideo]


def _by_decord(
    path: Path, sampler: FrameSampler, probe: Probe, stream: _Stream, beat: Callable[[], None]
) -> DecodedVideo:
    from muvr_train.features import read_decord

    indices = read_decord.read(path, sampler, probe, stream.give, _chunk(probe), beat)
    times = [float(second) for second in probe.shown[indices]]
    return _made(sampler, probe, indices, times, len(probe.times), "", "decord")


def _by_pyav(
    path: Path, sampler: FrameSampler, probe: Probe, stream: _Stream, beat: Callable[[], None]
) -> DecodedVideo:
    from muvr_train.features import read_groups, read_pyav

    try:
        indices = read_groups.read(path, sampler, probe, stream.give, _chunk(probe), beat)
    except ReaderError:  # the whole file is decoded, which says why
        stream.void()
    else:
        times = [float(second) for second in probe.shown[indices]]
        return _made(sampler, probe, indices, times, len(probe.shown), "", "pyav")
    indices, times, found, damage = read_pyav.read(path, sampler, probe, stream.give, stream.void, _chunk(probe), beat)
    if not damage and found < probe.promised:
        damage = f"the header promises {probe.promised} frames, {found} decode"
    return _made(sampler, probe, indices, times, found, damage, "pyav")


_READERS: dict[str, Reader] = {"decord": _by_decord, "pyav": _by_pyav}


def _made(
    sampler: FrameSampler,
    probe: Probe,
    indices: Sequence[int],
    times: Sequence[float],
    found: int,
    damage: str,
    backend: str,
) -> DecodedVideo:
    status, reason = OK, ""
    if damage:
        status, reason = TRUNCATED, damage
    elif sampler.frames is not None and len(indices) < sampler.frames:
        status, reason = SHORT, f"{len(indices)} of {sampler.frames} frames"
    return DecodedVideo(status, reason, probe.promised, found, tuple(indices), tuple(times), backend)


def _because(made: DecodedVideo, reasons: Sequence[str]) -> DecodedVideo:
    """Say why an earlier reader did not read it."""
    reason = "; ".join([*([made.reason] if made.reason else []), *reasons])
    return DecodedVideo(**{**vars(made), "reason": reason})


def _chunk(probe: Probe) -> int:
    height, width = probe.size
    return max(1, min(CHUNK, CHUNK_BYTES // max(1, 3 * height * width)))


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
