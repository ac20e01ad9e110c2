"""Videos on both sides of a split: the same one, another cut of one upload, or equal features under two ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition
from muvr_train.errors import DataError, shorten

CUT = re.compile(r"_\d{2,}\.\d\d\.\d\d-\d{2,}\.\d\d\.\d\d")
HELD_OUT = ("val", "test")
SAME_VIDEO, SAME_UPLOAD, EQUAL_FEATURES = "same video", "cuts of one upload", "equal features"


@dataclass(frozen=True)
class Leak:
    """A training query or positive that is also on the held-out side.

    Attributes:
        kind: `same video`, `cuts of one upload` or `equal features`.
        query: The training query.
        video: The query's video or one of its positives.
        held_video: The held-out query or positive that it meets.
        held_query: The held-out query it belongs to, of split `held_split`.
        held_split: `val` or `test`.
    """

    kind: str
    query: str
    video: str
    held_video: str
    held_query: str
    held_split: str


@dataclass(frozen=True)
class LeakReport:
    """What training shares with validation and test.

    Attributes:
        leaks: One per training query and video concerned.
        dropped_queries: Training queries that `drop_leaks` takes out: they leak themselves or have no positive left.
        dropped_positives: (query, video) pairs that it takes out of the other training queries.
        shared_distractors: Videos listed as non-matching on both sides, matching on neither: no label leaks by them.
        matching_distractors: Non-matching videos of training queries that are held-out queries or positives, also under
            another id; what learns without labels does not see them.
        compared_features: Whether digests of the features were compared.
    """

    leaks: tuple[Leak, ...]
    dropped_queries: tuple[str, ...]
    dropped_positives: tuple[tuple[str, str], ...]
    shared_distractors: int
    matching_distractors: int
    compared_features: bool

    def __bool__(self) -> bool:
        """True where something leaks."""
        return bool(self.leaks)

    def lines(self) -> list[str]:
        """The report in a few lines: per kind, then what is dropped, then the distractors."""
        lines = []
        for kind, number in Counter(leak.kind for leak in self.leaks).items():
            pairs = [f"{leak.video} ({leak.held_split} {leak.held_video})" for leak in self.leaks if leak.kind == kind]
            lines.append(f"leakage, {kind} ({number}): {shorten(list(dict.fromkeys(pairs)), 5)}")
        if self.leaks:
            positives = [f"{video} of {query}" for query, video in self.dropped_positives]
            for what, items in (("queries", list(self.dropped_queries)), ("positives", positives)):
                if items:
                    lines.append(f"training {what} concerned ({len(items)}): {shorten(items, 5)}")
        else:
            lines.append("no leakage between training and held-out queries and positives")
        if not self.compared_features:
            lines.append("features were not compared")
        lines.append(
            f"distractors shared between training and held-out queries: {self.shared_distractors}; "
            f"training distractors that are or match a held-out query: {self.matching_distractors}"
        )
        return lines


@dataclass(frozen=True)
class _Held:
    video: str
    query: str
    split: str


class HeldOut:
    """The queries of some splits and their positives, to be recognised by id, upload or equal features.

    Args:
        benchmark: All splits.
        digests: Video id -> digest of its features; None compares ids only.
        splits: Of the queries that are held out; None for all queries.
    """

    def __init__(
        self, benchmark: Benchmark, digests: Mapping[str, str] | None = None, splits: Sequence[str] | None = HELD_OUT
    ) -> None:
        self._digests = digests or {}
        self._uploads: dict[str, dict[str, _Held]] = {}
        self._features: dict[str, _Held] = {}
        for held in _held(benchmark, splits):
            self._uploads.setdefault(upload_of(held.video), {}).setdefault(held.video, held)
            if held.video in self._digests:
                self._features.setdefault(self._digests[held.video], held)

    def match(self, video: str, digest: str | None) -> tuple[str, _Held] | None:
        """The strongest reason why a video is one of them, and which; None where it is not.

        The same name in two partitions is passed over where the digests show different videos.
        """
        same_upload = self._uploads.get(upload_of(video), {})
        if video in same_upload:
            return SAME_VIDEO, same_upload[video]
        name = video.split("/", 1)[-1]
        cuts = []
        for held in same_upload.values():
            if held.video.split("/", 1)[-1] != name:
                cuts.append(held)
            elif digest is None or self._digests.get(held.video, digest) == digest:
                return SAME_VIDEO, held
        if digest is not None and digest in self._features:
            return EQUAL_FEATURES, self._features[digest]
        return (SAME_UPLOAD, cuts[0]) if cuts else None


def upload_of(video: str) -> str:
    """The id of the upload a video was cut from, without its partition.

    >>> upload_of("news/BV1_00.02.00-00.03.27"), upload_of("news/BV1")
    ('BV1', 'BV1')
    """
    return CUT.split(video.split("/", 1)[-1], maxsplit=1)[0]


def find_leaks(benchmark: Benchmark, digests: Mapping[str, str] | None = None) -> LeakReport:
    """Compare the training queries and their positives with those of validation and test.

    Ids are compared without their partition (one upload may stand in two); the same id in two partitions is passed over
    where the digests show different videos.

    Args:
        benchmark: All splits (`splits.apply_splits`).
        digests: Video id -> digest of its features, where there are features; None compares ids only.

    Raises:
        DataError: queries have no split.
    """
    lost = [query.id for query in benchmark.queries if query.split is None]
    if lost:
        raise DataError(
            f"benchmark {benchmark.name}: queries without a split: {shorten(lost)}; call apply_splits first"
        )
    digests = digests or {}
    held_out = HeldOut(benchmark, digests)
    leaks = []
    for query, video in _matches(benchmark):
        found = held_out.match(video, digests.get(video))
        if found is not None:
            kind, held = found
            leaks.append(Leak(kind, query, video, held.video, held.query, held.split))
    queries, positives = _concerned(benchmark, leaks)
    shared, matching = _distractors(benchmark, held_out, digests)
    return LeakReport(tuple(leaks), queries, positives, shared, matching, bool(digests))


def _own(benchmark: Benchmark, judgement: Judgement) -> str:
    return benchmark.query_by_id[judgement.query].video_id


def _training(benchmark: Benchmark) -> Iterator[Judgement]:
    return (row for row in benchmark.judgements if benchmark.query_by_id[row.query].split == "train")


def _matches(benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    """Training queries with their own videos and those that match them, also under a tag expression; each pair once."""
    videos: dict[str, dict[str, None]] = {}
    for row in (*benchmark.judgements, *(row for partition in benchmark.partitions for row in partition.filters)):
        if benchmark.query_by_id[row.query].split == "train":
            videos.setdefault(row.query, {_own(benchmark, row): None}).update(dict.fromkeys(row.positives))
    return ((query, video) for query, found in videos.items() for video in found)


def _held(benchmark: Benchmark, splits: Sequence[str] | None) -> Iterator[_Held]:
    for partition in benchmark.partitions:
        for judgement in (*partition.judgements, *partition.filters):
            split = str(benchmark.query_by_id[judgement.query].split)
            if splits is None or split in splits:
                for video in (_own(benchmark, judgement), *judgement.positives):
                    yield _Held(video, judgement.query, split)


def _concerned(benchmark: Benchmark, leaks: list[Leak]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    leaked: dict[str, list[str]] = {}
    for leak in leaks:
        leaked.setdefault(leak.query, []).append(leak.video)
    queries: list[str] = []
    positives: list[tuple[str, str]] = []
    for query, videos in leaked.items():
        own = benchmark.query_by_id[query].video_id
        left = benchmark.judgement_by_query[query].positives.keys() - videos - {own}
        if own in videos or not left:
            queries.append(query)
        else:
            positives.extend((query, video) for video in videos)
    return tuple(queries), tuple(positives)


def _distractors(benchmark: Benchmark, held_out: HeldOut, digests: Mapping[str, str]) -> tuple[int, int]:
    training = {video for judgement in _training(benchmark) for video in judgement.negatives}
    train_matches = {video for row in _training(benchmark) for video in (_own(benchmark, row), *row.positives)}
    matching = {video for video in training if held_out.match(video, digests.get(video)) is not None}
    held = {
        video
        for row in benchmark.judgements
        if benchmark.query_by_id[row.query].split in HELD_OUT
        for video in row.negatives
    }
    return len((training & held) - train_matches - matching), len(matching)


def drop_leaks(benchmark: Benchmark, report: LeakReport) -> Benchmark:
    """The benchmark to train on: without the training queries and positives of the report.

    A dropped positive becomes `ignored` for its query (neither match nor non-match). Databases and held-out queries
    stay as they are. Evaluate on the benchmark as it was before.
    """
    dropped: dict[str, frozenset[str]] = {}
    for query, video in report.dropped_positives:
        dropped[query] = dropped.get(query, frozenset()) | {video}
    gone = set(report.dropped_queries)
    return replace(benchmark, partitions=tuple(_without(part, gone, dropped) for part in benchmark.partitions))


def _without(partition: Partition, gone: set[str], dropped: Mapping[str, frozenset[str]]) -> Partition:
    def kept(rows: Sequence[Judgement]) -> tuple[Judgement, ...]:
        return tuple(cut(row, dropped.get(row.query, frozenset())) for row in rows if row.query not in gone)

    def cut(row: Judgement, videos: frozenset[str]) -> Judgement:
        positives = {video: level for video, level in row.positives.items() if video not in videos}
        return replace(row, positives=positives, ignored=row.ignored | videos)

    queries = tuple(query for query in partition.queries if query.id not in gone)
    filters = kept(partition.filters)
    return replace(partition, queries=queries, judgements=kept(partition.judgements), filters=filters)
