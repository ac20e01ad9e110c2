"""Reader of FIVR-5K and FIVR-200K (arXiv 1809.04094): duplicate, complementary and incident scene videos."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from muvr_train.benchmarks.annotation_files import AnnotationFile
from muvr_train.benchmarks.types import FOUND, Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError

Size = Literal["5k", "200k"]
FILES = ("fivr_audio.pickle", "fivr.pickle")
EASY_DUPLICATES = "fivr_easy_duplicates.txt"
TASKS: Mapping[str, tuple[str, ...]] = {
    "DSVR": ("ND", "DS"),
    "CSVR": ("ND", "DS", "CS"),
    "ISVR": ("ND", "DS", "CS", "IS"),
}
"""The labels that count as matches: near-duplicate, duplicate scene, complementary scene, incident scene."""
LABELS = ("ND", "DS", "CS", "IS", "DA")
"""Closest first. DA, duplicate audio, is of the audio tasks and not used."""
HARD = "_hard"
NOTE = (
    "FIVR: mAP is of the retrieval tasks DSVR, CSVR, ISVR; uAP over the same rankings is of the detection tasks DSVD, "
    "CSVD, ISVD. _hard: without the easy duplicates in the database. mean: of the tasks without _hard."
)


def read_fivr(annotations: Path, size: Size) -> Benchmark:
    """Read FIVR.

    One partition a task, all with the same queries. As the field scores it, a query's own video is in none of its
    rankings, matches are cut to the videos that were scored, and a query without a match is not counted in mAP (its
    videos are still non-matches in uAP). The hard tasks search the database without its easy duplicates.

    Args:
        annotations: `fivr_audio.pickle`, or the folder it is in, with `fivr_easy_duplicates.txt` beside it; without
            that file there are no hard tasks, and a warning.
        size: `5k` or `200k`; the matches of FIVR-5K are those among its 5,000 videos.

    Raises:
        DataError: the file is missing, is refused, or is not what it should be.
    """
    file = AnnotationFile(Path(annotations), FILES)
    name = f"fivr_{size}"
    ids = sorted(file.ids(file.entry(size, "queries"), f"{size} / queries", unique=True))
    database = tuple(sorted(file.ids(file.entry(size, "database"), f"{size} / database", unique=True)))
    if not ids or not database:
        raise DataError(f"{file.path}: {size} has {len(ids)} queries and {len(database)} videos")
    labels = {query: _levels(file, query) for query in ids}
    queries = tuple(Query(query, name, f"{name}/{query}") for query in ids)
    warnings = _outside(name, labels, frozenset(database))
    partitions = [_task(task, queries, labels, database) for task in TASKS]
    easy = _easy_duplicates(file.path.parent / EASY_DUPLICATES)
    if easy is None:
        warnings.append(f"{file.path.parent} holds no {EASY_DUPLICATES}: the hard tasks are left out")
    else:
        hard = tuple(video for video in database if video not in easy)
        partitions += [replace(_task(task, queries, labels, hard), name=task + HARD) for task in TASKS]
    protocol = {"split_source": "none", "positives": FOUND}
    return Benchmark(name, tuple(partitions), protocol, tuple(warnings), averaged=tuple(TASKS), notes=(NOTE,))


def _levels(file: AnnotationFile, query: str) -> dict[str, str]:
    """Video -> its closest label, the query itself left out."""
    lists = file.mapping(file.entry("annotation", query), f"annotation / {query}")
    if unknown := sorted(str(label) for label in lists if label not in LABELS):
        raise DataError(f"{file.path}: annotation / {query} has labels {unknown}; known are {', '.join(LABELS)}")
    levels: dict[str, str] = {}
    for label in TASKS["ISVR"]:
        for video in file.ids(lists.get(label, ()), f"annotation / {query} / {label}"):
            if video != query:
                levels.setdefault(video, label)
    return levels


def _task(
    task: str, queries: tuple[Query, ...], labels: Mapping[str, Mapping[str, str]], database: Sequence[str]
) -> Partition:
    gallery = frozenset(database)
    judgements = tuple(
        Judgement(
            query.id,
            {v: label for v, label in labels[query.id].items() if label in TASKS[task] and v in gallery},
        )
        for query in queries
    )
    return Partition(task, queries, judgements, tuple(database), divisor="found")


def _outside(name: str, labels: Mapping[str, Mapping[str, str]], database: Collection[str]) -> list[str]:
    count = sum(video not in database for found in labels.values() for video in found)
    return [f"{name}: {count} annotated matches are not in its database and are cut"] if count else []


def _easy_duplicates(path: Path) -> frozenset[str] | None:
    try:
        return frozenset(path.read_text(encoding="utf-8").split()) if path.is_file() else None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text file of video ids: {error}") from error
