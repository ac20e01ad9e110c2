"""MUVR-Filter of one partition: score queries and tags once, then give the rows of every mode, one mode at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.expressions import OPERATORS, SIGNS, UPPER_BOUND, Expression, operator_of, parse, sign_of
from muvr_train.benchmarks.muvr_filter import FilterRow, filter_rows
from muvr_train.benchmarks.types import Judgement, Partition
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.metrics.ranks import Ties
from muvr_train.search.expanding import Expanded, ExpandedRows, Expander, refuse_nan_tags
from muvr_train.search.filter import Floats, TagPlaces, logic_adjustment, merge, mode_suffix, official_adjustment
from muvr_train.search.judged import JudgedScores
from muvr_train.search.learned_tags import learned
from muvr_train.search.protocols import GivenFilters, LearnedTags, TagSource
from muvr_train.search.scores import ScoreMatrix
from muvr_train.search.sources import TAGGED, ScoreSource
from muvr_train.search.upper_bound import best_combination

log = logging.getLogger(__name__)
OFFICIAL, LOGIC = "tag_", "logic_"
Reading = tuple[Expression, TagPlaces]
WITHOUT_TAGS = 0.0


@dataclass(frozen=True)
class TagSettings:
    """What rows MUVR-Filter shows.

    Attributes:
        modes: see `filter.merge`; the row without tags is always shown beside them.
        logic: with rows of all expressions, scored by AND and OR.
        upper_bound: with the row of `upper_bound.best_combination`.
    """

    modes: tuple[float, ...] = (0.3,)
    logic: bool = True
    upper_bound: bool = True

    @property
    def all_modes(self) -> tuple[float, ...]:
        """The modes, the one without tags first."""
        return (WITHOUT_TAGS, *(mode for mode in self.modes if mode != WITHOUT_TAGS))

    @property
    def kept(self) -> str | None:
        """Name of the row whose scores are kept for reports: the official one of the first mode."""
        return OFFICIAL + mode_suffix(self.modes[0]) if self.modes else None


def score_filters(
    source: ScoreSource,
    partition: Partition,
    modes: Sequence[str],
    settings: TagSettings,
    ties: Ties = "average",
) -> Iterator[Expanded]:
    """Score a partition's queries under their tag expressions.

    Queries without features drop out with their expressions. Tags officially needed must have a vector; an expression
    with AND or OR whose tags have none is left out and counted. Official rows follow the official cuts of an expression
    wherever those have vectors.

    Args:
        source: gives scores of queries and of tags.
        partition: with `filters`.
        modes: of the query's own score; tv counts if it is among them, else the first.
        settings: which rows.
        ties: tie policy by which the upper bound chooses.

    Raises:
        ConfigError: the source cannot score tags.
        DataError: a tag of an officially evaluated expression has no vector, or a score is not finite.
    """
    if isinstance(source, GivenFilters):
        for name, judged in source.filter_scores(partition):
            yield Expanded(name, judged, counts_of_given(partition, judged, source.known_queries(partition)))
    elif isinstance(source, TagSource):
        mode = base_mode(modes)
        yield from _scored(source, partition, source.score(partition, [mode])[mode], mode == "tv", settings, ties)
    else:
        raise ConfigError(
            f"benchmark=muvr_filter needs the scores of tags, which {type(source).__name__} does not give: "
            "evaluate a model on features (model=... or ckpt_path=...), or use benchmark=muvr_base"
        )


def _scored(
    source: TagSource, partition: Partition, matrix: ScoreMatrix, whole: bool, settings: TagSettings, ties: Ties
) -> Iterator[Expanded]:
    """Merge scores of queries with those of tags; `whole`: they are in mode tv, to which heads add their own."""
    matrix.refuse_nan()
    queries = frozenset(matrix.queries)
    rows = [row for row in filter_rows(partition) if row.judgement.query in queries]
    official, able = readings(source, rows)
    refuse_missing_tags(source, partition.name, official)
    if not official:
        what = "a tag expression that is officially evaluated" if able else "a tag expression"
        log.warning("%s: no query with features has %s; its rows are left out", partition.name, what)
    pairs = pairs_of((*official, *able))
    if not pairs:
        return
    tags = source.tag_scores(partition, pairs)
    refuse_nan_tags(tags, pairs, matrix.database)
    expander = Expander(partition, matrix, pairs)
    left_out = {"expressions_left_out": len(rows) - len(official), "expressions_without_tag_vectors": 0}
    yield from _merged(OFFICIAL, expander.expand(official, left_out), tags, settings)
    lacking = {"expressions_left_out": 0, "expressions_without_tag_vectors": len(rows) - len(able)}
    if settings.logic:
        yield from _merged(LOGIC, expander.expand(able, lacking), tags, settings)
    if able and whole and isinstance(source, LearnedTags) and source.learns_tags:
        means = source.mean_tag_scores(partition, pairs, tags)
        refuse_nan_tags(means, pairs, matrix.database)
        yield learned(source, expander.expand(able, lacking), means)
    if settings.upper_bound and able:
        cuts = [_as_official(source, row) if row.official else None for row in able]
        read = [None if cut is None else (cut.expression, expander.places(cut)) for cut in cuts]
        yield _upper_bound(expander.expand(able, lacking), read, tags, settings, ties)


def _upper_bound(
    rows: ExpandedRows, official: Sequence[Reading | None], tags: Floats, settings: TagSettings, ties: Ties
) -> Expanded:
    """The best combination of each expression; `official`: as the official program reads it, None where it does not."""
    found = rows.expressions, rows.places, tags
    best = best_combination(rows.judged, *found, settings.modes, ties, official=official)
    return Expanded(UPPER_BOUND, replace(rows.judged, scores=best), rows.counts)


def base_mode(modes: Sequence[str]) -> str:
    """The mode to whose scores those of tags are added."""
    return "tv" if {"tv", TAGGED} & set(modes) else modes[0]


def readings(source: TagSource, rows: Sequence[FilterRow]) -> tuple[list[FilterRow], list[FilterRow]]:
    """Rows as the official program reads those that it evaluates, and all rows whose tags have vectors."""
    official = [_as_official(source, row) for row in rows if row.official]
    return official, [row for row in rows if all(source.has_tag(*pair) for pair in row.pairs)]


def pairs_of(rows: Iterable[FilterRow]) -> tuple[tuple[str, str], ...]:
    """Queries and tags of rows, each once."""
    return tuple(dict.fromkeys(pair for row in rows for pair in row.pairs))


def _as_official(source: TagSource, row: FilterRow) -> FilterRow:
    """Read a row by the official cuts where their tags have vectors, as then the official program scores it so."""
    cut = replace(row, expression=parse(str(row.judgement.expression)))
    return cut if all(source.has_tag(*pair) for pair in cut.pairs) else row


def counts_of_given(partition: Partition, judged: JudgedScores, known: Sequence[str]) -> dict[str, int]:
    """The counts of given scores of tag expressions, see `Expanded.counts`; `known` queries have scores."""
    queries, asked = set(judged.queries), set(known)
    have = {(row.query, row.expression) for row in judged.judgements}
    rows = [row for row in filter_rows(partition) if row.judgement.query in asked]
    lost = [row for row in rows if (row.judgement.query, row.judgement.expression) not in have]
    return {
        "queries": len(queries),
        "counted_queries": len(queries),
        "expressions": len(judged.judgements),
        "expressions_left_out": sum(not row.official for row in lost),
        "missing_expressions": sum(row.official for row in lost),
        "expressions_without_tag_vectors": 0,
        "queries_without_expressions": len(known) - len(queries),
    }


def _merged(prefix: str, rows: ExpandedRows, tags: Floats, settings: TagSettings) -> Iterator[Expanded]:
    if not rows.expressions:
        return
    adjust = official_adjustment if prefix == OFFICIAL else logic_adjustment
    adjustment = adjust(rows.expressions, rows.places, tags)
    for tag_mode in settings.all_modes:
        scores = merge(rows.judged.scores, adjustment, tag_mode)
        yield Expanded(prefix + mode_suffix(tag_mode), replace(rows.judged, scores=scores), rows.counts)


def refuse_missing_tags(source: TagSource, partition: str, rows: Sequence[FilterRow]) -> None:
    """Refuse to evaluate expressions whose tags have no vector, as the official program does (by a KeyError).

    Raises:
        DataError: with every query and tag.
    """
    missing = dict.fromkeys(pair for row in rows for pair in row.pairs if not source.has_tag(*pair))
    if missing:
        named = [f"{query} '{tag}'" for query, tag in missing]
        raise DataError(
            f"partition {partition}: {len(named)} tags of evaluated expressions have no vector: {shorten(named, 50)}. "
            "Import or extract them (the official program ends with a KeyError here)"
        )


def expression_groups(
    partition: Partition, judgements: Sequence[Judgement]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """The groups that results are broken down by: (`operator` or `sign`, name, bool [R]); empty groups are left out."""
    known = {(row.judgement.query, row.judgement.expression): row.expression for row in filter_rows(partition)}
    trees = [known[row.query, row.expression] for row in judgements]
    facts = {
        "operator": (OPERATORS, [operator_of(tree) for tree in trees]),
        "sign": (SIGNS, [sign_of(tree) for tree in trees]),
    }
    for group, (names, values) in facts.items():
        for name in names:
            members = np.array([value == name for value in values], dtype=bool)
            if members.any():
                yield group, name, members
