"""Benchmarks without features: all that the scores of a file are judged by."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.types import Benchmark
from muvr_train.runner.data import Data, read_annotation


def open_benchmark(cfg: DictConfig) -> Data:
    """Read the annotation that the config names; features are not looked for.

    Raises:
        DataError: the annotation is missing or broken.
    """
    corpus, benchmark = READERS[cfg.data.kind](cfg)
    benchmark = apply_splits(benchmark, cfg.benchmark.split_source, list(cfg.data.fractions))
    return Data(cfg.data.kind, corpus, None, benchmark, cfg.benchmark.gallery, cfg.data.regime)


def _read_demo(cfg: DictConfig) -> tuple[str, Benchmark]:
    from muvr_train.demo.corpus import build_demo

    annotations = build_demo(cfg.data.size).annotations
    return f"built-in corpus, size {cfg.data.size}", read_annotation(cfg, annotations)


def _read_muvr(cfg: DictConfig) -> tuple[str, Benchmark]:
    return f"MUVR layout, {cfg.data.annotations}", read_annotation(cfg, Path(cfg.data.annotations))


def _read_table(cfg: DictConfig) -> tuple[str, Benchmark]:
    from muvr_train.benchmarks.table import read_table

    return f"labels of your own, {cfg.data.annotations}", read_table(Path(cfg.data.annotations))


def _read_folder(cfg: DictConfig) -> tuple[str, Benchmark]:
    """Copies are planned when their features are made: the plan is in the store."""
    from muvr_train.features.copies import read_plan
    from muvr_train.runner.copies import open_copies

    if cfg.data.features:
        return f"edited copies, {cfg.data.features}", read_plan(Path(cfg.data.features)).benchmark()
    corpus, _, benchmark = open_copies(cfg, "cpu")
    return corpus, benchmark


def _read_annotated(cfg: DictConfig) -> tuple[str, Benchmark]:
    from muvr_train.runner.annotated import read_annotated

    return read_annotated(cfg)


def _read_custom(cfg: DictConfig) -> tuple[str, Benchmark]:
    from muvr_train.runner.custom import read_corpus

    return read_corpus(cfg)


READERS = {
    "demo": _read_demo,
    "muvr": _read_muvr,
    "table": _read_table,
    "folder": _read_folder,
    "annotated": _read_annotated,
    "custom": _read_custom,
}
