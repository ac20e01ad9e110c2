"""What is examined: the benchmark and the store that a config names, as far as they are there; nothing is extracted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from muvr_train.benchmarks.custom import read_custom
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.readers import READERS
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.table import read_table, video_files
from muvr_train.benchmarks.types import Benchmark
from muvr_train.cache import cache_root
from muvr_train.doctor.findings import Finding, plural
from muvr_train.errors import MuvrTrainError
from muvr_train.features.cached import find_extracted
from muvr_train.features.copies import read_plan
from muvr_train.features.index import INDEX
from muvr_train.features.listing import Videos, list_videos, match_videos, renamed
from muvr_train.features.masked import mask_digests
from muvr_train.features.masks import find_masks
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.features.texts import tag_texts_of, text_store, texts_of


@dataclass
class Subject:
    """What was found to examine; `findings` says what was not."""

    name: str
    benchmark: Benchmark | None = None
    store: FeatureStore | None = None
    findings: list[Finding] = field(default_factory=list)

    def attempt(self, check: str, step: Callable[[], None]) -> bool:
        """Take a step; a mistake of the data becomes a finding."""
        try:
            step()
        except MuvrTrainError as error:
            self.findings.append(Finding(check, "error", str(error)))
            return False
        return True

    def read(self, read: Callable[[], Benchmark]) -> None:
        """Read the benchmark."""

        def step() -> None:
            self.benchmark = read()

        self.attempt("annotation", step)

    def open(self, path: Path) -> None:
        """Open features; a folder in MUVR's layout and an HDF5 file are imported into the cache first."""

        def step() -> None:
            self.store = open_features(path, cache_root())

        self.attempt("store", step)


def find_subject(cfg: DictConfig) -> Subject:
    """Read and open what the config names; what cannot be is a finding, and the rest is examined."""
    data = cfg.data
    where = data.annotations or cfg.benchmark.get("annotations") or data.videos or data.features or data.get("size")
    subject = Subject(f"data={data.kind} {where or ''}".rstrip())
    FINDERS[data.kind](cfg, subject)
    benchmark = subject.benchmark
    if benchmark is not None and data.kind not in ("folder", "annotated"):
        subject.read(lambda: apply_splits(benchmark, cfg.benchmark.split_source, list(data.fractions)))
    return subject


def _find_demo(cfg: DictConfig, subject: Subject) -> None:
    from muvr_train.demo.corpus import find_demo

    corpus = find_demo(cfg.data.size, cache_root())
    if corpus is None:
        text = "the built-in corpus is not in the cache: the first run of train.py or evaluate.py renders it"
        subject.findings.append(Finding("annotation", "note", text))
        return
    subject.read(lambda: read_muvr(corpus.annotations, filters=cfg.benchmark.name == "muvr_filter" or "beside"))
    _find_features(cfg, subject, corpus.videos, masks=corpus.masks)


def _find_muvr(cfg: DictConfig, subject: Subject) -> None:
    filters = cfg.benchmark.name == "muvr_filter"
    subject.read(lambda: read_muvr(Path(cfg.data.annotations), filters=filters))
    _find_features(cfg, subject, cfg.data.videos and Path(cfg.data.videos))


def _find_table(cfg: DictConfig, subject: Subject) -> None:
    annotations = Path(cfg.data.annotations)
    subject.read(lambda: read_table(annotations))
    files = None if subject.benchmark is None else video_files(annotations)
    _find_features(cfg, subject, cfg.data.videos and Path(cfg.data.videos), files)


def _find_custom(cfg: DictConfig, subject: Subject) -> None:
    subject.read(lambda: read_custom(cfg.benchmark.reader, Path(cfg.data.annotations), cfg.benchmark.name))
    files = None if subject.benchmark is None else dict.fromkeys(subject.benchmark.video_ids)
    _find_features(cfg, subject, cfg.data.videos and Path(cfg.data.videos), files)


def _find_annotated(cfg: DictConfig, subject: Subject) -> None:
    subject.read(lambda: READERS[cfg.benchmark.name](Path(cfg.benchmark.annotations)))
    files = None if subject.benchmark is None else dict.fromkeys(subject.benchmark.video_ids)
    _find_features(cfg, subject, cfg.data.videos and Path(cfg.data.videos), files)


def _find_folder(cfg: DictConfig, subject: Subject) -> None:
    if cfg.data.features:
        path = Path(cfg.data.features)
        subject.read(lambda: read_plan(path).benchmark())
        subject.open(path)
        return

    if not cfg.data.videos:
        subject.findings.append(Finding("videos", "error", "give data.videos=DIR, or data.features=STORE"))
        return

    def count() -> None:
        videos = list_videos(Path(cfg.data.videos))
        subject.findings.append(Finding("videos", "ok", f"{plural(len(videos), 'file')} in {cfg.data.videos}"))

    if subject.attempt("videos", count):
        text = "the copies are made by the first run; give data.features=STORE to examine those of a run"
        subject.findings.append(Finding("store", "note", text))


def _find_features(
    cfg: DictConfig,
    subject: Subject,
    videos: Path | None,
    files: Mapping[str, str | None] | None = None,
    masks: Path | None = None,
) -> None:
    """Open `data.features`, or the store in the cache that was extracted from `videos`.

    Args:
        cfg: the composed config.
        subject: gets the store.
        videos: a folder of videos.
        files: id -> file of the videos that are wanted of it; None for all.
        masks: a folder of masks whose regions a run adds to the store.
    """
    if cfg.data.features:
        subject.open(Path(cfg.data.features))
    elif videos is None:
        text = "no features are named: only the annotation is examined"
        subject.findings.append(Finding("store", "note", text))
    else:
        items: Videos = []

        def listed() -> None:
            items.extend(renamed(list_videos(videos)) if files is None else match_videos(videos, files)[0])

        if subject.attempt("videos", listed):
            _report_files(subject, videos, {name for name, _ in items}, cfg.on_missing == "error")
            _find_extracted(subject, videos, items, masks)


def _report_files(subject: Subject, videos: Path, there: set[str], strict: bool) -> None:
    needed = subject.benchmark.video_ids if subject.benchmark is not None else ()
    absent = [video for video in needed if video not in there]
    if absent:
        text = f"{len(absent)} of {len(needed)} have no file in {videos}"
        subject.findings.append(Finding("videos", "error" if strict else "warning", text, absent))
    else:
        subject.findings.append(Finding("videos", "ok", f"{plural(len(there), 'file')} in {videos}"))


def _find_extracted(subject: Subject, videos: Path, items: Videos, masks: Path | None = None) -> None:
    found = find_extracted(videos, items, cache_root())
    if not found:
        text = "the features are not extracted yet: the first run of train.py or evaluate.py does it"
        subject.findings.append(Finding("store", "note", text))
        return
    base = next((store for store in found if (store / INDEX).exists()), found[0])
    texts = {**texts_of(subject.benchmark), **tag_texts_of(subject.benchmark)} if subject.benchmark else {}
    if masks is not None and subject.benchmark is not None:
        texts |= mask_digests(find_masks(masks, subject.benchmark))
    with_texts = text_store(base, texts) if texts and (base / INDEX).exists() else base
    subject.open(with_texts if (with_texts / INDEX).exists() else base)
    if len(found) > 1:
        text = f"{len(found)} encoders were used on this folder; the newest store is examined"
        subject.findings.append(Finding("store", "note", text))


FINDERS: Mapping[str, Callable[[DictConfig, Subject], None]] = {
    "demo": _find_demo,
    "muvr": _find_muvr,
    "folder": _find_folder,
    "table": _find_table,
    "annotated": _find_annotated,
    "custom": _find_custom,
}
