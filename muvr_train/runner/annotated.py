"""FIVR, EVVE and CC_WEB_VIDEO: their annotations, and features of their videos."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.readers import READERS
from muvr_train.benchmarks.types import Benchmark
from muvr_train.cache import cache_root
from muvr_train.errors import DataError, shorten
from muvr_train.features.listing import match_videos
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.runner.extracted import extracted

log = logging.getLogger(__name__)


def read_annotated(cfg: DictConfig) -> tuple[str, Benchmark]:
    """Read `benchmark.annotations`; give what the corpus is, and the benchmark, whose queries have no splits.

    Raises:
        DataError: see the readers.
    """
    benchmark = READERS[cfg.benchmark.name](Path(cfg.benchmark.annotations))
    return f"{benchmark.name}, {cfg.benchmark.annotations}", benchmark


def open_annotated(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    """Read `benchmark.annotations`, and open `data.features` or extract the benchmark's videos in `data.videos`.

    Raises:
        DataError: an annotation that cannot be used, features that hold none of its videos, or, under
            `on_missing: error`, videos without a file.
    """
    corpus, benchmark = read_annotated(cfg)
    return corpus, open_store(cfg, benchmark, device), benchmark


def open_store(
    cfg: DictConfig,
    benchmark: Benchmark,
    device: str,
    texts: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> FeatureStore:
    """Open `data.features`, or extract the benchmark's videos in `data.videos`, with texts and tags where given.

    Raises:
        DataError: features that hold none of its videos, or, under `on_missing: error`, videos without a file.
    """
    path = Path(cfg.data.features) if cfg.data.features else _extracted(cfg, benchmark, device, texts or {}, tags)
    store = open_features(path, cache_root(), cfg.residency, device)
    if not any(store.has(video) for video in benchmark.video_ids):
        raise DataError(
            f"{store.path} holds none of the {len(benchmark.video_ids)} videos of {benchmark.name}: its ids must be "
            f"the benchmark's own, as {shorten(list(benchmark.video_ids), 3)}; it has {shorten(store.ids(), 3)}"
        )
    return store


def _extracted(
    cfg: DictConfig, benchmark: Benchmark, device: str, texts: Mapping[str, str], tags: Mapping[str, str] | None
) -> Path:
    folder = Path(cfg.data.videos)
    items, absent = match_videos(folder, dict.fromkeys(benchmark.video_ids))
    if absent:
        reasons = shorten([f"{video} ({reason})" for video, reason in absent.items()], 20)
        message = f"{len(absent)} videos of {benchmark.name} are not in {folder}: {reasons}"
        if cfg.on_missing == "error" or not items:
            raise DataError(f"{message}. {benchmark.missing_advice}")
        log.warning("%s", message)
    return extracted(cfg, folder, device, texts, items=items, tags=tags)
