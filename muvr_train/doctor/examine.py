"""The examination: every check in its turn, whatever the others found."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from muvr_train.benchmarks.types import Benchmark
from muvr_train.doctor.features import (
    Scan,
    examine_duplicates,
    examine_missing,
    examine_store,
    examine_values,
    scan_stream,
)
from muvr_train.doctor.findings import Examination, Finding
from muvr_train.doctor.labels import examine_labels, examine_leakage
from muvr_train.doctor.subject import find_subject
from muvr_train.features.store import FeatureStore


def examine(cfg: DictConfig, progress: bool = True) -> Examination:
    """Examine the data set and the features that a config (of evaluate.py) names.

    Args:
        cfg: composed and checked.
        progress: show a bar while a large store is read.
    """
    subject = find_subject(cfg)
    findings = [*subject.findings, *_check(subject.benchmark, subject.store, cfg.on_missing == "error", progress)]
    return Examination(subject.name, tuple(findings))


def _check(benchmark: Benchmark | None, store: FeatureStore | None, strict: bool, progress: bool) -> Iterator[Finding]:
    if benchmark is not None:
        text_encoder = None if store is None else store.manifest.get("text_encoder")
        yield from examine_labels(benchmark, text_encoder)
    scan = Scan()
    if store is not None:
        yield from examine_store(store)
        if benchmark is not None:
            yield from examine_missing(benchmark, store, strict)
        for stream in store.streams:
            read = scan_stream(store, stream, progress)
            yield from examine_values(stream, read)
            scan = read if stream == "video" else scan
        yield examine_duplicates(benchmark, scan.digests)
    if benchmark is not None and all(query.split for query in benchmark.queries):
        yield examine_leakage(benchmark, scan.digests)
