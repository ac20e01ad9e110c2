"""Texts, tags and regions of annotated queries, added to the store that holds the frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError
from muvr_train.features.annotations import read_annotations
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.index import INDEX, MANIFEST
from muvr_train.features.listing import Videos
from muvr_train.features.manifest import OPTIONAL, check_same_features, make_manifest
from muvr_train.features.masked import FAILED, FILE, OK, PARTIAL, RegionStatus, add_regions, check_maps
from muvr_train.features.masks import find_masks
from muvr_train.features.placeholders import DEFAULT, rule_manifest
from muvr_train.features.recorded_texts import record_texts
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.shards import read_json, write_json
from muvr_train.features.texts import add_texts, all_tag_texts_of, texts_of
from muvr_train.features.writer import StoreWriter
from muvr_train.launched import rank

TEXT_STREAMS = ("text", "tags")
TEXT_KEYS = ("text_encoder", "text_aligned", "text_seed", "text_windows", "placeholders")
STATUSES = (OK, PARTIAL, FAILED)
MOST_SHOWN = 20


@dataclass(frozen=True)
class Annotations:
    """What is added to a store.

    Attributes:
        benchmark: the queries.
        texts: {"text": {query id: text}, "tags": {key of a tag: tag}}, as they are encoded.
        masks: query id -> file or folder of its masks.
        placeholders: the rule for `<region>` and `<mask...>` in texts.
        changed: how many texts the rule changed.
    """

    benchmark: Benchmark
    texts: Mapping[str, Mapping[str, str]]
    masks: Mapping[str, Path]
    placeholders: str
    changed: int

    def manifest(self) -> dict[str, Any]:
        """What the store records of them."""
        return rule_manifest(self.placeholders)


def load_annotations(
    folder: Path | str, masks: Path | str | None = None, placeholders: str | None = None
) -> Annotations:
    """Read annotations (MUVR's, or labels of your own), and find the masks.

    Raises:
        ConfigError: an unknown rule for placeholders.
        DataError: broken annotations, texts or tags that say nothing, masks of unknown queries.
    """
    rule = DEFAULT if placeholders is None else placeholders
    benchmark = read_annotations(folder)
    texts = texts_of(benchmark, rule)
    found = {} if masks is None else find_masks(masks, benchmark)
    changed = sum(texts[name] != text for name, text in texts_of(benchmark, "keep").items())
    return Annotations(benchmark, {"text": texts, "tags": all_tag_texts_of(benchmark)}, found, rule, changed)


def prepare_store(
    out: Path | str, encoder: FrameEncoder, annotations: Annotations, manifest: Mapping[str, Any] | None = None
) -> None:
    """Before the frames are extracted: refuse what cannot be added; let a store without texts say how they are made.

    Args:
        out: the store; it may not exist yet.
        encoder: makes the frames, and the texts where it can.
        annotations: what is added.
        manifest: of the extraction that follows, with the store's `dtype`; a store that differs is left as it is.

    Raises:
        ConfigError: an encoder without text tower where there are no masks, or without maps where there are some.
        DataError: the store's frames were made differently.
    """
    if not hasattr(encoder, "encode_texts") and not annotations.masks:
        raise ConfigError(
            f"annotations=...: encoder {encoder.name} has no text tower, so it cannot encode texts and tags; choose an "
            "encoder of open_clip, or leave annotations out"
        )
    if annotations.masks and not encoder.needs_fit:
        check_maps(encoder)
    _adopt_text_settings(Path(out), _manifest(encoder, annotations), {**encoder.manifest(), **(manifest or {})})


def _manifest(encoder: FrameEncoder, annotations: Annotations) -> dict[str, Any]:
    return make_manifest(**{**encoder.manifest(), **annotations.manifest()})


def _adopt_text_settings(out: Path, manifest: Mapping[str, Any], frames: Mapping[str, Any]) -> None:
    """Write how the texts are made, where there are none yet and the frames were made as `frames` says."""
    if not (out / MANIFEST).is_file():
        return
    streams = read_json(out / INDEX, "the store's index")["streams"] if (out / INDEX).is_file() else {}
    stored = read_json(out / MANIFEST, "the store's manifest")
    made = {key: value for key, value in frames.items() if key not in (*TEXT_KEYS, *OPTIONAL)}
    there = {key: stored.get(key) for key in made}
    check_same_features(
        there, made, f"The store {out} holds features that were made differently (choose another folder)"
    )
    new = {key: value for key, value in stored.items() if key not in TEXT_KEYS or key in manifest}
    new |= {key: manifest[key] for key in TEXT_KEYS if key in manifest}
    if new != stored and not any(name in streams for name in TEXT_STREAMS) and rank() == 0:
        write_json(out / MANIFEST, new)


@dataclass(frozen=True)
class AnnotationReport:
    """What was added.

    Attributes:
        out: the store.
        rows: what to show, by name.
        regions: what became of each query with masks.
        unusable: which vectors of texts and tags no store can hold, and why.
    """

    out: Path
    rows: Mapping[str, str]
    regions: tuple[RegionStatus, ...] = ()
    unusable: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[RegionStatus, ...]:
        """The queries with masks but without region features."""
        return tuple(status for status in self.regions if status.status == FAILED)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures and not self.unusable

    def lines(self) -> list[str]:
        """The report as a small table."""
        lines = [f"{name:<14}{value}" for name, value in self.rows.items()]
        odd = [status for status in self.regions if status.status != OK]
        more = [f"  {status.status:<12}{status.id}: {status.reason}" for status in odd]
        more += [f"  {FAILED:<12}{reason}" for reason in self.unusable]
        lines += more[:MOST_SHOWN]
        if len(more) > MOST_SHOWN:
            lines.append(f"  ... and {len(more) - MOST_SHOWN} more")
        return lines


def add_annotations(
    out: Path | str,
    encoder: FrameEncoder,
    annotations: Annotations,
    videos: Videos,
    sampler: FrameSampler,
    settings: ExtractSettings | None = None,
) -> AnnotationReport:
    """Add what the store lacks of texts, tags and regions. A kill loses at most `settings.save_every` seconds of work.

    Args:
        out: the store that holds the frames.
        encoder: made the frames.
        annotations: what to add.
        videos: (id, path) of the queries' videos.
        sampler: chooses among the frames that have masks.
        settings: how to run; the store's own dtype counts.

    Raises:
        ConfigError: see `prepare_store`.
        DataError: texts or masks differ from those that the store holds.
    """
    out, settings = Path(out), settings or ExtractSettings()
    prepare_store(out, encoder, annotations)
    stored = read_json(out / MANIFEST, "the store's manifest")
    texts_there, texts_here = (
        {key: made.get(key) for key in TEXT_KEYS} for made in (stored, _manifest(encoder, annotations))
    )
    check_same_features(texts_there, texts_here, f"The store {out} holds texts that were made differently")
    dtype = None if stored["dtype"] == "source" else str(stored["dtype"])
    manifest = {key: value for key, value in stored.items() if key not in ("created_by", "streams", "dtype")}
    rows, unusable = _add_texts(out, manifest, annotations, encoder, dtype)
    statuses: list[RegionStatus] = []
    if annotations.masks:
        with StoreWriter(out, manifest, dtype, settings.shard_mib) as writer:
            new, statuses = add_regions(
                writer, encoder, annotations.masks, _masked_videos(annotations, videos), sampler, settings
            )
        counts = Counter(status.status for status in statuses)
        kinds = ", ".join(f"{counts[kind]} {kind}" for kind in STATUSES if counts[kind])
        rows["regions"] = f"{len(statuses) - counts[FAILED]} ({new} new; {kinds}; see {out / FILE})"
    return AnnotationReport(out, rows, tuple(statuses), tuple(unusable))


def _add_texts(
    out: Path, manifest: Mapping[str, Any], annotations: Annotations, encoder: FrameEncoder, dtype: str | None
) -> tuple[dict[str, str], list[str]]:
    """Add texts and tags; gives the rows of the report, and which vectors no store can hold."""
    if not hasattr(encoder, "encode_texts"):
        return {"texts": f"none: encoder {encoder.name} has no text tower"}, []
    record_texts(out, annotations.texts)
    rows: dict[str, str] = {}
    unusable: list[str] = []
    for stream, texts in annotations.texts.items():
        bad: list[str] = []
        new = add_texts(out, manifest, texts, encoder, dtype, stream=stream, unusable=bad)
        failed = f"; {len(bad)} failed" if bad else ""
        rows["texts" if stream == "text" else stream] = f"{len(texts) - len(bad)} ({new} new{failed})"
        unusable += bad
    if annotations.changed or annotations.placeholders != DEFAULT:
        rows["placeholders"] = f"{annotations.placeholders} ({annotations.changed} texts changed)"
    return rows, unusable


def _masked_videos(annotations: Annotations, videos: Videos) -> dict[str, Path | str]:
    """Query with masks -> the file of its video, or why there is none."""
    paths, queries = dict(videos), annotations.benchmark.query_by_id
    shown = {query: queries[query].video_id for query in annotations.masks}
    return {query: paths.get(video, f"no file of video {video}") for query, video in shown.items()}
