"""Feature extraction as Lightning's predict: decoder processes give frames, the encoder runs, a callback writes.

The same code runs in one process, on several devices and on several machines (which share the store's file system).
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from muvr_train.agreement import in_step
from muvr_train.features.batches import FeatureCollector, FrameBatch, batch_frames
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.whitening import FITTED
from muvr_train.features.extract import (
    ExtractReport,
    ExtractSettings,
    extraction_manifest,
    final_statuses,
    plain_jobs,
)
from muvr_train.features.fitting import fit_encoder, learned_entries
from muvr_train.features.jobs import Job
from muvr_train.features.listing import Videos, check_videos, list_videos
from muvr_train.features.pool import DecodePool
from muvr_train.features.progress import Progress
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.session import ExtractionSession, lacking
from muvr_train.features.status import OK, SHORT, VideoStatus
from muvr_train.processes import Group
from muvr_train.training.extraction_processes import lost, make_trainer, telling_losses

log = logging.getLogger(__name__)


def extract_folder(
    videos: Path | str | Sequence[tuple[str, Path]],
    encoder: FrameEncoder,
    out: Path | str,
    sampler: FrameSampler | None = None,
    settings: ExtractSettings | None = None,
    more: Mapping[str, Any] | None = None,
) -> ExtractReport | None:
    """Extract features of all videos that the store at `out` lacks.

    What became of each video stands in `<out>/status.csv`; videos without features are tried again next time.

    Args:
        videos: a folder (ids: relative paths without suffix), or (id, path) pairs.
        encoder: makes the features; its device decides where.
        out: the feature store; made or continued.
        sampler: which frames; default 15 per video, from the centres of equal segments.
        settings: how to run.
        more: further manifest entries, for example of the texts that another step adds (see `make_manifest`).

    Raises:
        DataError: no videos, two files with one id, or a store at `out` that was made differently.
    """
    items: Videos = list_videos(videos) if isinstance(videos, (str, Path)) else check_videos(videos)
    sampler = sampler or FrameSampler()
    return extract(plain_jobs(items, sampler), encoder, out, extraction_manifest(encoder, sampler, more), settings)


def extract(
    jobs: Sequence[Job],
    encoder: FrameEncoder,
    out: Path | str,
    manifest: Mapping[str, Any],
    settings: ExtractSettings | None = None,
    streams: Sequence[str] | None = None,
) -> ExtractReport | None:
    """Make the features of all jobs that the store at `out` lacks.

    Args:
        jobs: one per id.
        encoder: makes the features; its device decides where.
        out: the feature store; made or continued.
        manifest: how the features are made.
        settings: how to run.
        streams: the encoder's streams that are kept; default all.

    Returns:
        What was done, in process 0; None in the others.

    Raises:
        DataError: a store at `out` that was made differently, is broken, or is being written.
    """
    settings = settings or ExtractSettings()
    start = time.monotonic()
    session = ExtractionSession(
        jobs, streams or encoder.streams, Path(out), manifest, settings.dtype, settings.save_every, settings.shard_mib
    )
    writer = StoreCallback(session, encoder, settings)
    trainer = make_trainer(encoder.device, settings, writer)
    module = ExtractionModule(encoder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # inside Lightning
        trainer.predict(module, _Frames(writer), return_predictions=False)
    if not trainer.is_global_zero:
        return None
    missing = {job.id for job in lacking(jobs, session.streams, session.out)}
    statuses = final_statuses(jobs, session.statuses, missing)
    seconds = time.monotonic() - start
    return ExtractReport(Path(out), frozenset(job.id for job in session.todo), seconds, module.busy, statuses)


class ExtractionModule(pl.LightningModule):
    """Runs the encoder on batches of frames.

    Attributes:
        busy: share of the time since the first batch in which the encoder worked.
    """

    def __init__(self, encoder: FrameEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.network = encoder.model
        self._worked = 0.0
        self._first: float | None = None
        self._last = 0.0

    @property
    def busy(self) -> float | None:
        """Between 0 and 1; None before the first batch."""
        return None if self._first is None else self._worked / max(1e-9, self._last - self._first)

    def on_predict_start(self) -> None:
        """Tell the encoder where Lightning has put its network."""
        self.encoder.to(self.device)

    def transfer_batch_to_device(self, batch: FrameBatch, device: torch.device, dataloader_idx: int) -> FrameBatch:
        """Leave it: the encoder moves what it takes."""
        return batch

    def predict_step(self, batch: FrameBatch, batch_idx: int) -> dict[str, Tensor]:
        """Features {stream: float32 [n, R, D]} on the CPU."""
        if batch.frames is None:
            return {}
        start = time.monotonic()
        found = self.encoder.forward_batch(batch.frames.to(self.device, non_blocking=True))
        features = {name: values.float().cpu() for name, values in found.items()}
        self._last = time.monotonic()
        self._first = start if self._first is None else self._first
        self._worked += self._last - start
        return features


class StoreCallback(pl.Callback):
    """Opens the store, writes what the batches give, and merges the processes' shares."""

    def __init__(self, session: ExtractionSession, encoder: FrameEncoder, settings: ExtractSettings) -> None:
        self.session, self.encoder, self.settings = session, encoder, settings
        self.jobs: list[Job] = []
        self._collector = FeatureCollector(session.dtype, session.streams)
        self._bar: Progress | None = None
        self._parent = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Learn what the encoder learns, then take this process's share of what the store lacks."""
        group = Group(trainer.global_rank, trainer.world_size)
        self._parent = os.getppid()
        with telling_losses(group):
            self.session.claim(group)
            if self.encoder.needs_fit:
                in_step(group, lambda: self._learn(group))
                in_step(group, self._take_over)
            self.jobs = self.session.open(group)
        self._bar = Progress("extracting features", len(self.jobs), self.settings.progress and trainer.is_global_zero)

    def _learn(self, group: Group) -> None:
        learned = self.session.out / FITTED
        if group.is_first and not learned.is_file():
            fit_encoder(self.encoder, self.session.jobs, self.settings)
            self.encoder.save_fit(learned)

    def _take_over(self) -> None:
        if self.encoder.needs_fit:
            self.encoder.load_fit(self.session.out / FITTED)
        self.session.manifest = {**self.session.manifest, **learned_entries(self.encoder)}

    def on_predict_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: FrameBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Write the videos that end in this batch.

        Raises:
            ProcessError: the process that started this one is gone.
        """
        if self.session.group.rank and os.getppid() != self._parent:
            raise lost(self.session.group, "the one that started it has ended")
        for finished in self._collector.take(batch, outputs):
            status = finished.status
            if status.status != OK:
                log.log(logging.DEBUG if status.status == SHORT else logging.WARNING, "%s: %s, %s", *_brief(status))
            self.session.record(finished)
            if self._bar is not None:
                self._bar.advance()

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Finish the store."""
        self._close_bar()
        with telling_losses(self.session.group):
            self.session.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Keep what was done."""
        self._close_bar()
        self.session.abort()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _brief(status: VideoStatus) -> tuple[str, str, str]:
    return status.id, status.status, status.reason


class _Frames:
    """The batches of this process; the decoders start when they are iterated over."""

    def __init__(self, callback: StoreCallback) -> None:
        self.callback = callback

    def __iter__(self) -> Iterator[FrameBatch]:
        jobs, encoder, settings = self.callback.jobs, self.callback.encoder, self.callback.settings
        if not jobs:
            return
        pool = DecodePool(jobs, encoder.preprocess, settings.decoders, settings.timeout)
        yield from batch_frames(pool, encoder.batch_size)
