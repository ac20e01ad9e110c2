"""Reader of your own labels: `videos.csv`, `queries.jsonl` and `relevance.csv` in one folder.

    videos.csv      video, and optionally topic, split, partition, path, gallery
    queries.jsonl   {"id": ..., "video": ..., "text": ..., "tags": [...], "mask": ..., "topic", "split", "partition"}
    relevance.csv   query, video, label (1 match, 0 no match, -1 not judged), and optionally level

The database of a partition are all its videos (but those with `gallery` no), whether labelled or not: an unlabelled one
counts as no match in evaluation. Pairs labelled -1 are left out of a query's ranking and of its training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muvr_train.benchmarks.muvr_files import Faults
from muvr_train.benchmarks.table_entries import HARD, Asked, Label, Video, parse_labels, parse_queries, parse_videos
from muvr_train.benchmarks.table_files import QUERIES, RELEVANCE, VIDEOS, Known, load_table
from muvr_train.benchmarks.topics import search_topics
from muvr_train.benchmarks.types import MATCH, Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError

NAME = "table"


def read_table(folder: Path) -> Benchmark:
    """Read labels of your own.

    A query takes topic, split and partition from its video where it has none itself; queries without a topic are
    grouped by shared matches (`topics.search_topics`). A query's own video is never its match nor its non-match.

    Args:
        folder: holds the three files.

    Returns:
        The benchmark "table". Its queries have no split yet (`splits.apply_splits`); its `warnings` have one line per
        file and kind of oddity.

    Raises:
        DataError: files are missing or broken, ids unknown or repeated, labels contradict. All faults are in the one
            message, by file, line and id.
    """
    folder, faults = Path(folder), Faults()
    if not folder.is_dir():
        raise DataError(f"data.annotations={folder} is not a folder; give the folder with {VIDEOS}, {QUERIES}, ...")
    rows = load_table(folder, faults)
    listed, asking = rows[VIDEOS], rows[QUERIES]
    videos = parse_videos(listed or [], faults)
    known = None if listed is None else Known(videos, VIDEOS, listed, "video")
    asked = parse_queries(asking or [], videos, known, faults)
    labels: dict[str, dict[str, Label]] = {}
    if known is not None and asking is not None:
        both = Known(asked, QUERIES, asking, "id"), known
        labels = parse_labels(rows[RELEVANCE] or [], videos, asked, both, faults)
    faults.raise_errors(folder)
    _warn(asked, labels, faults)
    names = dict.fromkeys(video.partition for video in videos.values())
    partitions = [_partition(name, videos, asked, labels) for name in names]
    kept = tuple(part for part in partitions if any(row.positives for row in part.judgements))
    if not kept:
        raise DataError(f"{folder / RELEVANCE}: no pair has label 1, so nothing can be found")
    for partition in partitions:
        if partition not in kept:
            faults.warn(QUERIES, "partitions without a query that has a match (left out)", partition.name)
    protocol = {"split": "all", "gallery": "full", "split_source": "none"}
    return Benchmark(NAME, kept, protocol, tuple(Faults.lines(faults.warnings)))


def video_files(folder: Path) -> dict[str, str | None]:
    """Video -> its file as `videos.csv` gives it in `path`, None where it does not.

    Raises:
        DataError: the file cannot be used.
    """
    faults = Faults()
    videos = parse_videos(load_table(Path(folder), faults)[VIDEOS] or [], faults)
    faults.raise_errors(folder)
    return {name: video.path for name, video in videos.items()}


def _warn(asked: Mapping[str, Asked], labels: Mapping[str, Mapping[str, Label]], faults: Faults) -> None:
    for name in asked:
        if not any(found.label == 1 for found in labels.get(name, {}).values()):
            what = "queries without a match (left out of mAP; their videos are non-matches in uAP)"
            faults.warn(RELEVANCE, what, name)
    if any(query.split for query in asked.values()):
        for name, query in asked.items():
            if query.split is None:
                faults.warn(QUERIES, "queries without a split, while others have one (so splits go by topic)", name)


def _partition(
    name: str,
    videos: Mapping[str, Video],
    asked: Mapping[str, Asked],
    labels: Mapping[str, Mapping[str, Label]],
) -> Partition:
    chosen = {query: entry for query, entry in asked.items() if entry.partition == name}
    judgements = {query: _judgement(query, labels.get(query, {})) for query in chosen}
    positives = {query: judgement.positives for query, judgement in judgements.items()}
    given = {query: entry.topic for query, entry in chosen.items()}
    topics = search_topics(name, given, positives, {query: entry.video for query, entry in chosen.items()})
    queries = tuple(
        Query(
            id=query,
            partition=name,
            topic=topics[query],
            text=entry.text,
            tags=entry.tags,
            annotated_split=entry.split,
            video=entry.video,
            mask=entry.mask,
        )
        for query, entry in chosen.items()
    )
    of_videos: dict[str, set[str]] = {}
    for video, facts in videos.items():
        if facts.topic is not None and facts.partition == name:
            of_videos.setdefault(video, set()).add(f"{name}/{facts.topic}")
    for query, found in positives.items():
        for video in found:
            of_videos.setdefault(video, set()).add(topics[query])
    database = tuple(video for video, facts in videos.items() if facts.partition == name and facts.gallery)
    return Partition(
        name, queries, tuple(judgements.values()), database, {key: frozenset(value) for key, value in of_videos.items()}
    )


def _judgement(query: str, labels: Mapping[str, Label]) -> Judgement:
    positives = {video: found.level or MATCH for video, found in labels.items() if found.label == 1}
    negatives = frozenset(video for video, found in labels.items() if found.label == 0)
    hard = frozenset(video for video in negatives if labels[video].level == HARD)
    ignored = frozenset(video for video, found in labels.items() if found.label == -1)
    return Judgement(query, positives, negatives, hard, counted=bool(positives), ignored=ignored)
