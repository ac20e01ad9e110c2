"""MUVR-Filter: what each query should find under each of its tag expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muvr_train.benchmarks.expressions import Expression, Reading, conditions_of, is_official, resolve
from muvr_train.benchmarks.muvr_files import Faults
from muvr_train.benchmarks.types import MATCH, Judgement, Partition, Query
from muvr_train.errors import DataError


def filter_judgements(
    queries: Sequence[Query],
    lists: Mapping[str, Mapping[str, Sequence[str]]],
    levels: Mapping[str, Mapping[str, str]],
    file: str,
    faults: Faults,
) -> tuple[Judgement, ...]:
    """One judgement per query and tag expression, in the order of the queries and of the file.

    An empty list is kept: it counts with 0, as it does officially. Videos that are not in the database stay in a list;
    scoring intersects the two. A query without an entry in the file has no judgement.

    Args:
        queries: The retained queries, with their known tags.
        lists: Query id -> expression -> ids of the videos that match it.
        levels: Query id -> video -> level of correspondence, from MUVR-Base.
        file: Name of the file that the lists stand in, for messages.
        faults: Receives an error for what is no expression, and a warning for doubtful readings and unknown tags.
    """
    judgements = []
    for query in queries:
        for text, videos in lists.get(query.id, {}).items():
            try:
                reading = resolve(text, query.tags)
            except DataError as error:
                faults.error(file, "tag expressions that cannot be read", f"query {query.id}: {error}")
                continue
            _report(reading, f"{query.id} '{text}'", file, faults)
            known = levels.get(query.id, {})
            positives = {video: known.get(video, MATCH) for video in videos}
            judgements.append(Judgement(query.id, positives, expression=text))
    return tuple(judgements)


@dataclass(frozen=True)
class FilterRow:
    """A judgement of MUVR-Filter and its expression, read with the query's tags."""

    judgement: Judgement
    expression: Expression

    @property
    def official(self) -> bool:
        """Whether the official program evaluates it."""
        return is_official(str(self.judgement.expression))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Query id and tag of each condition: the vectors that scoring needs."""
        return tuple((self.judgement.query, condition.tag) for condition in conditions_of(self.expression))


def filter_rows(partition: Partition) -> list[FilterRow]:
    """Read a partition's `filters`, in their order."""
    tags = {query.id: query.tags for query in partition.queries}
    return [FilterRow(row, resolve(str(row.expression), tags[row.query]).expression) for row in partition.filters]


def _report(reading: Reading, where: str, file: str, faults: Faults) -> None:
    if reading.merged:
        what = "tag expressions whose official cuts break a known tag (read by the query's tags)"
        faults.warn(file, what, f"{where} as '{reading.expression}'")
    if reading.contested:
        what = "tag expressions that could also mean a longer known tag (read by the official cuts)"
        faults.warn(file, what, f"{where}, not '{', '.join(reading.contested)}'")
    if reading.unknown:
        what = "tag expressions with tags that query_tags.json does not give to the query"
        faults.warn(file, what, f"{where}: {', '.join(reading.unknown)}")
