"""What a feature store holds: every vector is read once, video after video, in bounded memory."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.doctor.findings import Finding, Level, plural, spread
from muvr_train.features.progress import track
from muvr_train.features.status import FILE, TRUNCATED, read_statuses
from muvr_train.features.store import FeatureStore, tag_key

LONGEST_REASON = 120
SHOW_PROGRESS = 2000
"""Entries from which on a bar is shown."""


@dataclass
class Scan:
    """One stream, read once.

    Attributes:
        digests: id -> digest of its features.
        frames: Frames of each entry.
        norms: Median norm of the finite vectors of each entry.
        lowest: Smallest finite norm.
        highest: Largest finite norm.
        broken: Ids with values that are not finite.
        zero: Ids with a vector of zeros.
    """

    digests: dict[str, str] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    lowest: float = np.inf
    highest: float = 0.0
    broken: list[str] = field(default_factory=list)
    zero: list[str] = field(default_factory=list)


def scan_stream(store: FeatureStore, stream: str, progress: bool = True) -> Scan:
    """Read every vector of a stream; of each entry a few numbers are kept."""
    scan, ids = Scan(), store.ids(stream)
    show = progress and len(ids) >= SHOW_PROGRESS
    for name in track(ids, len(ids), f"reading stream {stream}", show):
        array = store.array(name, stream)
        scan.digests[name] = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
        scan.frames.append(len(array))
        rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            scan.broken.append(name)
        norms = np.sqrt(np.einsum("nd,nd->n", rows[finite], rows[finite]))
        if len(norms):
            scan.norms.append(float(np.median(norms)))
            scan.lowest, scan.highest = min(scan.lowest, float(norms.min())), max(scan.highest, float(norms.max()))
            if (norms == 0).any():
                scan.zero.append(name)
    return scan


def examine_store(store: FeatureStore) -> Iterator[Finding]:
    """Encoder and sizes, and what the extraction could not make."""
    manifest = store.manifest
    sizes = ", ".join(
        f"{name} {len(store.ids(name))} x {store.shape(name)[0]} x {store.shape(name)[1]}" for name in store.streams
    )
    encoder = str(manifest.get("encoder", "unknown"))
    texts = f", texts by {manifest['text_encoder']}" if manifest.get("text_encoder") else ""
    text = f"{encoder}{texts}; {sizes or 'empty'} (entries x regions x size); {store.path}"
    yield Finding("store", "ok", text, values={"encoder": encoder, "streams": list(store.streams)})
    if encoder.startswith("unknown"):
        yield Finding("store", "note", "the store does not say which encoder made the features")
    yield from _failures(store.path / "failures.csv")
    yield from _statuses(store.path)


def _failures(path: Path) -> Iterator[Finding]:
    """What the extraction or the import could not make, with reasons: its first column is the id, its last why."""
    if not path.is_file():
        return
    rows = [row for row in csv.reader(path.read_text(encoding="utf-8", errors="replace").splitlines()) if row][1:]
    if rows:
        text = f"{plural(len(rows), 'entry', 'entries')} could not be made (all in {path})"
        yield Finding("store", "warning", text, [f"{row[0]} ({_brief(row[-1])})" for row in rows])


def _statuses(path: Path) -> Iterator[Finding]:
    """What the extraction could not make, and of which videos it has only a part."""
    statuses = read_statuses(path).values()
    for text, chosen in (
        ("could not be extracted", [status for status in statuses if status.failed]),
        ("cut off or damaged (the frames that decode are used)", [s for s in statuses if s.status == TRUNCATED]),
    ):
        if chosen:
            listed = [f"{status.id} ({status.status}: {_brief(status.reason)})" for status in chosen]
            yield Finding("store", "warning", f"{plural(len(chosen), 'video')} {text} (all in {path / FILE})", listed)


def _brief(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 3]}..."


def examine_values(stream: str, scan: Scan) -> Iterator[Finding]:
    """Norms, frames, zeros and values that are not finite."""
    if not scan.digests:
        return
    check = f"values of {stream}"
    if scan.norms:
        text = f"norms {scan.lowest:.3g} / {float(np.median(scan.norms)):.3g} / {scan.highest:.3g}"
        if stream in ("video", "fine"):
            text += f", frames per video {spread(scan.frames)}"
        norms = {"min": scan.lowest, "median": float(np.median(scan.norms)), "max": scan.highest}
        yield Finding(check, "ok", text, values={"norms": norms, "entries": len(scan.digests)})
    if scan.broken:
        what = f"{plural(len(scan.broken), 'entry', 'entries')} with NaN or infinity"
        yield Finding(check, "error", what, scan.broken)
    if scan.zero:
        what = f"{plural(len(scan.zero), 'entry', 'entries')} with a vector of zeros (its cosine with anything is 0)"
        yield Finding(check, "warning", what, scan.zero)


def examine_duplicates(benchmark: Benchmark | None, digests: Mapping[str, str]) -> Finding:
    """Videos with equal features under several ids, and whether a query labels them differently."""
    groups: dict[str, list[str]] = {}
    for name, digest in digests.items():
        groups.setdefault(digest, []).append(name)
    twins = [sorted(names) for names in groups.values() if len(names) > 1]
    if not twins:
        return Finding("duplicates", "ok", "no two videos have equal features")
    text = f"{plural(len(twins), 'group')} of videos with equal features"
    if benchmark is not None and (torn := _torn(benchmark, twins)):
        text += f"; {plural(len(torn), 'query', 'queries')} with a match whose twin is no match ({torn[0]} ...)"
    return Finding("duplicates", "warning", text, [" = ".join(names) for names in twins], {"groups": twins})


def _torn(benchmark: Benchmark, twins: Sequence[Sequence[str]]) -> list[str]:
    of = {name: names for names in twins for name in names}
    torn = []
    for partition in benchmark.partitions:
        searched, own = frozenset(partition.database), {query.id: query.video_id for query in partition.queries}
        for row in partition.judgements:
            free = searched - row.positives.keys() - row.ignored - {own[row.query]}
            if any(twin in free for video in row.positives for twin in of.get(video, ())):
                torn.append(row.query)
    return list(dict.fromkeys(torn))


def examine_missing(benchmark: Benchmark, store: FeatureStore, strict: bool) -> Iterator[Finding]:
    """Features that the benchmark needs and the store lacks.

    Args:
        benchmark: what is needed.
        store: what is there.
        strict: whether an evaluation would stop (`on_missing=error`).
    """
    needed = {"videos": [video for video in benchmark.video_ids if not store.has(video)]}
    if "fine" in store.streams:
        needed["fine regions"] = [video for video in benchmark.video_ids if not store.has(video, "fine")]
    with_text = [query.id for query in benchmark.queries if query.text]
    if with_text and "text" in store.streams:
        needed["texts"] = [query for query in with_text if not store.has(query, "text")]
    elif with_text:
        yield Finding("missing texts", "note", "the store has no text vectors: only video queries are used")
    for what, absent in needed.items():
        level: Level = "ok" if not absent else "error" if strict else "warning"
        total = len(with_text) if what == "texts" else len(benchmark.video_ids)
        text = f"{len(absent)} of {total} have no features" if absent else f"none, all {total} are there"
        yield Finding(f"missing {what}", level, text, absent)
    yield from _missing_tags(benchmark, store, strict)
    spare = len(set(store.ids()) - set(benchmark.video_ids))
    if spare:
        yield Finding("store", "note", f"not in the benchmark: {plural(spare, 'video')} of the store")


def _missing_tags(benchmark: Benchmark, store: FeatureStore, strict: bool) -> Iterator[Finding]:
    needed = [pair for partition in benchmark.partitions for row in filter_rows(partition) for pair in row.pairs]
    known = [(query.id, tag.strip(" +-")) for query in benchmark.queries for tag in query.tags]  # signs are no part
    pairs = dict.fromkeys(needed or known)
    if not pairs:
        return
    level: Level = "note" if not needed else "error" if strict else "warning"
    if "tags" not in store.streams:
        text = "the store has no tag vectors: queries cannot be filtered by tags"
        yield Finding("missing tags", level, text)
        return
    absent = [f"{tag} of {query}" for query, tag in pairs if not store.has(tag_key(query, tag), "tags")]
    text = f"{len(absent)} of {len(pairs)} have no vector" if absent else f"none, all {len(pairs)} are there"
    if absent and not needed:
        text += " (only benchmark=muvr_filter looks at tags)"
    yield Finding("missing tags", level if absent else "ok", text, absent)
