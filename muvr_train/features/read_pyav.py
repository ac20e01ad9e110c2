"""Frames by PyAV, which decodes a file from its beginning and knows which frames are sound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from muvr_train.features.probe import OPEN_ERRORS, Probe, ReaderError, brief, video_stream
from muvr_train.features.sampling import FrameSampler

Frames = NDArray[np.uint8]
REORDERED = 16  # frames that a codec may hold back to show them later


@dataclass
class _Pass:
    """What decoding a file from beginning to end told: frames in display order, and damage in decoding order.

    Attributes:
        stamps: time stamp of each frame that came out (None where it has none), in display order.
        seconds: when each is shown.
        packets: time stamp of each packet, in decoding order.
        keys: whether decoding may begin at a packet.
        damaged: numbers of packets that gave an error or a corrupt frame.
        first: how many frames had come out when the first damage was met.
        fault: why decoding ended early.
    """

    stamps: list[int | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    packets: list[int | None] = field(default_factory=list)
    keys: list[bool] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    corrupt: set[int | None] = field(default_factory=set)
    first: int | None = None
    fault: str = ""

    def hurt(self) -> None:
        """Note that something is wrong here."""
        if self.first is None:
            self.first = len(self.stamps)


def read(
    path: Path,
    sampler: FrameSampler,
    probe: Probe,
    emit: Callable[[Frames], None],
    restart: Callable[[], None],
    chunk: int,
    beat: Callable[[], None],
) -> tuple[list[int], list[float], int, str]:
    """Decode the frames that the sampler selects among those that are sound.

    One pass where the packets told the truth about the number of frames, or else a second one.

    Returns:
        Their indices among the sound frames in display order, their seconds, how many sound frames there are, and
        what is wrong with the others ("" where nothing is).

    Raises:
        ReaderError: no frame is sound.
    """
    hoped = sampler.select(probe.shown) if probe.is_plain and len(probe.times) else []
    told = _Pass()
    _emit(_decode(path, told, beat), hoped, emit, chunk)
    sound = _sound_frames(told)
    if not sound:
        raise ReaderError(told.fault or "no frame decodes")
    # a container without times of display gets those of decoding: the same ones in another order
    seconds = sorted(told.seconds[place] for place in sound)
    indices = sampler.select(seconds)
    places = [sound[index] for index in indices]
    if places != hoped:
        if hoped:
            restart()
        _emit(_decode(path, _Pass(), beat), places, emit, chunk)
    damage = ""
    if told.first is not None:
        promised = max(len(told.packets), probe.declared) - int(probe.hidden.sum())
        damage = f"damaged ({told.fault or 'broken pictures'}): {len(sound)} of {promised} frames decode"
    return indices, [seconds[index] for index in indices], len(sound), damage


def _decode(path: Path, told: _Pass, beat: Callable[[], None]) -> Iterator[Any]:
    """Every frame in display order, sound or not; `told` learns about them."""
    try:
        with av.open(os.path.abspath(path)) as container:
            packets = container.demux(video_stream(container))
            while True:
                try:
                    packet = next(packets, None)
                except av.FFmpegError as error:
                    told.fault = told.fault or brief(error)
                    told.hurt()
                    return
                if packet is None:
                    return
                yield from _decode_packet(packet, told)
                beat()
    except OPEN_ERRORS as error:
        raise ReaderError(brief(error)) from error


def _decode_packet(packet: Any, told: _Pass) -> Iterator[Any]:
    number = len(told.packets)
    if packet.size:
        told.packets.append(packet.pts)
        told.keys.append(packet.is_keyframe)
        if packet.is_corrupt:
            told.damaged.add(number)
            told.hurt()
    try:
        frames = packet.decode()
    except (av.FFmpegError, ValueError, EOFError) as error:
        told.fault = told.fault or brief(error)
        told.damaged.add(number)
        told.hurt()
        return
    for frame in frames:
        told.stamps.append(frame.pts)
        told.seconds.append(float(len(told.seconds) if frame.time is None else frame.time))
        if frame.is_corrupt:
            told.corrupt.add(frame.pts)
            told.hurt()
        yield frame


def _sound_frames(told: _Pass) -> list[int]:
    """Places in display order of the frames that can be trusted.

    A damaged picture is copied into those that refer to it, without another error: from a damaged packet on nothing is
    trusted until the next packet at which decoding may begin, and of those after it not what is shown before it.
    """
    everything = range(len(told.stamps))
    if told.first is None:
        return list(everything)
    number: dict[int | None, int] = {stamp: place for place, stamp in enumerate(told.packets) if stamp is not None}
    if len(number) < len(told.packets) or None in told.stamps or None in told.corrupt:
        return list(everything[: max(0, told.first - REORDERED)])
    came = set(told.stamps)
    lost = {place for stamp, place in number.items() if stamp not in came}
    bad = _spread(told.packets, told.keys, told.damaged | lost | {number.get(stamp, 0) for stamp in told.corrupt})
    return [place for place in everything if number.get(told.stamps[place], -1) not in bad | {-1}]


def _spread(stamps: Sequence[Any], keys: Sequence[bool], damaged: set[int]) -> set[int]:
    """All packets that damage at some may reach."""
    bad: set[int] = set()
    spoiled, leading = False, -1
    for place, is_key in enumerate(keys):
        if is_key:
            leading = place if spoiled else -1
            spoiled = False
        spoiled = spoiled or place in damaged
        if spoiled or (leading >= 0 and stamps[place] < stamps[leading]):
            bad.add(place)
    return bad


def _emit(frames: Iterator[Any], places: Sequence[int], emit: Callable[[Frames], None], chunk: int) -> None:
    """Go through all frames and give those at some places, upright, at most `chunk` at a time."""
    wanted, batch = set(places), []
    for place, frame in enumerate(frames):
        if place in wanted:
            batch.append(upright(frame))
            if len(batch) == chunk:
                emit(stack(batch))
                batch = []
    if batch:
        emit(stack(batch))


def upright(frame: Any) -> Frames:
    """The picture of a frame, uint8 [H, W, 3] RGB, turned as the file asks for."""
    # ndarray from the decoder is the stored picture; the display matrix says how many degrees it is turned
    return np.rot90(frame.to_ndarray(format="rgb24"), k=round(frame.rotation / 90))


def stack(batch: list[Frames]) -> Frames:
    """Pictures as one array uint8 [t, H, W, 3].

    Raises:
        ReaderError: they differ in size.
    """
    if len({picture.shape for picture in batch}) > 1:
        raise ReaderError("the picture size changes inside the video")
    return np.ascontiguousarray(np.stack(batch))
