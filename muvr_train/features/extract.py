"""What an extraction is asked for and what it reports; `training.extraction` runs it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.jobs import Job, PlainJob
from muvr_train.features.listing import Videos
from muvr_train.features.manifest import make_manifest
from muvr_train.features.pool import TIMEOUT_SECONDS
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import FILE, OK, TRUNCATED, UNDECODABLE, VideoStatus, count_statuses

SAVE_EVERY = 60.0  # seconds of work that a kill can cost


@dataclass(frozen=True)
class ExtractSettings:
    """How an extraction runs; nothing here changes the features, apart from `dtype`.

    Attributes:
        dtype: "float16", "bfloat16" or "float32".
        workers: processes that decode; None: one per core that this process may use.
        timeout: seconds after which a decoder that gives no sign of life is killed.
        save_every: seconds after which new features are made durable.
        shard_mib: size of the store's files in MiB.
        progress: show a bar on stderr.
        devices: how many devices of the encoder's kind, a process for each.
        num_nodes: how many machines.

    Raises:
        ConfigError: a setting that cannot be.
    """

    dtype: str = "float16"
    workers: int | None = None
    timeout: float = TIMEOUT_SECONDS
    save_every: float = SAVE_EVERY
    shard_mib: float = 256
    progress: bool = True
    devices: int = 1
    num_nodes: int = 1

    def __post_init__(self) -> None:
        for name in ("workers", "devices", "num_nodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        for name in ("timeout", "shard_mib"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def processes(self) -> int:
        """Over all machines."""
        return self.devices * self.num_nodes

    @property
    def decoders(self) -> int:
        """Decoding processes of one process of the extraction."""
        cores = len(os.sched_getaffinity(0))
        return max(1, cores // self.devices) if self.workers is None else self.workers


@dataclass(frozen=True)
class ExtractReport:
    """What an extraction did.

    Attributes:
        out: the store.
        tried: of them were not in the store yet.
        seconds: wall time.
        busy: share of the time from the first to the last batch in which the encoder worked (of this process); None
            without a batch.
        statuses: of all videos that were asked for, in order.
    """

    out: Path
    tried: frozenset[str]
    seconds: float
    busy: float | None
    statuses: tuple[VideoStatus, ...]

    @property
    def new(self) -> tuple[VideoStatus, ...]:
        """The videos with features that were not there before."""
        return tuple(status for status in self.statuses if status.id in self.tried and not status.failed)

    @property
    def failures(self) -> tuple[VideoStatus, ...]:
        """The videos without features."""
        return tuple(status for status in self.statuses if status.failed)

    @property
    def ok(self) -> bool:
        """Whether every video has features."""
        return not self.failures

    def lines(self) -> list[str]:
        """The report as a small table."""
        new = self.new
        rate = f"{len(new) / self.seconds:.1f} videos/s" if new and self.seconds else "-"
        counts = ", ".join(f"{count} {name}" for name, count in count_statuses(self.statuses).items())
        rows: dict[str, Any] = {
            "store": self.out,
            "videos": len(self.statuses),
            "already there": len(self.statuses) - len(self.tried),
            "extracted": f"{len(new)} ({sum(status.used for status in new)} frames)",
            "status": f"{counts} (see {self.out / FILE})",
            "seconds": f"{self.seconds:.1f} ({rate}"
            + (")" if self.busy is None else f", encoder busy {self.busy:.0%})"),
        }
        lines = [f"{name:<14}{value}" for name, value in rows.items()]
        odd = [status for status in self.statuses if status.failed or status.status == TRUNCATED]
        lines += [f"  {status.status:<12}{status.id}: {status.reason}" for status in odd[:MOST_SHOWN]]
        if len(odd) > MOST_SHOWN:
            lines.append(f"  ... and {len(odd) - MOST_SHOWN} more")
        return lines


MOST_SHOWN = 20


def final_statuses(
    jobs: Iterable[Job], known: Mapping[str, VideoStatus], missing: Collection[str]
) -> tuple[VideoStatus, ...]:
    """What became of each job: as recorded, but nothing is well of which the store lacks something.

    Args:
        jobs: all that were asked for.
        known: the recorded statuses.
        missing: ids of which the store lacks something.
    """
    found = []
    for job in jobs:
        status = known.get(job.id, VideoStatus(job.id, str(job.path), OK))  # stored before there were statuses
        if job.id in missing and not status.failed:
            reason = "it has not been made: the processes saw different folders, or the run was cut short; run again"
            status = VideoStatus(job.id, str(job.path), UNDECODABLE, reason)
        found.append(status)
    return tuple(found)


def plain_jobs(videos: Videos, sampler: FrameSampler) -> list[PlainJob]:
    """Jobs that extract the sampled frames of (id, path) pairs."""
    return [PlainJob(name, path, sampler) for name, path in videos]


def extraction_manifest(
    encoder: FrameEncoder, sampler: FrameSampler, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The manifest of a store of plain videos."""
    return make_manifest(**{**encoder.manifest(), "sampling": sampler.manifest(), **(more or {})})
