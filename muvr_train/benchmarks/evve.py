"""Reader of EVVE (Revaud et al., CVPR 2013): videos of the same event."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muvr_train.benchmarks.annotation_files import AnnotationFile
from muvr_train.benchmarks.types import FOUND, MATCH, Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError

FILES = ("evve.pickle",)
ALL = "all"
NOTE = (
    "EVVE: all is the mean over queries (the overall mAP of its tables), mean the mean over events (avg-mAP). AP is "
    "the area under the precision-recall curve by trapezoids, as EVVE's own program has it; uAP is not."
)


def read_evve(annotations: Path) -> Benchmark:
    """Read EVVE.

    One partition an event, and `all`, which holds every query; `mean` averages the events. A query's matches are the
    database videos of its event, cut to those that were scored. Videos that are marked as neutral for an event are in
    no ranking of its queries, as in the original program (the annotations in circulation have none). A query of whose
    event no match was scored is not counted (the original program counts it with 0).

    Args:
        annotations: `evve.pickle`, or the folder it is in.

    Raises:
        DataError: the file is missing, is refused, or is not what it should be.
    """
    file = AnnotationFile(Path(annotations), FILES)
    database = tuple(sorted(file.ids(file.entry("database"), "database", unique=True)))
    queries = file.ids(file.entry("queries"), "queries", unique=True)
    events = file.mapping(file.entry("annotation"), "annotation")
    asked: dict[str, Query] = {}
    judged: dict[str, Judgement] = {}
    members: dict[str, list[str]] = {}
    for event in sorted(file.ids(list(events), "the events of annotation")):
        ids, positives, ranked = _event(file, events, event, database)
        file.known(ids, queries, f"annotation / {event}", "in the list of queries")
        if again := sorted(set(ids) & asked.keys()):
            raise DataError(f"{file.path}: query {again[0]} belongs to {asked[again[0]].topic} and to {event}")
        members[event] = ids
        asked.update((query, Query(query, event, f"evve/{event}")) for query in ids)
        judged.update((query, Judgement(query, positives, ranked=ranked)) for query in ids)
    file.known(queries, asked, "queries", "of any event")
    partitions = [_partition(event, ids, asked, judged, database) for event, ids in members.items() if ids]
    if not partitions:
        raise DataError(f"{file.path}: no event has a query")
    partitions.append(_partition(ALL, sorted(asked), asked, judged, database))
    events_read = tuple(partition.name for partition in partitions[:-1])
    protocol = {"split_source": "none", "positives": FOUND, "average_precision": "area by trapezoids"}
    return Benchmark("evve", tuple(partitions), protocol, averaged=events_read, notes=(NOTE,))


def _event(
    file: AnnotationFile, events: Mapping[str, object], event: str, database: tuple[str, ...]
) -> tuple[list[str], dict[str, str], frozenset[str] | None]:
    """Its queries, sorted, the positives, and what is ranked (None: the whole database)."""
    place = f"annotation / {event}"
    asked, matches, neutral = file.items(events[event], place, length=3)
    positives = sorted(file.ids(matches, f"{place}: its matches"))
    file.known(positives, database, place, "in the database")
    left_out = set(file.ids(neutral, f"{place}: its neutral videos")) - set(positives)
    ranked = frozenset(database) - left_out if left_out else None
    return sorted(file.ids(asked, f"{place}: its queries", unique=True)), dict.fromkeys(positives, MATCH), ranked


def _partition(
    name: str,
    ids: list[str],
    asked: Mapping[str, Query],
    judged: Mapping[str, Judgement],
    database: tuple[str, ...],
) -> Partition:
    queries, judgements = tuple(asked[query] for query in ids), tuple(judged[query] for query in ids)
    return Partition(name, queries, judgements, database, divisor="found", trapezoids=True)
