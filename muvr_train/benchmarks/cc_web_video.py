"""Reader of CC_WEB_VIDEO (Wu, Hauptmann and Ngo, ACM MM 2007): near-duplicates of 24 popular videos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muvr_train.benchmarks.annotation_files import AnnotationFile
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError

FILES = ("cc_web_video.pickle",)
NAME = "cc_web_video"
POSITIVE = ("E", "S", "L", "M", "V")
"""Labels of matches: exact duplicate, similar, longer version, major change, different version."""
SETTINGS: Mapping[str, tuple[bool, bool]] = {
    "cc": (False, False),
    "cc*": (True, False),
    "c": (False, True),
    "c*": (True, True),
}
"""Whether the whole database is searched (*), and whether the cleaned annotation is used (c)."""
NOTE = (
    "CC_WEB_VIDEO: cc ranks the labelled videos of the query's own set, cc* the whole database; c and c* are the same "
    "without the videos that were later found to be labelled wrongly. The query's own video is ranked and is a match."
)


def read_cc_web_video(annotations: Path) -> Benchmark:
    """Read CC_WEB_VIDEO.

    One partition a setting, all with the same queries. As the field scores it, the query's own video is ranked and is
    one of its matches; average precision is divided by all matches of the setting's annotation, found or not, with or
    without a video in the database; and where the annotation is cleaned, an excluded video is neither ranked nor a
    match.

    Args:
        annotations: `cc_web_video.pickle`, or the folder it is in.

    Raises:
        DataError: the file is missing, is refused, or is not what it should be.
    """
    file = AnnotationFile(Path(annotations), FILES)
    videos = _numbers(file)
    names = file.ids(file.items(file.entry("queries"), "queries"), "queries", unique=True)
    file.known(names, videos.values(), "queries", "in index")
    truth = file.items(file.entry("ground_truth"), "ground_truth", length=len(names))
    excluded = file.items(file.entry("excluded"), "excluded", length=len(names))
    sets = [_query_set(file, videos, place, *row) for place, row in enumerate(zip(truth, excluded, strict=True))]
    if not sets:
        raise DataError(f"{file.path}: there is no query")
    database = tuple(sorted(videos.values()))
    queries = tuple(Query(name, NAME, f"{NAME}/{place + 1}") for place, name in enumerate(names))
    everything = frozenset(database)
    partitions = tuple(
        Partition(
            setting,
            queries,
            tuple(row.judge(query, everything, *how) for query, row in zip(names, sets, strict=True)),
            database,
            divisor="annotated",
        )
        for setting, how in SETTINGS.items()
    )
    protocol = {"split_source": "none", "positives": "all annotated ones, found or not, in the database or not"}
    return Benchmark(NAME, partitions, protocol, _warnings(sets, everything), notes=(NOTE,))


@dataclass(frozen=True)
class _QuerySet:
    """The labelled videos of one query, and those that the cleaned annotation leaves out."""

    labels: Mapping[str, str]
    excluded: frozenset[str]

    def judge(self, query: str, database: frozenset[str], whole: bool, clean: bool) -> Judgement:
        without = self.excluded if clean else frozenset()
        positives = {v: label for v, label in self.labels.items() if label in POSITIVE and v not in without}
        ranked = (database if whole else database & self.labels.keys()) - without
        return Judgement(query, positives, ranked=ranked)


def _numbers(file: AnnotationFile) -> dict[int, str]:
    """Number of a video in the annotation -> its id."""
    index = file.mapping(file.entry("index"), "index")
    ids = file.ids(list(index), "the ids of index")
    wrong = [index[name] for name in ids if isinstance(index[name], bool) or not isinstance(index[name], int)]
    if wrong:
        raise file.error("every video's number in index", "a whole number", wrong[0])
    videos = {index[name]: name for name in ids}
    if len(videos) < len(ids):
        raise DataError(f"{file.path}: {len(ids) - len(videos)} numbers in index are those of two videos")
    return videos


def _query_set(
    file: AnnotationFile, videos: Mapping[int, str], place: int, truth: object, excluded: object
) -> _QuerySet:
    labels: dict[str, str] = {}
    for number, label in file.mapping(truth, f"ground_truth / {place}").items():
        if not isinstance(number, int) or not isinstance(label, (str, int)) or label == "":
            raise file.error(f"ground_truth / {place}", "numbers of videos with a label each", (number, label))
        labels[_video(videos, number)] = str(label)
    if not isinstance(excluded, (set, list)) or any(not isinstance(number, int) for number in excluded):
        raise file.error(f"excluded / {place}", "a set of numbers of videos", excluded)
    return _QuerySet(labels, frozenset(_video(videos, number) for number in excluded))


def _video(videos: Mapping[int, str], number: int) -> str:
    """Its id; a labelled video that is not in the database can only be counted."""
    return videos.get(number, f"number {number}, not in the database")


def _warnings(sets: list[_QuerySet], database: frozenset[str]) -> tuple[str, ...]:
    absent = [label for row in sets for video, label in row.labels.items() if video not in database]
    if not absent:
        return ()
    matches = sum(label in POSITIVE for label in absent)
    return (
        f"{NAME}: {len(absent)} labelled videos are not in the database; {matches} of them are matches, which "
        "cannot be found but count",
    )
