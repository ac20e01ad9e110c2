"""Scores from a file as a source of scores: its ids are matched with those of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition
from muvr_train.errors import DataError, shorten
from muvr_train.search.filter_files import GivenRows, judge_given, repeat_queries, without_tags
from muvr_train.search.judged import JudgedScores
from muvr_train.search.score_files import ScoreBlock, ScoreFile
from muvr_train.search.score_ids import OLD_NAMES, index_of, places_of, refuse_shared, row_id, swapped_error
from muvr_train.search.scores import ScoreMatrix


class FileScores:
    """The scores of a file; rows and columns may stand in any order, and there may be more than a benchmark asks for.

    An id of the file is `<partition>/<video id>` or the bare `<video id>`.

    Args:
        file: as `score_files.read_scores` gives it.
        label: the name in tables, None for the file's name without its ending.
    """

    pairwise = False  # every partition may have a block of its own

    def __init__(self, file: ScoreFile, label: str | None = None) -> None:
        self.file, self.label = file, label or file.path.stem
        self.modes: tuple[str, ...] = (file.mode,)
        self._rows = {name: index_of(block.queries) for name, block in file.blocks.items()}
        self._columns = {name: index_of(block.database) for name, block in file.blocks.items()}
        self._owners: dict[tuple[str, str], dict[int, str]] = {}
        self._found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], tuple[dict[str, int], dict[str, int]]] = {}

    def refuse_missing(self, benchmark: Benchmark, modes: Sequence[str]) -> None:
        """Raise if the file lacks a query or a database video of the benchmark.

        Raises:
            DataError: with counts and ids.
        """
        del modes
        queries: dict[str, None] = {}
        videos: dict[str, None] = {}
        for partition in benchmark.partitions:
            rows, columns = self.known(partition)
            if not rows or not columns:
                some = any(all(self.known(other)) for other in benchmark.partitions)
                advice = ". Pass on_missing=official to leave such partitions out, and say which" if some else ""
                raise DataError(f"{self._nothing(partition)}{advice}")
            queries |= dict.fromkeys(self._lacking(partition, rows))
            videos |= dict.fromkeys(video for video in partition.database if video not in columns)
        if not queries and not videos:
            return
        lines = [f"{self.file.path} lacks scores that benchmark {benchmark.name} needs."]
        if queries:
            lines.append(f"{len(queries)} queries without a row: {shorten(list(queries), 50)}.")
        if videos:
            lines.append(f"{len(videos)} database videos without a column: {shorten(list(videos), 50)}.")
        if any(partition.divisor != "listed" for partition in benchmark.partitions):
            lines.append(f"Add them. {benchmark.missing_advice}")
        else:
            lines.append(
                "Add them; if the file is of one split, pass benchmark.split=test (or train, val); or pass on_missing="
                "official to leave such queries out, count such videos as not retrieved, and show the counts."
            )
        raise DataError("\n".join(lines))

    def known_queries(self, partition: Partition) -> Sequence[str]:
        """Ids of the partition's queries that have a row, or need none because they have no tag expression."""
        rows, columns = self.known(partition)
        if not rows or not columns or not self.has_expressions(partition):
            return list(rows) if columns else []
        asked = {row.query for row in partition.filters}
        return [query for query in partition.query_ids if query in rows or query not in asked]

    def has_expressions(self, partition: Partition) -> bool:
        """Whether the rows are those of queries with tag expressions."""
        block = self.block_of(partition)
        return block is not None and self.file.blocks[block].expressions is not None

    def score(self, partition: Partition, modes: Sequence[str]) -> dict[str, ScoreMatrix]:
        """The part of the matrix that the partition asks for, in the partition's order.

        Raises:
            DataError: nothing of the partition is in the file, or a score is not finite (but that of a query against
                its own video, which is never ranked).
        """
        rows, columns, block = self._content(partition)
        if block.expressions is not None:
            raise DataError(
                f"{self.file.path} has a row for each query and tag expression: evaluate it with benchmark=muvr_filter"
            )
        chosen = _take(block.scores, list(rows.values()), list(columns.values()))
        matrix = ScoreMatrix(tuple(rows), tuple(columns), chosen)
        return dict.fromkeys(modes, self._finite(partition, matrix))

    def filter_scores(self, partition: Partition) -> Iterator[tuple[str, JudgedScores]]:
        """Rows of MUVR-Filter: the file's own where it has expressions, else those that ignore the tags."""
        given = self.given_rows(partition)
        if not given.rows:
            return
        if self.has_expressions(partition):
            yield self.modes[0], judge_given(partition, given, str(self.file.path))
        else:
            yield from without_tags(partition, given)

    def given_rows(self, partition: Partition) -> GivenRows:
        """The file's scores of queries with tag expressions; plain rows are repeated for each."""
        if not self.has_expressions(partition):
            return repeat_queries(partition, self.score(partition, self.modes)[self.modes[0]])
        _, columns, block = self._content(partition)
        pairs = self.pairs(partition)
        rows = [row for row in filter_rows(partition) if _pair(row.judgement) in pairs]
        scores = _take(block.scores, [pairs[_pair(row.judgement)] for row in rows], list(columns.values()))
        return GivenRows(rows, tuple(columns), scores)

    def pairs(self, partition: Partition) -> dict[tuple[str, str | None], int]:
        """Rows by query and tag expression, of those that the file has."""
        block = self._content(partition)[2]
        pairs = zip(block.queries, block.expressions or (), strict=True)
        index = {row_id(*pair): row for row, pair in enumerate(pairs)}
        wanted = {row_id(*_pair(row)): _pair(row) for row in partition.filters}
        found = places_of(index, partition.name, list(wanted))
        return {wanted[name]: place for name, place in found.items()}

    def _lacking(self, partition: Partition, rows: Mapping[str, int]) -> list[str]:
        """What the file must have: every query, or every expression that the official program evaluates."""
        if not self.has_expressions(partition):
            return [query for query in partition.query_ids if query not in rows]
        pairs = self.pairs(partition)
        lost = [row.judgement for row in filter_rows(partition) if row.official and _pair(row.judgement) not in pairs]
        return [f"{row.query} '{row.expression}'" for row in lost]

    def unknown(self, benchmark: Benchmark) -> dict[str, int]:
        """How many `queries` and `database` videos of the file the benchmark does not ask for."""
        counts = {}
        for what, indices, part in (("queries", self._rows, 0), ("database", self._columns, 1)):
            left = {name: set(index.values()) for name, index in indices.items()}
            for partition in benchmark.partitions:
                if (block := self.block_of(partition)) is not None:
                    left[block].difference_update(self.known(partition)[part].values())
            counts[what] = sum(len(places) for places in left.values())
        return counts

    def block_of(self, partition: Partition) -> str | None:
        """The name of the block that serves a partition: its own, the plain one, or one that holds its queries."""
        for name in (partition.name, OLD_NAMES.get(partition.name, ""), ""):
            if name in self.file.blocks:
                return name
        for name, index in self._rows.items():
            if places_of(index, partition.name, partition.query_ids):
                return name
        return None

    def known(self, partition: Partition) -> tuple[dict[str, int], dict[str, int]]:
        """Rows by query and columns by database video, of those that the file has, in the partition's order."""
        key = (partition.name, partition.query_ids, partition.database)
        if key not in self._found:
            name = self.block_of(partition)
            if name is None:
                return {}, {}
            rows = places_of(self._rows[name], partition.name, partition.query_ids)
            columns = places_of(self._columns[name], partition.name, partition.database)
            for what, places in (("rows", rows), ("columns", columns)):
                refuse_shared(self._owners.setdefault((name, what), {}), places)
            self._found[key] = (rows, columns)
        return self._found[key]

    def _content(self, partition: Partition) -> tuple[dict[str, int], dict[str, int], ScoreBlock]:
        """Rows, columns and the block that they are of; refused where there are none."""
        rows, columns = self.known(partition)
        name = self.block_of(partition)
        if name is None or not rows or not columns:
            raise self._nothing(partition)
        return rows, columns, self.file.blocks[name]

    def _nothing(self, partition: Partition) -> DataError:
        """Say that nothing of a partition is in the file, with examples of both kinds of ids."""
        name = self.block_of(partition)
        if name is None:
            blocks = ", ".join(self.file.blocks)
            return DataError(f"{self.file.path} has no scores of partition {partition.name}: its blocks are {blocks}")
        block, rows = self.file.blocks[name], self.known(partition)[0]
        what, wanted, given = (
            ("database video", partition.database, block.database)
            if rows
            else ("query", partition.query_ids, block.queries)
        )
        swapped = not rows and places_of(self._columns[name], partition.name, partition.query_ids)
        if swapped and places_of(self._rows[name], partition.name, partition.database):
            return swapped_error(self.file.path, partition.name)
        bare = any(name.startswith(f"{partition.name}/") for name in wanted)
        return DataError(
            f"{self.file.path}: no {what} of partition {partition.name} is in it. It has {shorten(list(given), 3)}; "
            f"the benchmark has {shorten(list(wanted), 3)}"
            + (f" (ids may stand without '{partition.name}/')" if bare else "")
        )

    def _finite(self, partition: Partition, matrix: ScoreMatrix) -> ScoreMatrix:
        broken = ~np.isfinite(matrix.scores)
        if not broken.any():
            return matrix
        broken[own_pairs(partition, matrix)] = False
        bad = np.argwhere(broken)
        if len(bad):
            row, place = bad[0]
            raise DataError(
                f"{self.file.path}: {len(bad)} scores are absent or not finite; the first is "
                f"{matrix.scores[row, place]}, of query {matrix.queries[row]} against database video "
                f"{matrix.database[place]}. Every pair needs a score; leave out the whole column or row of a video "
                "without features, and pass on_missing=official"
            )
        scores = np.where(np.isfinite(matrix.scores), matrix.scores, matrix.scores.dtype.type(0))
        return ScoreMatrix(matrix.queries, matrix.database, scores)


def own_pairs(partition: Partition, matrix: ScoreMatrix) -> tuple[list[int], list[int]]:
    """Rows and columns where a query meets its own video, which is not ranked (some benchmarks do rank it: not those).

    Args:
        partition: of the matrix.
        matrix: its queries and database videos.
    """
    column = {video: place for place, video in enumerate(matrix.database)}
    own = {query.id: query.video_id for query in partition.queries}
    ranked = {row.query for row in partition.judgements if row.ranked is not None and own[row.query] in row.ranked}
    pairs = [
        (row, column[own[query]])
        for row, query in enumerate(matrix.queries)
        if query not in ranked and own[query] in column
    ]
    return [row for row, _ in pairs], [place for _, place in pairs]


def _pair(judgement: Judgement) -> tuple[str, str | None]:
    return judgement.query, judgement.expression


def _take(scores: NDArray[Any], rows: Sequence[int], columns: Sequence[int]) -> NDArray[Any]:
    """Choose rows and columns with one copy; none where everything stays in its place."""
    every = (len(rows), len(columns)) == scores.shape
    if every and list(rows) == list(range(len(rows))) and list(columns) == list(range(len(columns))):
        return scores
    return scores[np.ix_(rows, columns)]
