"""The features of the copies benchmark's videos, made as those of any videos are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from muvr_train.benchmarks.copies import CopiesPlan
from muvr_train.errors import ConfigError
from muvr_train.features.compose import SourceFrames
from muvr_train.features.copies import PLAN, SourceJob, compose_jobs, copies_manifest
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.extract import ExtractReport, ExtractSettings
from muvr_train.features.shards import write_bytes
from muvr_train.features.status import VideoStatus, read_statuses, write_statuses
from muvr_train.features.writer import StoreWriter
from muvr_train.launched import rank
from muvr_train.training.extraction import extract


def extract_copies(
    plan: CopiesPlan,
    sources: SourceFrames,
    encoder: FrameEncoder,
    out: Path,
    left_out: Iterable[VideoStatus] = (),
    settings: ExtractSettings | None = None,
) -> ExtractReport | None:
    """Make the features of all videos of a plan that the store at `out` lacks; only the stream "video" is kept.

    What became of each video stands in `<out>/status.csv`; those of which a source cannot be decoded are tried again
    next time. The plan is kept as `<out>/copies.json`.

    Args:
        plan: what to compose.
        sources: frames of the sources.
        encoder: makes the features; its device decides where.
        out: the feature store; made or continued.
        left_out: sources that are not in the plan; they stand in status.csv and in the report too.
        settings: how to run.

    Returns:
        What was done, in process 0; None in the others.

    Raises:
        DataError: the store at `out` was made differently.
        ConfigError: the encoder has no stream "video".
    """
    if "video" not in encoder.streams:
        raise ConfigError(f"encoder {encoder.name}: copies need its stream 'video', it has {list(encoder.streams)}")
    settings, manifest = settings or ExtractSettings(), copies_manifest(plan, sources, encoder)
    listed = {status.id: status for status in left_out}
    if rank() == 0:  # the first of several processes says what is made
        with StoreWriter(out, manifest, settings.dtype, settings.shard_mib) as writer:
            write_bytes(writer.path / PLAN, json.dumps(plan.to_json(), ensure_ascii=False).encode())
            if listed:
                write_statuses(writer.path, {**read_statuses(writer.path), **listed}.values())
    unused = [SourceJob(status.id, Path(status.path), sources.only(())) for status in listed.values()]
    return extract([*compose_jobs(plan, sources), *unused], encoder, out, manifest, settings, ["video"])
