"""What of a benchmark score files hold: the right way round, all rows known, and the same of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_ids import swapped_error


def refuse_swapped(file: FileScores, benchmark: Benchmark) -> None:
    """Refuse rows that are database videos and columns that are queries, also where queries are database videos too.

    Args:
        file: a block of it counts where most columns are queries, most rows are videos and few are queries, and where
            exchanging both finds more of what is wanted.
        benchmark: with the queries of all splits.

    Raises:
        DataError: the two are exchanged in a block.
    """
    for name, block in file.file.blocks.items():
        parts = [part for part in benchmark.partitions if file.block_of(part) == name]
        queries = {one for part in parts for one in _spellings(part.name, part.query_ids)}
        videos = {one for part in parts for one in _spellings(part.name, part.database)}
        rows, columns = frozenset(block.queries), frozenset(block.database)
        queries_in_rows, queries_in_columns = len(rows & queries), len(columns & queries)
        exchanged = queries_in_columns + len(rows & videos)
        most = 2 * queries_in_columns > len(columns) and 2 * len(rows & videos) > len(rows) > 2 * queries_in_rows
        if most and exchanged > queries_in_rows + len(columns & videos):
            raise swapped_error(file.file.path, ", ".join(part.name for part in parts))


def unknown_expressions(file: FileScores, benchmark: Benchmark) -> list[str]:
    """Rows of known queries with a tag expression that the benchmark lacks for them, as `query 'expression'`."""
    found = []
    for name, block in file.file.blocks.items():
        parts = [part for part in benchmark.partitions if file.block_of(part) == name]
        used = {place for part in parts for place in _pairs(file, part).values()}
        known = {block.queries[place] for part in parts for place in file.known(part)[0].values()}
        for place, (query, expression) in enumerate(zip(block.queries, block.expressions or (), strict=False)):
            if place not in used and query in known:
                found.append(f"{query} '{expression}'")
    return found


def differing(files: Sequence[FileScores], benchmark: Benchmark) -> dict[str, list[tuple[int, int]]]:
    """Partitions of which the files do not all hold the same queries (or expressions) and database videos.

    Returns:
        By partition, the numbers of rows and of columns of every file.
    """
    found = {}
    for partition in benchmark.partitions:
        held = [_held(file, partition) for file in files]
        if any(one != held[0] for one in held[1:]):
            found[partition.name] = [(len(rows), len(columns)) for rows, columns in held]
    return found


def _held(file: FileScores, partition: Partition) -> tuple[frozenset[object], frozenset[str]]:
    rows, columns = file.known(partition)
    return frozenset(_pairs(file, partition) if file.has_expressions(partition) else rows), frozenset(columns)


def _pairs(file: FileScores, partition: Partition) -> dict[tuple[str, str | None], int]:
    return file.pairs(partition) if file.has_expressions(partition) and all(file.known(partition)) else {}


def _spellings(partition: str, names: Sequence[str]) -> set[str]:
    return {*names, *(name.removeprefix(f"{partition}/") for name in names)}
