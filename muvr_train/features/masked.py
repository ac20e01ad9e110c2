"""Region features of queries with masks, added to a store."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.entries import FeatureError
from muvr_train.features.events import decoded
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.pool import DecodePool
from muvr_train.features.progress import track
from muvr_train.features.regions import STREAM, MaskJob, pool_inside, shares_inside
from muvr_train.features.rows import read_rows, write_rows
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import VideoStatus
from muvr_train.features.writer import StoreWriter

FILE = "regions.csv"
OK, PARTIAL, FAILED = "ok", "partial", "failed"


@dataclass(frozen=True)
class RegionStatus:
    """What became of the masks of a query.

    Attributes:
        id: of the query.
        path: the masks' file or folder.
        video: the video file.
        status: "ok"; "partial" (some masks or frames count for nothing); "failed" (no features).
        reason: why it is not ok.
        frames: decoded frames with a mask.
        used: of them have something inside the mask, so a vector is stored.
        masks: a hash of the names and sizes of the mask files.
    """

    id: str
    path: str
    video: str
    status: str
    reason: str
    frames: int
    used: int
    masks: str


def write_regions(store: Path, statuses: Iterable[RegionStatus]) -> None:
    """Replace `<store>/regions.csv`, atomically; rows are sorted by id."""
    write_rows(store / FILE, RegionStatus, statuses)


def read_regions(store: Path) -> dict[str, RegionStatus]:
    """Read `<store>/regions.csv` by query id; nothing where there is none.

    Raises:
        DataError: the file is damaged.
    """
    return read_rows(store / FILE, RegionStatus)


def check_maps(encoder: FrameEncoder) -> None:
    """Refuse an encoder that gives no maps, or has a stream of the name that regions take.

    Raises:
        ConfigError: what to change.
    """
    if STREAM in encoder.streams:
        raise ConfigError(f"encoder.streams.{STREAM}: the regions inside masks are called so; choose another name")
    _maps(encoder, encoder.preprocess(np.zeros((1, 16, 16, 3), np.uint8)))


def _maps(encoder: FrameEncoder, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    stream = "video" if "video" in encoder.streams else encoder.streams[0]
    return encoder.encode_maps(torch.from_numpy(frames).permute(0, 3, 1, 2), stream)


def add_regions(
    writer: StoreWriter,
    encoder: FrameEncoder,
    masks: Mapping[str, Path],
    videos: Mapping[str, Path | str],
    sampler: FrameSampler,
    settings: ExtractSettings,
) -> tuple[int, list[RegionStatus]]:
    """Add the region features [T', 1, D] that a store lacks, and write its `regions.csv`.

    Args:
        writer: of the store.
        encoder: made the frames.
        masks: query id -> file or folder of its masks.
        videos: query id -> file of its video, or why there is none.
        sampler: chooses among the frames that have masks.
        settings: how to run.

    Returns:
        How many are new, and what became of every query with masks.

    Raises:
        DataError: the store holds regions of other masks.
    """
    known, hashes = read_regions(writer.path), {query: _hash(path) for query, path in masks.items()}
    done = writer.done(STREAM)
    _refuse_changed([q for q in masks if q in done & known.keys() and known[q].masks != hashes[q]], writer.path)
    statuses = {query: status for query, status in known.items() if query in done}
    jobs = []
    for query, path in masks.items():
        video = videos[query]
        if query in done:
            statuses.setdefault(query, RegionStatus(query, str(path), str(video), OK, "", 0, 0, hashes[query]))
        elif isinstance(video, Path):
            jobs.append(MaskJob(query, video, path, sampler))
        else:
            statuses[query] = RegionStatus(query, str(path), "", FAILED, video, 0, 0, hashes[query])
    saved = time.monotonic()
    for status, vectors in _encoded(jobs, encoder, settings, hashes):
        statuses[status.id] = status if vectors is None else _added(writer, status, vectors)
        if time.monotonic() - saved >= settings.save_every:
            write_regions(writer.path, statuses.values())
            writer.flush()
            saved = time.monotonic()
    write_regions(writer.path, statuses.values())
    new = sum(statuses[job.id].status != FAILED for job in jobs)
    return new, [statuses[query] for query in masks]


def complete_regions(
    store: Path,
    manifest: Mapping[str, Any],
    encoder: FrameEncoder,
    masks: Mapping[str, Path],
    videos: Mapping[str, Path],
    settings: ExtractSettings | None = None,
) -> None:
    """Add the region features that a store in the cache lacks.

    Args:
        store: its folder; its name should tell the masks (`mask_digests`).
        manifest: of the store.
        encoder: made the frames.
        masks: query id -> file or folder of its masks.
        videos: query id -> file of its video.
        settings: how to run.

    Raises:
        DataError: a query of which no region features can be made, by id.
    """
    known = read_regions(store)
    if masks.keys() <= known.keys() and not any(known[query].status == FAILED for query in masks):
        return
    settings = settings or ExtractSettings()
    with StoreWriter(store, manifest, settings.dtype, settings.shard_mib) as writer:
        _, statuses = add_regions(writer, encoder, masks, videos, FrameSampler(), settings)
    if failed := [f"{status.id} ({status.reason})" for status in statuses if status.status == FAILED]:
        raise DataError(f"{store}: {len(failed)} queries have masks but no region features: {shorten(failed, 3)}")


def mask_digests(masks: Mapping[str, Path]) -> dict[str, str]:
    """Tell masks apart: `mask of <query>` -> hash of the names and sizes of its files."""
    return {f"mask of {query}": _hash(path) for query, path in masks.items()}


def _added(writer: StoreWriter, status: RegionStatus, vectors: NDArray[np.float32]) -> RegionStatus:
    """Add the vectors of a query; a bad one stops nobody else's."""
    try:
        writer.add(status.id, vectors, STREAM)
    except FeatureError as error:
        return replace(status, status=FAILED, reason=str(error), used=0)
    return status


def _refuse_changed(changed: list[str], store: Path) -> None:
    if changed:
        raise DataError(
            f"{store} holds regions of other masks than those of today for {len(changed)} queries: "
            f"{shorten(changed, 5)}. Choose another store"
        )


def _encoded(
    jobs: list[MaskJob], encoder: FrameEncoder, settings: ExtractSettings, hashes: Mapping[str, str]
) -> Iterator[tuple[RegionStatus, NDArray[np.float32] | None]]:
    if not jobs:
        return
    pool = DecodePool(jobs, encoder.preprocess, settings.decoders, settings.timeout)
    made = zip(jobs, decoded(pool), strict=True)
    for job, (_, pictures, status) in track(made, len(jobs), "extracting regions", settings.progress):
        vectors: NDArray[np.float32] | None = None
        used: list[int] = []
        if not status.failed:
            shares = shares_inside(pictures["mask"], pictures["black"], pictures["white"])
            if shares.any():
                vectors, used = pool_inside(_maps(encoder, pictures["frames"]), shares)
        yield _status(job, status, len(used), hashes[job.id]), vectors


def _status(job: MaskJob, video: VideoStatus, used: int, masks: str) -> RegionStatus:
    kind, reasons = (OK if used else FAILED), [video.reason] if video.reason else []
    if not video.failed and used < video.used:
        kind = PARTIAL if used else FAILED
        reasons.append(f"{video.used - used} of {video.used} frames have nothing inside the mask that the encoder sees")
    if kind == OK and reasons:
        kind = PARTIAL
    return RegionStatus(job.id, str(job.masks), str(job.path), kind, "; ".join(reasons), video.used, used, masks)


def _hash(path: Path) -> str:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    content: list[Any] = [(file.name, file.stat().st_size) for file in files]
    return hashlib.blake2b(repr(content).encode(errors="surrogateescape"), digest_size=8).hexdigest()
