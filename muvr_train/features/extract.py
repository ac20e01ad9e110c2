"""Videos to a feature store: decode, encode, write; resumable, and honest about what failed."""

from __future__ import annotations

import csv
import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.features.decode import DecodeError, read_frames
from muvr_train.features.encoders.base import Features, FrameEncoder
from muvr_train.features.listing import Videos, check_videos, list_videos
from muvr_train.features.manifest import make_manifest
from muvr_train.features.progress import track
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.writer import StoreWriter

FAILURES = "failures.csv"
SAVE_EVERY = 60.0  # seconds of work that a kill can cost
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A video without features, and why."""

    id: str
    path: Path
    reason: str


@dataclass(frozen=True)
class ExtractReport:
    """What an extraction did: `total` videos, of which `skipped` were in the store already and `stored` are new."""

    out: Path
    total: int
    skipped: int
    stored: int
    frames: int
    seconds: float
    failures: tuple[Failure, ...]

    @property
    def ok(self) -> bool:
        """Whether every video has features."""
        return not self.failures

    def lines(self) -> list[str]:
        """The report as a small table."""
        rate = f"{self.stored / self.seconds:.1f} videos/s" if self.stored and self.seconds else "-"
        rows = {
            "store": self.out,
            "videos": self.total,
            "already there": self.skipped,
            "extracted": f"{self.stored} ({self.frames} frames)",
            "failed": f"{len(self.failures)} (see {self.out / FAILURES})" if self.failures else 0,
            "seconds": f"{self.seconds:.1f} ({rate})",
        }
        return [f"{name:<14}{value}" for name, value in rows.items()]


def extract_folder(
    videos: Path | str | Sequence[tuple[str, Path]],
    encoder: FrameEncoder,
    out: Path | str,
    frames: int | None = None,
    fps: float | None = None,
    dtype: str = "float16",
    workers: int | None = None,
    save_every: float = SAVE_EVERY,
    shard_mib: float = 256,
    progress: bool = True,
    more: Mapping[str, Any] | None = None,
) -> ExtractReport:
    """Extract features of all videos that the store at `out` lacks.

    A video that cannot be decoded is listed in `<out>/failures.csv` (id, path, reason) and tried again next time.

    Args:
        videos: a folder (ids: relative paths without suffix), or (id, path) pairs.
        encoder: makes the features; its device decides where.
        out: the feature store; made or continued.
        frames: frames per video, from the centres of equal segments; default 15.
        fps: frames per second of video instead, by time stamps.
        dtype: "float16", "bfloat16" or "float32".
        workers: threads that decode (and, on a CPU, encode); default: one per core that this process may use.
        save_every: seconds after which new features are made durable.
        shard_mib: size of the store's files in MiB.
        progress: show a bar on stderr.
        more: further manifest entries, for example of the texts that another step adds (see `make_manifest`).

    Raises:
        DataError: no videos, two files with one id, or a store at `out` that was made differently.
        ConfigError: contradicting settings.
    """
    sampler = FrameSampler(frames, fps)
    workers = _cores() if workers is None else workers
    if workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    items = list_videos(videos) if isinstance(videos, (str, Path)) else check_videos(videos)
    start = time.monotonic()
    stored = n_frames = 0
    failures: list[Failure] = []
    with StoreWriter(out, extraction_manifest(encoder, sampler, more), dtype, shard_mib) as writer:
        done = {stream: writer.done(stream) for stream in encoder.streams}
        todo = [(name, path) for name, path in items if not all(name in ids for ids in done.values())]
        saved = time.monotonic()
        results = _encode_all(todo, encoder, sampler, dtype, workers)
        for name, path, result in track(results, len(todo), "extracting features", progress):
            if isinstance(result, str):
                failures.append(Failure(name, path, result))
                log.warning("no features of %s: %s", name, result)
                continue
            for stream, array in result.items():
                if name not in done[stream]:
                    writer.add(name, array, stream)
            stored += 1
            n_frames += len(next(iter(result.values())))
            if time.monotonic() - saved >= save_every:
                writer.flush()
                saved = time.monotonic()
        _write_failures(Path(out) / FAILURES, failures)
    seconds = time.monotonic() - start
    return ExtractReport(Path(out), len(items), len(items) - len(todo), stored, n_frames, seconds, tuple(failures))


def extraction_manifest(
    encoder: FrameEncoder, sampler: FrameSampler, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The manifest of the store that `extract_folder` makes."""
    return make_manifest(**{**encoder.manifest(), "sampling": sampler.manifest(), **(more or {})})


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _encode_all(
    videos: Videos, encoder: FrameEncoder, sampler: FrameSampler, dtype: str, workers: int
) -> Iterator[tuple[str, Path, Features | str]]:
    """Features, or the reason why there are none, of each video in order.

    Threads decode ahead, a bounded number of videos. On a CPU each thread also encodes, with one thread of torch: that
    uses the cores better than decoding and a many-threaded encoder fighting over them. Elsewhere this thread encodes.
    """
    size = max(1, encoder.batch_size // sampler.frames) if sampler.frames else 1
    groups = iter([videos[start : start + size] for start in range(0, len(videos), size)])
    in_worker = encoder.device.type == "cpu" and workers > 1
    threads = torch.get_num_threads()

    def work(group: Videos) -> list[Features | str] | list[Tensor | str]:
        prepared = [_prepare(path, encoder, sampler) for _, path in group]
        return _encode(prepared, encoder, dtype) if in_worker else prepared

    pool = ThreadPoolExecutor(workers, "extract", torch.set_num_threads, (1,))
    pending: deque[tuple[Videos, Future[Any]]] = deque()
    try:
        for group in groups:
            pending.append((group, pool.submit(work, group)))
            if len(pending) > 2 * workers:
                yield from _collect(pending.popleft(), encoder, dtype, in_worker)
        while pending:
            yield from _collect(pending.popleft(), encoder, dtype, in_worker)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _collect(
    entry: tuple[Videos, Future[Any]], encoder: FrameEncoder, dtype: str, encoded: bool
) -> Iterator[tuple[str, Path, Features | str]]:
    group, future = entry
    results = future.result() if encoded else _encode(future.result(), encoder, dtype)
    for (name, path), result in zip(group, results, strict=True):
        yield name, path, result


def _prepare(path: Path, encoder: FrameEncoder, sampler: FrameSampler) -> Tensor | str:
    try:
        prepared: Tensor = read_frames(path, sampler, encoder.prepare).frames
    except DecodeError as error:
        return str(error).removeprefix(f"{path}: ")
    return prepared


def _encode(prepared: list[Tensor | str], encoder: FrameEncoder, dtype: str) -> list[Features | str]:
    """Encode the videos that could be read; reasons stay in their places."""
    features = iter(encoder.encode_prepared([frames for frames in prepared if isinstance(frames, Tensor)]))
    return [entry if isinstance(entry, str) else _usable(next(features), dtype) for entry in prepared]


def _usable(features: Features, dtype: str) -> Features | str:
    limit = float(torch.finfo(getattr(torch, dtype)).max)
    for stream, values in features.items():
        if not np.isfinite(values).all():
            return f"the encoder gives values that are not finite (stream {stream})"
        if float(np.abs(values).max()) > limit:
            return f"the features go beyond the range of {dtype} (stream {stream}); choose dtype=float32"
    return features


def _write_failures(path: Path, failures: list[Failure]) -> None:
    """Replace the list of failures; none leaves no file."""
    if not failures:
        path.unlink(missing_ok=True)
        return
    temporary = path.with_suffix(".csv.tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "path", "reason"])
        rows.writerows([failure.id, str(failure.path), failure.reason] for failure in failures)
    temporary.replace(path)
