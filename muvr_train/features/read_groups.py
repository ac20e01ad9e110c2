"""Frames by PyAV, which decodes only the groups of pictures in which chosen frames lie, exactly.

The packets are read a second time, without a seek; pictures that no other one refers to are passed over unless they are
chosen. At the first error it gives up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from muvr_train.features.probe import OPEN_ERRORS, Probe, ReaderError, brief, seconds, video_stream
from muvr_train.features.read_pyav import Frames, stack, upright
from muvr_train.features.sampling import FrameSampler

SKIPPING = ("h264", "hevc", "mpeg4", "mpeg2video")
"""Codecs whose decoders pass over a picture that no other one refers to, if told so before its packet."""
CODECS = (*SKIPPING, "libdav1d", "av1", "vp8", "vp9")
"""Codecs whose key frames depend on nothing before them."""


def read(
    path: Path,
    sampler: FrameSampler,
    probe: Probe,
    emit: Callable[[Frames], None],
    chunk: int,
    beat: Callable[[], None],
) -> list[int]:
    """Decode the frames that the sampler selects among all that are shown; gives their indices in display order.

    Raises:
        ReaderError: the packets do not tell which frames there are, or what was decoded is not sound.
    """
    if not probe.is_whole or not len(probe.shown):
        raise ReaderError(f"not asked: {probe.fault or 'the packets do not tell which frames there are'}")
    indices = sampler.select(probe.shown)
    wanted = [float(second) for second in probe.shown[indices]]
    batch: list[Frames] = []
    for picture in _in_order(_decode(path, probe, set(wanted), beat), wanted):
        batch.append(picture)
        if len(batch) == chunk:
            emit(stack(batch))
            batch = []
    if batch:
        emit(stack(batch))
    return indices


def _in_order(frames: Iterable[tuple[float, Frames]], wanted: list[float]) -> Iterator[Frames]:
    """The pictures at these seconds, ascending."""
    early: dict[float, Frames] = {}
    place = 0
    for second, picture in frames:
        early[second] = picture
        while place < len(wanted) and wanted[place] in early:
            yield early.pop(wanted[place])
            place += 1
    if place < len(wanted):
        raise ReaderError(f"the frame at {wanted[place]:.3f} s does not decode")


def _decode(path: Path, probe: Probe, wanted: set[float], beat: Callable[[], None]) -> Iterator[tuple[float, Frames]]:
    """The wanted frames, each with its second, as they come."""
    chosen = np.isin(probe.times, list(wanted)) & ~probe.hidden
    needed = needed_packets(probe.times, probe.keys, chosen)
    try:
        with av.open(os.path.abspath(path)) as container:
            stream = video_stream(container)
            codec, base = stream.codec_context, stream.time_base or Fraction(1)
            if codec.name not in CODECS:
                raise ReaderError(f"not asked: frames of {codec.name} may depend on all before them")
            running, last = False, len(needed) - int(needed[::-1].argmax())
            packets = (packet for packet in container.demux(stream) if packet.size)
            for place, packet in zip(range(last), packets, strict=False):
                beat()
                if needed[place]:
                    if codec.name in SKIPPING:
                        codec.skip_frame = "DEFAULT" if chosen[place] else "NONREF"
                    yield from _shown(packet.decode(), base, wanted)
                elif running:
                    yield from _rest(codec, base, wanted)
                running = bool(needed[place])
            if running:
                yield from _rest(codec, base, wanted)
    except OPEN_ERRORS as error:
        raise ReaderError(brief(error)) from error


def _rest(codec: Any, base: Fraction, wanted: set[float]) -> Iterator[tuple[float, Frames]]:
    """The frames that the decoder held back; it then begins anew."""
    yield from _shown(codec.decode(None), base, wanted)
    codec.flush_buffers()


def _shown(frames: Iterable[Any], base: Fraction, wanted: set[float]) -> Iterator[tuple[float, Frames]]:
    for frame in frames:
        if frame.is_corrupt:
            raise ReaderError("broken pictures")
        if (second := seconds(frame.pts, base)) in wanted:
            yield second, upright(frame)


def needed_packets(times: NDArray[np.float64], keys: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which packets must be decoded for the chosen ones, all in decoding order.

    Those from the key frame before a chosen one up to it. What is shown before its own key frame ("leading") may refer
    to the group before, too.

    >>> times, keys = np.array([0.0, 2, 1, 3, 6, 4, 5, 7]), np.array([1, 0, 0, 0, 1, 0, 0, 0], bool)
    >>> needed_packets(times, keys, np.isin(times, [7])).astype(int).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    >>> needed_packets(times, keys, np.isin(times, [1, 4])).astype(int).tolist()
    [1, 1, 1, 1, 1, 1, 0, 0]
    """
    starts = np.union1d([0], np.flatnonzero(keys))
    places = np.flatnonzero(chosen)
    own = np.searchsorted(starts, places, side="right") - 1
    leads = (own > 0) & (times[places] < times[starts[own]])
    ends = np.zeros(len(times), int)  # of what is needed, by its beginning
    np.maximum.at(ends, starts[own - leads], places + 1)
    needed = np.zeros(len(times), bool)
    for start in np.flatnonzero(ends):
        needed[start : ends[start]] = True
    return needed
