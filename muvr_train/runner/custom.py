"""A benchmark with a reader of the user's own, and features of its videos."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.custom import read_custom
from muvr_train.benchmarks.types import Benchmark
from muvr_train.features.store import FeatureStore
from muvr_train.features.texts import tag_texts_of, texts_of
from muvr_train.runner.annotated import open_store


def open_custom(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    """Read `data.annotations` with `benchmark.reader`, and open `data.features` or extract `data.videos`.

    Raises:
        ConfigError, DataError: see `read_custom` and `open_store`.
    """
    corpus, benchmark = read_corpus(cfg)
    return corpus, open_store(cfg, benchmark, device, texts_of(benchmark), tag_texts_of(benchmark)), benchmark


def read_corpus(cfg: DictConfig) -> tuple[str, Benchmark]:
    """Read `data.annotations`; give what the corpus is, and the benchmark, whose queries have no splits."""
    annotations = Path(cfg.data.annotations)
    benchmark = read_custom(cfg.benchmark.reader, annotations, cfg.benchmark.name)
    return f"{benchmark.name}, {annotations}", benchmark
