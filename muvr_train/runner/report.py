"""The report at the end of a run: gives the page its model and its videos."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.benchmarks.types import Query
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import Retriever
from muvr_train.reports.content import Limits, Map, Maps, Pictures, ReportContent
from muvr_train.reports.picture import similarity_maps
from muvr_train.reports.report import write_reports
from muvr_train.results import RerankedRow, Results
from muvr_train.runner.data import Data

FRAMES = 3  # of each video in the page
COMPOSED_FRAMES = 5  # of videos that are composed of several
SOURCE_FRAMES = 16  # of each source of a composed video
COSINES, OWN, ADDED = (
    "cosine of frames, best regions",
    "the network's map",
    "the network's map (added to the base score)",
)
ANSWERS_PAGE = "reranking/report.html"
"""The page of what was asked to rerank, in the folder of the results."""
log = logging.getLogger(__name__)


def report(
    cfg: DictConfig,
    folder: Path,
    label: str,
    named: Mapping[str, Results],
    meta: Mapping[str, Any],
    references: Sequence[PublishedRow],
    data: Data,
    model: Retriever | None,
    reranked: Sequence[RerankedRow] = (),
) -> None:
    """Write report.html, report.md and report.tex, unless `benchmark.report=false`.

    Args:
        cfg: the composed config.
        folder: where the other result files are already.
        label: the model's name in `named`.
        named: all rows.
        meta: as in results.json.
        references: published rows that may stand beside them.
        data: for similarity maps and videos.
        model: for similarity maps; None draws none.
        reranked: rows that are in `named`, too.

    Raises:
        DataError: the report cannot be made; the message says that the result files are there.
    """
    if not cfg.benchmark.get("report", True):
        return
    start = time.monotonic()
    try:
        content = ReportContent(
            label,
            named,
            meta,
            tuple(cfg.benchmark.ks),
            references,
            reranked,
            ANSWERS_PAGE if reranked and (folder / ANSWERS_PAGE).is_file() else "",
            maps=None if model is None else maps_of(model, data.store),
            pictures=pictures_of(cfg, data.features),
            limits=Limits(queries=cfg.benchmark.get("report_queries", Limits.queries)),
        )
        path = write_reports(folder, content)
    except Exception as error:
        raise DataError(
            f"the report could not be made ({type(error).__name__}: {error}). All other results are complete in "
            f"{folder}. benchmark.report=false leaves the report out; MUVR_TRAIN_DEBUG=1 shows where it failed"
        ) from error
    log.info("the report is %s (%.1f s)", path, time.monotonic() - start)


def maps_of(model: Retriever, store: FeatureStore) -> Maps:
    """Give a function that draws the similarity maps of a query and a database video, none without their features."""
    added = getattr(model.network, "residual_scale", None) is not None

    def maps(query: Query, video: str) -> list[tuple[str, Map]]:
        if not (store.has(query.video_id) and store.has(video)):
            return []
        frames, own = similarity_maps(model, store, query, video)
        same = frames.shape == own.shape and np.allclose(frames, own, atol=1e-4)
        return [(COSINES, frames), *([] if same else [(ADDED if added else OWN, own)])]

    return maps


def pictures_of(cfg: DictConfig, store: FeatureStore | None) -> Pictures | None:
    """Give a function that decodes a few frames of a video by its id; None where no videos are at hand."""
    if cfg.data.kind == "folder":
        return None if store is None else _composed(cfg, store)
    files = video_files(cfg)
    return None if files is None else decoded(files)


def video_files(cfg: DictConfig) -> Mapping[str, Path] | None:
    """Find the files of the run's videos by id; None where no folder is named (edited copies have none)."""
    return VIDEO_FILES.get(cfg.data.kind, _in_folder)(cfg)


def decoded(paths: Mapping[str, Path]) -> Pictures:
    """Give a function that decodes `FRAMES` frames of a file, shrunk."""
    from muvr_train.features.compose import shrink
    from muvr_train.features.decode import read_frames
    from muvr_train.features.sampling import FrameSampler
    from muvr_train.reports.thumbnails import HEIGHT

    def pictures(video: str) -> Any:
        if video not in paths:
            return None
        return read_frames(paths[video], FrameSampler(FRAMES), lambda frames: shrink(frames, HEIGHT)).frames

    return pictures


def _composed(cfg: DictConfig, store: FeatureStore) -> Pictures | None:
    """Videos of the copies benchmark are no files: they are composed again from their sources."""
    if not cfg.data.videos:
        return None
    from muvr_train.features.compose import SourceFrames, compose
    from muvr_train.features.copies import read_plan
    from muvr_train.features.listing import list_videos
    from muvr_train.features.sampling import uniform
    from muvr_train.reports.thumbnails import HEIGHT

    paths = dict(list_videos(Path(cfg.data.videos)))
    sources = SourceFrames(paths, SOURCE_FRAMES, short_side=HEIGHT, cache_mib=256)
    recipes = {recipe.id: recipe for recipe in read_plan(store.path).recipes if recipe.stream == "video"}

    def pictures(video: str) -> Any:
        if video not in recipes:
            return None
        frames = [frame for piece in compose(recipes[video], sources) for frame in piece]
        return [frames[index] for index in uniform(len(frames), COMPOSED_FRAMES)]

    return pictures


def _demo(cfg: DictConfig) -> Mapping[str, Path]:
    from muvr_train.demo.corpus import build_demo
    from muvr_train.features.listing import list_videos

    return dict(list_videos(build_demo(cfg.data.size).videos))


def _table(cfg: DictConfig) -> Mapping[str, Path] | None:
    from muvr_train.benchmarks.table import video_files
    from muvr_train.features.listing import match_videos

    if not cfg.data.videos:
        return None
    return dict(match_videos(Path(cfg.data.videos), video_files(Path(cfg.data.annotations)))[0])


def _in_folder(cfg: DictConfig) -> Mapping[str, Path] | None:
    from muvr_train.features.listing import list_videos, renamed

    return dict(renamed(list_videos(Path(cfg.data.videos)))) if cfg.data.get("videos") else None


VIDEO_FILES: Mapping[str, Callable[[DictConfig], Mapping[str, Path] | None]] = {"demo": _demo, "table": _table}
"""By the kind of data: the video files by id. Other kinds name a folder."""
