"""The entries of a table of labels: checked one by one and against each other, every fault noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muvr_train.benchmarks.muvr_files import Faults
from muvr_train.benchmarks.table_files import (
    QUERIES,
    RELEVANCE,
    VIDEOS,
    Known,
    Row,
    flag_of,
    id_of,
    label_of,
    text_field,
)
from muvr_train.benchmarks.types import SPLITS

ALL = "all"
"""The one partition where no column names any."""
HARD = "hard"
"""The level of a non-match that training prefers (as MUVR's hard_independent)."""


@dataclass(frozen=True)
class Video:
    """A line of videos.csv."""

    partition: str
    topic: str | None
    split: str | None
    gallery: bool
    path: str | None


@dataclass(frozen=True)
class Asked:
    """A line of queries.jsonl, completed by what its video says."""

    video: str
    partition: str
    topic: str | None
    split: str | None
    text: str | None
    tags: tuple[str, ...]
    mask: str | None


@dataclass(frozen=True)
class Label:
    """What a line of relevance.csv says of its pair: `label` 1, 0 or -1."""

    label: int
    level: str | None


def parse_videos(rows: list[Row], faults: Faults) -> dict[str, Video]:
    """Id -> video, in order."""
    videos: dict[str, Video] = {}
    for row in rows:
        if row.broken is not None:
            continue
        name = id_of(row, "video", VIDEOS, faults)
        partition = row.text("partition")
        if "partition" in row.values and partition is None:
            faults.error(VIDEOS, "videos without a partition, in a file that has this column", row.at(name))
        partition = ALL if partition is None else partition.strip()
        if "/" in partition or partition == "mean":
            faults.error(VIDEOS, "a partition cannot be called 'mean', nor have a / in its name", row.at(partition))
        _check_split(row, VIDEOS, faults)
        gallery = flag_of(row, "gallery", VIDEOS, faults)
        if name is not None and name in videos:
            faults.error(VIDEOS, "videos that stand twice", row.at(repr(name)))
        elif name is not None:
            videos[name] = Video(partition, row.text("topic"), row.text("split"), gallery, row.text("path"))
    return videos


def _check_split(row: Row, file: str, faults: Faults) -> None:
    split = row.text("split")
    if split is not None and split not in SPLITS:
        faults.error(file, f"'split' must be {', '.join(SPLITS)} or blank", row.at(repr(split)))


def parse_queries(
    rows: list[Row], videos: Mapping[str, Video], known: Known | None, faults: Faults
) -> dict[str, Asked]:
    """Query id -> query; `known` None where videos.csv could not be read: then no reference is checked."""
    partitions = {video.partition for video in videos.values()}
    asked: dict[str, Asked] = {}
    for row in rows:
        if row.broken is not None:
            continue
        name, video = (id_of(row, key, QUERIES, faults) for key in ("id", "video"))
        fields = {key: text_field(row, key, QUERIES, faults) for key in ("text", "mask", "topic", "split", "partition")}
        tags = _tags(row, faults)
        _check_split(row, QUERIES, faults)
        if name is not None and name in asked:
            faults.error(QUERIES, "query ids that stand twice", row.at(repr(name)))
        if name is None or video is None or known is None or name in asked or video in known.faulty:
            continue
        if video not in known:
            faults.error(QUERIES, f"videos that are not in {VIDEOS}", row.at(known.missing(video)))
            continue
        own = videos[video]
        partition = fields["partition"] or own.partition
        if partition not in partitions:
            has = ", ".join(sorted(partitions))
            faults.error(QUERIES, f"partitions that {VIDEOS} does not have (it has {has})", row.at(repr(partition)))
        topic, split = fields["topic"] or own.topic, fields["split"] or own.split
        asked[name] = Asked(video, partition, topic, split, fields["text"], tags, fields["mask"])
    return asked


def _tags(row: Row, faults: Faults) -> tuple[str, ...]:
    tags = row.values.get("tags")
    if tags is None:
        return ()
    if not isinstance(tags, list) or not all(isinstance(tag, str) and tag.strip(" +-") for tag in tags):
        faults.error(QUERIES, '\'tags\' must be a list of texts, such as ["+indoor", "-crowd"]', f"line {row.line}")
        return ()
    if len(set(tags)) < len(tags):
        faults.warn(QUERIES, "tags that stand twice for one query (they count once)", f"line {row.line}")
    return tuple(dict.fromkeys(tags))


def parse_labels(
    rows: list[Row],
    videos: Mapping[str, Video],
    asked: Mapping[str, Asked],
    known: tuple[Known, Known],
    faults: Faults,
) -> dict[str, dict[str, Label]]:
    """Query id -> video id -> label, without those of the query's own video; `known` are queries and videos."""
    labels: dict[str, dict[str, Label]] = {}
    for row in rows:
        if row.broken is not None:
            continue
        query = _reference(row, "query", known[0], faults)
        video = _reference(row, "video", known[1], faults)
        label = label_of(row, faults)
        if query is None or video is None or label is None:
            continue
        pair, found = row.at(f"{query!r}, {video!r}"), Label(label, row.text("level"))
        if label == 0 and found.level not in (None, HARD):
            faults.warn(RELEVANCE, f"levels of non-matches other than '{HARD}' (not read)", row.at(repr(found.level)))
        if video == asked[query].video:
            faults.warn(RELEVANCE, "labels of a query's own video (never counted)", pair)
        elif videos[video].partition != asked[query].partition or not videos[video].gallery:
            what = "labels of videos that the query does not search (another partition, or gallery: no)"
            faults.error(RELEVANCE, what, pair)
        else:
            before = labels.setdefault(query, {}).setdefault(video, found)
            if before != found:
                faults.error(RELEVANCE, "pairs with two different labels or levels", pair)
            elif before is not found:
                faults.warn(RELEVANCE, "pairs that stand twice (they count once)", pair)
    return labels


def _reference(row: Row, name: str, known: Known, faults: Faults) -> str | None:
    value = row.text(name)
    if value is not None and value in known:
        return value
    value = id_of(row, name, RELEVANCE, faults)
    if value is None or value in known.faulty:
        return None
    faults.error(RELEVANCE, f"ids of '{name}' that are not in {known.where}", row.at(known.missing(value)))
    return None
