"""Labels of your own, with features of your own or a folder of videos to extract."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.table import read_table
from muvr_train.benchmarks.table_files import VIDEOS
from muvr_train.benchmarks.types import Benchmark
from muvr_train.cache import cache_root
from muvr_train.errors import DataError, shorten
from muvr_train.features.annotations import table_videos
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.features.texts import texts_of
from muvr_train.runner.extracted import extracted


def open_table(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    """Read the table in `data.annotations`, and open `data.features` or extract what it names of `data.videos`.

    Raises:
        DataError: see `read_table`; videos without a file (under `on_missing: error`), or a store that holds none of
            the table's videos.
    """
    annotations = Path(cfg.data.annotations)
    benchmark = read_table(annotations)
    if cfg.data.features:
        path = Path(cfg.data.features)
    else:
        folder = Path(cfg.data.videos)
        items = table_videos(folder, annotations, strict=cfg.on_missing == "error")
        path = extracted(cfg, folder, device, texts_of(benchmark), items=items)
    store = open_features(path, cache_root(), cfg.residency, device)
    check_same_ids(benchmark, store)
    return f"labels of your own, {annotations}", store, benchmark


def check_same_ids(benchmark: Benchmark, store: FeatureStore) -> None:
    """Refuse a store that holds not one of the videos.

    Raises:
        DataError: with names from both sides.
    """
    if not any(store.has(video) for video in benchmark.video_ids):
        raise DataError(
            f"{store.path} holds none of the {len(benchmark.video_ids)} videos of {VIDEOS}, which must be named by the "
            f"keys of the store. {VIDEOS} has {shorten(list(benchmark.video_ids), 3)}; the store has "
            f"{shorten(store.ids(), 3)}"
        )
