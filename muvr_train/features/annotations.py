"""Annotations beside a folder of videos: which queries there are, and which file is which video of theirs."""

from __future__ import annotations

import logging
from pathlib import Path

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.table import read_table, video_files
from muvr_train.benchmarks.table_files import VIDEOS
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError, shorten
from muvr_train.features.listing import Videos, list_videos, match_videos, renamed

log = logging.getLogger(__name__)


def read_annotations(folder: Path | str) -> Benchmark:
    """Read a folder with labels of your own (`videos.csv`, ...), or else MUVR's annotations with their tag expressions.

    Raises:
        DataError: see `read_table` and `read_muvr`.
    """
    folder = Path(folder)
    return read_table(folder) if is_table(folder) else read_muvr(folder, filters="any")


def is_table(folder: Path) -> bool:
    """Whether the folder holds labels of your own."""
    return (folder / VIDEOS).exists()


def annotated_videos(videos: Path | str, annotations: Path | str, benchmark: Benchmark, strict: bool = True) -> Videos:
    """The (id, path) pairs to extract of a folder, by the ids of the annotation.

    Of labels of your own, these are the videos in `videos.csv`; of MUVR all in the folder.

    Args:
        videos: the folder.
        annotations: where `benchmark` was read.
        benchmark: what the videos are for.
        strict: refuse videos of a table that have no file, instead of warning.

    Raises:
        DataError: none of the benchmark's videos is there; see also `strict`, `match_videos` and `list_videos`.
    """
    if is_table(Path(annotations)):
        return table_videos(Path(videos), Path(annotations), strict)
    items = renamed(list_videos(videos))
    if {name for name, _ in items}.isdisjoint(benchmark.video_ids):
        raise DataError(
            f"videos={videos} holds none of the {len(benchmark.video_ids)} videos of {annotations}, which are named "
            f"<partition>/<video id>: the annotation has {shorten(list(benchmark.video_ids), 3)}; the folder has "
            f"{shorten([name for name, _ in items], 3)}"
        )
    return items


def table_videos(videos: Path, annotations: Path, strict: bool) -> Videos:
    """The (id, path) pairs of the videos in `videos.csv` that a folder holds.

    Raises:
        DataError: none has a file, or (where `strict`) one has none.
    """
    items, absent = match_videos(videos, video_files(annotations))
    if absent:
        reasons = shorten([f"{video} ({reason})" for video, reason in absent.items()], 20)
        message = f"{annotations / VIDEOS}: {len(absent)} videos have no file in {videos}: {reasons}"
        if strict or not items:
            raise DataError(f"{message}. Correct the names, or give their files in the column 'path'")
        log.warning("%s", message)
    return items
