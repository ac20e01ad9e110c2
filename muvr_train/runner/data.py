"""From a config to a feature store and a benchmark with splits."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.copies_draw import NAME as COPIES
from muvr_train.benchmarks.holes import without_missing
from muvr_train.benchmarks.leakage import HeldOut, drop_leaks, find_leaks
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.published import is_whole_muvr
from muvr_train.benchmarks.splits import apply_splits, keep_partitions, refuse_unknown_partitions, split_by_fold
from muvr_train.benchmarks.types import Benchmark
from muvr_train.cache import cache_root
from muvr_train.data.batch import unfit_regions
from muvr_train.errors import ConfigError
from muvr_train.evaluation import Protocol
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.features.texts import tag_texts_of, texts_of
from muvr_train.memory import parse_bytes
from muvr_train.runner.annotated import open_annotated
from muvr_train.runner.custom import open_custom
from muvr_train.runner.extracted import extracted
from muvr_train.runner.overview import print_overview
from muvr_train.runner.table import open_table
from muvr_train.search.filter_scores import TagSettings

log = logging.getLogger(__name__)
EVALUATED_ONLY = "annotated"
"""The kind of data of benchmarks without a training part."""


@dataclass
class Data:
    """What a run works on: features (None where scores are at hand), and a benchmark whose queries have a split."""

    kind: str
    corpus: str
    features: FeatureStore | None
    benchmark: Benchmark
    gallery: str
    regime: str
    training: Benchmark | None = None
    leakage: str = "not checked (nothing is trained)"
    train_partitions: Sequence[str] | None = None

    @property
    def store(self) -> FeatureStore:
        """The features.

        Raises:
            ValueError: there are none.
        """
        if self.features is None:
            raise ValueError(f"{self.corpus}: opened without features")
        return self.features

    @property
    def is_released(self) -> bool:
        """Whether it is the released data, beside which published figures may stand; of MUVR told by its size."""
        return self.kind == EVALUATED_ONLY or (self.kind == "muvr" and is_whole_muvr(self.benchmark))

    def part(self, split: str) -> Benchmark:
        """Reduce the benchmark to one split (or all) of its queries."""
        if split == "all":
            return self.benchmark.select("all", "full")
        return self.benchmark.select(split, self.gallery)  # type: ignore[arg-type]

    @cached_property
    def train_videos(self) -> Sequence[str]:
        """Give what may be learned from without labels: the training part's videos that match no held-out query.

        Left out are also other cuts of such videos' uploads, and the same features under other ids.
        Empty for a benchmark that is only evaluated.
        """
        if self.kind == EVALUATED_ONLY:
            return []
        held_out = HeldOut(self.benchmark, self.digests)
        return [video for video in self.train_part.video_ids if not held_out.match(video, self.digests.get(video))]

    @property
    def trained_queries(self) -> frozenset[str]:
        """Names of the queries that are trained on (see `query_names`)."""
        return query_names(self.train_part)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The features of the benchmark's videos, hashed: equal ones are one video, whatever their ids."""
        return {} if self.features is None else digests_of(self.features, self.benchmark.video_ids)

    @cached_property
    def train_part(self) -> Benchmark:
        """Reduce the benchmark to the training queries of `train_partitions`, without leaks and missing videos."""
        part = keep_partitions((self.training or self.benchmark).select("train", "split"), self.train_partitions)
        part, missing = without_missing(part, self.store.has)
        if missing:
            log.warning("%d ids of the training part have no features and are left out of training", missing)
        return part

    def transductive(self, split: str) -> bool:
        """Whether a self-supervised training saw database videos of the split (without labels)."""
        known = self.features is not None and self.regime != "supervised"
        return known and bool(set(self.train_videos) & set(self.part(split).video_ids))

    def baseline_protocol(self, protocol: Protocol) -> Protocol:
        """Give the untrained rows text modes and tags only where texts live in the space of the frames."""
        if self.store.manifest.get("text_aligned"):
            return replace(protocol, tags=replace(protocol.tags, upper_bound=False))
        return replace(protocol, modes=("v",), tags=TagSettings((), logic=False, upper_bound=False))

    def print_overview(self, cfg: DictConfig, device: str) -> None:
        """Print the table a run begins with."""
        precision = str(cfg.trainer.get("precision", 32))
        only = "" if self.train_partitions is None else f"; trained on {', '.join(self.train_partitions)} only"
        corpus, leakage = self.corpus + only, self.leakage
        print_overview(corpus, self.store, self.benchmark, cfg.expected_encoder, leakage, device, precision)


def query_names(benchmark: Benchmark) -> frozenset[str]:
    """Name a benchmark's queries as checkpoints remember them: by their ids, or copies of a video by the video."""
    return frozenset(query.topic if benchmark.name == COPIES else query.id for query in benchmark.queries)


def protocol_of(cfg: DictConfig) -> Protocol:
    """Read the evaluation protocol from a config."""
    modes = None if cfg.get("scores") else cfg.benchmark.modes  # a score file brings its own
    return Protocol(
        modes=None if modes is None else tuple(modes),
        ks=tuple(cfg.benchmark.ks),
        ties=cfg.benchmark.ties,
        on_missing=cfg.on_missing,
        memory_budget=None if cfg.get("memory_budget") is None else parse_bytes(cfg.memory_budget),
        tags=tags_of(cfg),
    )


def tags_of(cfg: DictConfig) -> TagSettings:
    """Read what rows of MUVR-Filter are asked for (the defaults for other benchmarks, which have none)."""
    if cfg.benchmark.name != "muvr_filter":
        return TagSettings()
    asked = cfg.benchmark.tag_mode
    modes = (asked,) if isinstance(asked, (int, float)) else asked
    return TagSettings(tuple(float(mode) for mode in modes), cfg.benchmark.logic, cfg.benchmark.upper_bound)


def open_data(cfg: DictConfig, device: str = "cpu", training: bool = True) -> Data:
    """Open (and where needed render, extract or import) what the config names.

    Raises:
        ConfigError: keys that do not go together.
        DataError: missing, broken or empty folders, files and features.
    """
    kind = cfg.data.kind
    if kind not in OPENERS:
        raise ConfigError(f"data.kind={kind}: choose from {', '.join(OPENERS)}")
    corpus, store, benchmark = OPENERS[kind](cfg, device)
    if unfit := unfit_regions(store):
        log.warning(unfit)
    if kind == EVALUATED_ONLY:
        return Data(kind, corpus, store, benchmark, cfg.benchmark.gallery, cfg.data.regime)
    chosen = None if cfg.data.train_partitions is None else list(cfg.data.train_partitions)
    refuse_unknown_partitions(benchmark, chosen)
    benchmark = apply_splits(benchmark, cfg.benchmark.split_source, list(cfg.data.fractions))
    if cfg.benchmark.get("fold") is not None:
        benchmark = split_by_fold(benchmark, cfg.benchmark.folds, cfg.benchmark.fold)
    data = Data(kind, corpus, store, benchmark, cfg.benchmark.gallery, cfg.data.regime, train_partitions=chosen)
    if training:
        report = find_leaks(benchmark, data.digests)
        data.training, data.leakage = drop_leaks(benchmark, report), "\n".join(report.lines())
    return data


def read_annotation(cfg: DictConfig, annotations: Path) -> Benchmark:
    """Read MUVR-Filter where the config names it, else MUVR-Base with the tag expressions beside it."""
    return read_muvr(annotations, filters=cfg.benchmark.name == "muvr_filter" or "beside")


def digests_of(store: FeatureStore, ids: Sequence[str]) -> dict[str, str]:
    """Hash the features of videos, to find equal ones under two ids."""
    return {
        video: hashlib.blake2b(store.array(video).tobytes(), digest_size=16).hexdigest()
        for video in ids
        if store.has(video)
    }


def _open_demo(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    from muvr_train.demo.corpus import build_demo
    from muvr_train.features.masks import find_masks
    from muvr_train.features.text_hash import HashTextEncoder

    corpus = build_demo(cfg.data.size)
    benchmark = read_annotation(cfg, corpus.annotations)
    benchmark = replace(benchmark, protocol={**benchmark.protocol, "corpus": corpus.name})
    if cfg.data.features:
        path = Path(cfg.data.features)
    else:
        texts, tags = texts_of(benchmark), tag_texts_of(benchmark)
        masks = find_masks(corpus.masks, benchmark)
        path = extracted(cfg, corpus.videos, device, texts, HashTextEncoder(), tags=tags, masks=masks)
    store = open_features(path, cache_root(), cfg.residency, device)
    return f"built-in corpus, size {cfg.data.size} (shows the machinery; no claim about MUVR)", store, benchmark


def _open_muvr(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    benchmark = read_annotation(cfg, Path(cfg.data.annotations))
    if cfg.data.features is None and cfg.data.videos is None:
        raise ConfigError("data=muvr needs data.features=STORE_OR_FOLDER, or data.videos=DIR to extract from")
    path = (
        Path(cfg.data.features)
        if cfg.data.features
        else extracted(cfg, Path(cfg.data.videos), device, texts_of(benchmark), tags=tag_texts_of(benchmark))
    )
    store = open_features(path, cache_root(), cfg.residency, device)
    return f"MUVR layout, {cfg.data.annotations}", store, benchmark


def _open_folder(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    from muvr_train.runner.copies import open_copies

    opened: tuple[str, FeatureStore, Benchmark] = open_copies(cfg, device)
    return opened


OPENERS = {
    "demo": _open_demo,
    "muvr": _open_muvr,
    "folder": _open_folder,
    "table": open_table,
    "custom": open_custom,
    EVALUATED_ONLY: open_annotated,
}
