"""Score tables in parquet: long (query, database, score) or wide (query ids, then a column per database video)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError, shorten
from muvr_train.search.score_files import ScoreBlock, scores_of, texts_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

QUERY = ("query", "query_id", "query_ids")
DATABASE = ("database", "database_id", "database_ids")
SCORE = ("score", "scores")
PANDAS_INDEX = "__index_level_0__"


def read_parquet(path: Path) -> ScoreBlock:
    """Read a score table.

    Long: columns query, database, score (or query_id, database_id), one line per pair in any order; a pair that has no
    line scores NaN. Wide: the query ids in a column `query_id` (else in pandas' index, else in the first column), every
    other column a database video with its scores.

    Raises:
        DataError: pyarrow is not installed; not a table of this kind; a pair or an id stands twice.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise DataError(
            "parquet needs pyarrow: pip install 'muvr-train[parquet]', or save the scores as npz"
        ) from error
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns = [next((name for name in known if name in names), None) for known in (QUERY, DATABASE, SCORE)]
            long = [name for name in columns if name is not None]
            return _read_long(file, long) if len(long) == 3 else _read_wide(file, names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"damaged ({error}): copy or write it again") from error


def _read_long(file: pq.ParquetFile, columns: Sequence[str]) -> ScoreBlock:
    """Two passes, batch by batch: first the ids, then the scores into their places."""
    *ids, score = columns
    places: list[dict[str, int]] = [{}, {}]
    for batch in file.iter_batches(columns=ids):
        for name, known in zip(ids, places, strict=True):
            for text in _texts(batch.column(name).unique(), name):
                known.setdefault(text, len(known))
    double = file.schema_arrow.field(score).type == "double"
    matrix = np.full([len(known) for known in places], np.nan, np.float64 if double else np.float32)
    seen = np.zeros(matrix.shape, dtype=bool)
    for batch in file.iter_batches(columns=list(columns)):
        rows, videos = (_places(batch.column(name), name, known) for name, known in zip(ids, places, strict=True))
        first = np.unique(rows * matrix.shape[1] + videos, return_index=True)[1]
        twice = seen[rows, videos]
        twice[np.setdiff1d(np.arange(len(rows)), first, assume_unique=True)] = True
        if twice.any():
            at = int(np.flatnonzero(twice)[0])
            query, video = (list(known)[place[at]] for known, place in zip(places, (rows, videos), strict=True))
            raise DataError(f"the pair of query {query} and database video {video} stands twice")
        seen[rows, videos] = True
        matrix[rows, videos] = _numbers(batch.column(score))
    return ScoreBlock(tuple(places[0]), tuple(places[1]), matrix)


def _read_wide(file: pq.ParquetFile, names: Sequence[str]) -> ScoreBlock:
    import pyarrow as pa

    first = next((names.index(name) for name in (*QUERY, PANDAS_INDEX) if name in names), 0)
    others = [place for place in range(len(names)) if place != first]
    kinds = file.schema_arrow.types
    odd = [names[at] for at in others if not (pa.types.is_floating(kinds[at]) or pa.types.is_integer(kinds[at]))]
    if odd or not others:
        raise DataError(
            f"its columns are {shorten(list(names), 5)}{f', and {odd[0]} holds no numbers' if odd else ''}; a long "
            "table has the columns query, database and score, a wide one query ids and a column for each database video"
        )
    table = file.read()
    matrix = np.stack([_numbers(table.column(place)) for place in others], axis=1)
    return ScoreBlock(_texts(table.column(first), names[first]), tuple(names[place] for place in others), matrix)


def _texts(column: Any, name: str) -> tuple[str, ...]:
    if column.null_count:
        raise DataError(f"column {name} has {column.null_count} empty cells")
    values = column.to_pylist()
    return texts_of(np.array(values) if values else np.empty(0, dtype=str), f"column {name}")


def _places(column: pa.Array, name: str, known: dict[str, int]) -> NDArray[np.int64]:
    coded = column.dictionary_encode()
    places = np.array([known[text] for text in _texts(coded.dictionary, name)], dtype=np.int64)
    chosen: NDArray[np.int64] = places[coded.indices.to_numpy()]
    return chosen


def _numbers(column: Any) -> NDArray[Any]:
    """Scores; an empty cell is NaN."""
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return scores_of(array.to_numpy(zero_copy_only=False))
