"""The store while features are made for it: what is done, what is lacking, what became of each video."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.agreement import in_step
from muvr_train.errors import DataError
from muvr_train.features.batches import Finished
from muvr_train.features.index import INDEX, open_streams
from muvr_train.features.jobs import Job
from muvr_train.features.lock import StoreLock
from muvr_train.features.manifest import LATER, adopt_optional, differing_keys
from muvr_train.features.status import VideoStatus, read_statuses, write_statuses
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter, check_place
from muvr_train.processes import SINGLE, Group

PARTS = ".parts"  # below the store: what the other processes of an extraction have made
MERGED = "merged-"  # before the name of one that has been taken over
log = logging.getLogger(__name__)


def lacking(jobs: Iterable[Job], streams: Sequence[str], out: Path) -> list[Job]:
    """The jobs of which the store at `out` does not hold everything, `streams` being those of the encoder."""
    held: dict[str, set[str]] = {}
    if (out / INDEX).is_file():
        held = {name: set(stream.ids) for name, stream in open_streams(out).items()}

    def names(job: Job) -> Iterable[str]:
        return (name for stream in job.streams for name in (streams if stream == "video" else (stream,)))

    return [job for job in jobs if not all(job.id in held.get(name, ()) for name in names(job))]


class ExtractionSession:
    """One process's share of an extraction into one store.

    Process 0 says what is to be done and hands it out. It writes the store itself, every other one a store of its own
    below `.parts`, which process 0 merges into the store at the end. What a killed extraction left in `.parts` is
    merged at the beginning, whatever the number of processes was. A status is written before the features it tells of,
    so no features are without one. An error of one process at the beginning or the end is one in all.

    Args:
        jobs: all of them; those of process 0 count.
        streams: the encoder's streams that are kept.
        out: the store.
        manifest: how the features are made; may be completed before `open`.
        dtype: of the store.
        save_every: seconds after which new features are made durable.
        shard_mib: size of the store's files in MiB.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        streams: Sequence[str],
        out: Path,
        manifest: Mapping[str, Any],
        dtype: str,
        save_every: float,
        shard_mib: float,
    ) -> None:
        self.jobs, self.streams, self.out = jobs, tuple(streams), out
        self.manifest, self.dtype = manifest, dtype
        self.save_every, self.shard_mib = save_every, shard_mib
        self.statuses: dict[str, VideoStatus] = {}
        self.todo: list[Job] = []
        self.group = SINGLE
        self._writer: StoreWriter | None = None
        self._lock: StoreLock | None = None

    def claim(self, group: Group) -> None:
        """Reserve the store, before anything takes time.

        Raises:
            DataError: the store was made differently, or another process writes it.
        """
        self.group = group

        def reserve() -> None:
            if group.is_first:
                self._lock = StoreLock(self.out)
                manifest = {**self.manifest, "dtype": self.dtype}
                check_place(self.out, manifest, [key for key in LATER if key not in manifest])

        in_step(group, reserve)

    def open(self, group: Group = SINGLE) -> list[Job]:
        """Prepare the store and give the jobs of this process.

        Raises:
            DataError: the store was made differently, is broken, or another process writes it.
        """
        self.group = group

        def prepare() -> None:
            if not group.is_first:
                return
            self._writer = self._open_writer(self.out, self._lock)
            asked = {job.id for job in self.jobs}
            known = read_statuses(self.out).items()  # failures of files that are gone are forgotten
            self.statuses = {name: status for name, status in known if name in asked or not status.failed}
            self._merge_parts()
            again = {name for name, status in self.statuses.items() if status.failed}
            again |= {job.id for job in lacking(self.jobs, self.streams, self.out)}
            self.todo = [job for job in self.jobs if job.id in again and job.streams]  # none: left out, not to be made

        in_step(group, prepare)
        self.todo, first = group.broadcast((self.todo, self.manifest))

        def join() -> None:
            if differing := differing_keys(first, self.manifest):
                raise DataError(f"it would make other features than process 0: {', '.join(differing)} differ")
            if not group.is_first:
                self._writer = self._open_writer(self.out / PARTS / f"{group.rank:05d}")

        in_step(group, join)
        self._saved = time.monotonic()
        return self.todo[group.rank :: group.size]

    @property
    def writer(self) -> StoreWriter:
        """Of what this process makes; once the session is open."""
        if self._writer is None:
            raise RuntimeError("the session has not been opened")
        return self._writer

    def record(self, finished: Finished) -> None:
        """Keep what became of a job, and its features."""
        status = finished.status
        self.statuses[status.id] = status
        for name, values in finished.features.items():
            if not self.writer.has(status.id, name):
                self.writer.add(status.id, values, name)
        if time.monotonic() - self._saved >= self.save_every:
            self.save()

    def save(self) -> None:
        """Make everything so far durable."""
        write_statuses(self.writer.path, self.statuses.values())
        self.writer.flush()
        self._saved = time.monotonic()

    def close(self) -> None:
        """End the share of this process; process 0 merges the shares of all."""

        def finish() -> None:
            self.save()
            if not self.group.is_first:
                self.writer.close()

        def merge() -> None:
            if self.group.is_first:
                self._merge_parts()
                self.writer.close()

        in_step(self.group, finish)
        in_step(self.group, merge)

    def abort(self) -> None:
        """Keep what there is and let go of the store; the next run goes on."""
        if self._writer is not None and self._writer.is_open:
            try:
                self.save()
            except DataError as error:  # the disk is full: what was saved before is kept
                log.warning("what was extracted since the last save is lost: %s", error)
            finally:
                self._writer.abandon()
        if self._lock is not None:
            self._lock.release()

    def _open_writer(self, path: Path, lock: StoreLock | None = None) -> StoreWriter:
        return StoreWriter(path, self.manifest, self.dtype, self.shard_mib, lock)

    def _merge_parts(self) -> None:
        """Take over the features and statuses of the other processes; each of their stores is removed after that.

        A store that has been taken over is renamed first: a kill while it is being removed leaves nothing that looks
        like one.
        """
        for part in sorted((self.out / PARTS).glob("[0-9]*")):
            self._merge(part)
            part.rename(part.with_name(f"{MERGED}{part.name}"))
        for merged in (self.out / PARTS).glob(f"{MERGED}*"):
            shutil.rmtree(merged)
        if (self.out / PARTS).is_dir():
            (self.out / PARTS).rmdir()

    def _merge(self, part: Path) -> None:
        adopt_optional(part, self.manifest)  # an earlier run made it, maybe before there were views
        with self._open_writer(part):  # refuses a store that was made differently, or that is still written
            pass
        self.statuses |= read_statuses(part)
        if (part / INDEX).is_file():
            store = FeatureStore(part)
            for name in store.streams:
                self._copy(store, name, store.ids(name))
        self.save()

    def _copy(self, store: FeatureStore, name: str, ids: Iterable[str]) -> None:
        for id_ in ids:
            if not self.writer.has(id_, name):
                self.writer.add(id_, store.array(id_, name), name)
