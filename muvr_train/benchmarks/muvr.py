"""Reader of MUVR's retrieval annotations (arXiv 2510.21406), with the official evaluator's meaning of every oddity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from muvr_train.benchmarks.muvr_files import (
    Faults,
    Id,
    Record,
    find_folders,
    id_lists,
    load_files,
    records,
    text_of,
    topic_of,
)
from muvr_train.benchmarks.muvr_filter import filter_judgements
from muvr_train.benchmarks.topics import search_topics
from muvr_train.benchmarks.types import MATCH, Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError

Filters = bool | Literal["any", "beside"]
POSITIVE = "pos_all"
NEGATIVE = ("independent", "hard_independent")
FINEST_FIRST = ("copy and event", "copy", "event")
"""Levels by how close the correspondence is; other names of relations follow in alphabetical order."""


def read_muvr(annotations: Path, *, partitions: Sequence[str] | None = None, filters: Filters = False) -> Benchmark:
    """Read MUVR-Base, with `filters` MUVR-Filter, or MUVR-Base with tag expressions beside it.

    The queries of a partition are the entries of `videos.json` that are flagged and in `queries_en.json`; its database
    is the union of all lists of all relations, in the order of `videos.json`; positives are `pos_all` and nothing else.
    A query that lists itself keeps itself among its positives. Queries have no split yet (`splits.apply_splits`).

    Args:
        annotations: Folder with `<partition>/*.json`, or one above it (of `annotations/retrieval/<partition>/*.json`).
        partitions: Names to read, None for all; `geng` means others and `animal` instance.
        filters: Read the tag expressions as well, into `Partition.filters`; "any" also where there are none; "beside"
            as a mode of MUVR-Base: those that cannot be read are skipped with a warning, and doubtful ones pass.

    Returns:
        The benchmark, its `warnings` with one line per file and kind of oddity.

    Raises:
        DataError: a folder or file is missing, is not JSON, has wrong types, or refers to unknown ids. All faults of
            all partitions are in the one message, by file and id.
    """
    faults = Faults()
    folders = find_folders(Path(annotations), partitions, faults)
    read = [_read_partition(name, folder, faults, filters) for name, folder in folders.items()]
    if filters is True and not faults.errors and not any(part.filters for part in read if part is not None):
        raise DataError(f"annotations: {annotations} has no tag expression: query_tag_lists.json is empty everywhere")
    faults.raise_errors(Path(annotations))
    protocol = {"split": "all", "gallery": "full", "split_source": "none"}
    kept = tuple(partition for partition in read if partition is not None)
    beside = filters == "beside"
    name = "muvr_filter" if filters and not beside else "muvr_base"
    return Benchmark(name, kept, protocol, tuple(Faults.lines(faults.warnings)), filters_beside=beside)


@dataclass(frozen=True)
class _Video:
    key: str
    flagged: bool
    topic: str | None


def _read_partition(name: str, folder: Path, faults: Faults, filters: Filters) -> Partition | None:
    content = load_files(folder, faults)
    if content is None:
        return None
    videos = _videos(name, content["videos"], f"{folder.name}/videos.json", faults)
    asked = _asked(content["queries_en"], videos, folder.name, faults)
    tags = _tags(content["query_tags"], asked, f"{folder.name}/query_tags.json", faults)
    file = f"{folder.name}/query_rel_lists.json"
    lists = id_lists(content["query_rel_lists"], file, "rel_lists", videos, asked, faults)
    tag_file = f"{folder.name}/query_tag_lists.json"
    tag_lists = id_lists(content["query_tag_lists"], tag_file, "tag_lists", videos, asked, faults)
    if faults.errors:
        return None
    judgements = {
        number: _judgement(videos[number].key, lists.get(number, {}), videos, file, faults) for number in asked
    }
    positives = {judgement.query: judgement.positives for judgement in judgements.values()}
    topics = search_topics(
        name, {videos[number].key: _topic(asked[number], videos[number]) for number in asked}, positives
    )
    queries = tuple(_query(name, videos[number].key, asked[number], tags.get(number, ()), topics) for number in asked)
    for query in queries:
        if query.text is None:
            faults.warn(f"{folder.name}/queries_en.json", "queries without a text", query.id)
    listed = frozenset().union(*(judgement.listed for judgement in judgements.values()))
    database = tuple(dict.fromkeys(video.key for video in videos.values() if video.key in listed))
    partition = Partition(
        name, queries, tuple(judgements.values()), database, _video_topics(name, videos, positives, topics)
    )
    if not filters:
        return partition
    listed_by = {
        videos[number].key: {text: [videos[video].key for video in ids] for text, ids in lists.items()}
        for number, lists in tag_lists.items()
    }
    found = Faults() if filters == "beside" else faults
    read = replace(partition, filters=filter_judgements(queries, listed_by, positives, tag_file, found))
    if filters == "beside":
        faults.warnings.update({(file, f"{what} (skipped)"): items for (file, what), items in found.errors.items()})
    return read


def _videos(partition: str, content: object, file: str, faults: Faults) -> dict[Id, _Video]:
    videos: dict[Id, _Video] = {}
    numbers: dict[str, Id] = {}
    for number, entry in records(content, file, "id", faults):
        path = text_of(entry, "frames_path", file, number, faults)
        flag = entry.get("is_query")
        if not isinstance(flag, int):
            faults.error(file, "'is_query' must be 0 or 1", f"id {number} has {flag!r}")
        elif not path or not path.split("/")[-1]:
            faults.error(file, "'frames_path' must end with the video's id", f"id {number} has {path!r}")
        else:
            video = _Video(f"{partition}/{path.split('/')[-1]}", flag == 1, topic_of(entry, file, number, faults))
            other = numbers.setdefault(video.key, number)
            previous = videos.get(number, video if other == number else videos[other])
            if number in videos and previous.key != video.key:
                faults.error(file, "one id for two videos", f"{number}: {previous.key}, {video.key}")
            elif (number in videos or other != number) and (video.flagged or previous.flagged):
                faults.error(file, "query entries that stand twice (the query would count twice)", f"{video.key}")
            elif number in videos or other != number:
                faults.warn(file, "videos that stand twice (they count once)", f"{video.key}")
            videos[number] = video
    return videos


def _asked(content: object, videos: Mapping[Id, _Video], folder: str, faults: Faults) -> dict[Id, Record]:
    """The retained queries: id -> entry of queries_en.json, in the order of videos.json."""
    file = f"{folder}/queries_en.json"
    described: dict[Id, Record] = {}
    for number, entry in records(content, file, "id", faults):
        if number in described:
            faults.warn(file, "queries that stand twice (the last entry counts)", number)
        described[number] = entry
        text_of(entry, "prompt_en", file, number, faults)
        text_of(entry, "split", file, number, faults)
        topic_of(entry, file, number, faults)
        path = text_of(entry, "frames_path", file, number, faults)
        if number not in videos:
            faults.warn(file, "queries that are not in videos.json skipped", number)
        elif not videos[number].flagged:
            faults.warn(file, "queries that videos.json does not flag as such skipped", number)
        elif path is not None and path.split("/")[-1] != videos[number].key.split("/")[-1]:
            faults.warn(file, "'frames_path' differs from that of videos.json, which counts", number)
    flagged = [number for number, video in videos.items() if video.flagged]
    for number in flagged:
        if number not in described:
            faults.warn(f"{folder}/videos.json", "flagged as query but not in queries_en.json, skipped", number)
    asked = {number: described[number] for number in flagged if number in described}
    if not asked and not faults.errors:
        faults.error(file, "no query: no entry is flagged is_query=1 in videos.json")
    return asked


def _tags(content: object, asked: Collection[Id], file: str, faults: Faults) -> dict[Id, tuple[str, ...]]:
    numbers = {str(number): number for number in asked}
    tags: dict[Id, tuple[str, ...]] = {}
    for key, value in content.items() if isinstance(content, dict) else ():
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            faults.error(file, "tags must be an array of strings", f"query {key}")
        elif key in numbers:
            tags[numbers[key]] = tuple(value)
        else:
            faults.warn(file, "tags of unknown queries skipped", key)
    return tags


def _judgement(
    query: str, lists: Mapping[str, Sequence[Id]], videos: Mapping[Id, _Video], file: str, faults: Faults
) -> Judgement:
    keys = {relation: {videos[number].key: None for number in ids} for relation, ids in lists.items()}
    levels = [relation for relation in keys if relation not in (POSITIVE, *NEGATIVE)]
    levels.sort(key=lambda relation: (FINEST_FIRST.index(relation) if relation in FINEST_FIRST else 99, relation))
    positives = {
        video: next((relation for relation in levels if video in keys[relation]), MATCH)
        for video in keys.get(POSITIVE, {})
    }
    listed = {video for relation in keys.values() for video in relation}
    if POSITIVE not in keys:
        faults.warn(file, f"queries without a '{POSITIVE}' list (left out of mAP, negatives in uAP)", query)
    if query in positives:
        faults.warn(file, "queries that are their own positives (cannot be found, but count as positives)", query)
    if any(keys[relation].keys() - positives.keys() for relation in levels):
        faults.warn(file, f"queries with a finer relation that goes beyond '{POSITIVE}' (not positives)", query)
    if any(keys.get(relation, {}).keys() & positives.keys() for relation in NEGATIVE):
        faults.warn(file, f"queries with videos both in '{POSITIVE}' and independent (positives)", query)
    negatives = frozenset(listed - positives.keys())
    hard = frozenset(keys.get("hard_independent", {})) & negatives
    return Judgement(query, positives, negatives, hard, counted=POSITIVE in keys)


def _topic(entry: Record, video: _Video) -> str | None:
    topic = entry.get("topic_id")
    return video.topic if topic is None else str(topic)


def _query(partition: str, key: str, entry: Record, tags: tuple[str, ...], topics: Mapping[str, str]) -> Query:
    text, split = entry.get("prompt_en"), entry.get("split")
    return Query(
        id=key,
        partition=partition,
        topic=topics[key],
        text=text if isinstance(text, str) and text.strip() else None,
        tags=tags,
        annotated_split=split if isinstance(split, str) else None,
    )


def _video_topics(
    partition: str,
    videos: Mapping[Id, _Video],
    positives: Mapping[str, Collection[str]],
    topics: Mapping[str, str],
) -> dict[str, frozenset[str]]:
    gathered: dict[str, set[str]] = {}
    for video in videos.values():
        if video.topic is not None:
            gathered.setdefault(video.key, set()).add(f"{partition}/{video.topic}")
    for query, found in positives.items():
        for key in found:
            gathered.setdefault(key, set()).add(topics[query])
    return {key: frozenset(names) for key, names in gathered.items()}
