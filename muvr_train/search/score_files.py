"""Score files: matrices of anybody's model with the ids of their rows and columns, as npz (here) or parquet."""

from __future__ import annotations

import logging
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError, shorten

log = logging.getLogger(__name__)
ARRAYS = ("query_ids", "database_ids", "scores")
OPTIONAL = ("expressions",)
HOW = "np.savez(FILE, query_ids=[Q texts], database_ids=[N texts], scores=float32 [Q, N])"
_BROKEN = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclass(frozen=True)
class ScoreBlock:
    """One matrix of a score file.

    Attributes:
        queries: Q ids, unique; with `expressions` a query has one row for each.
        database: N ids, unique.
        scores: float32 or float64 [Q, N], higher is more similar; may hold NaN (where it is used, that is refused).
        expressions: [Q] the tag expression of each row, None for rows that are plain queries.
    """

    queries: tuple[str, ...]
    database: tuple[str, ...]
    scores: NDArray[Any]
    expressions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        rows, columns = len(self.queries), len(self.database)
        if not rows or not columns:
            raise DataError(f"it holds no {'database' if rows else 'query'} id")
        if self.scores.shape != (rows, columns):
            swapped = self.scores.shape == (columns, rows)
            advice = "it is transposed: save scores.T" if swapped else "a row for each query, a column for each video"
            raise DataError(
                f"scores has the shape {list(self.scores.shape)}, but there are {rows} query_ids and {columns} "
                f"database_ids: {advice}"
            )
        if self.expressions is not None and len(self.expressions) != rows:
            raise DataError(f"there are {len(self.expressions)} expressions for {rows} rows")
        pairs = self.queries if self.expressions is None else zip(self.queries, self.expressions, strict=True)
        _refuse_twice("query_ids", [item if isinstance(item, str) else " with ".join(item) for item in pairs])
        _refuse_twice("database_ids", self.database)


@dataclass(frozen=True)
class ScoreFile:
    """A score file.

    Attributes:
        path: Where it was read from.
        mode: The label of its rows in tables.
        blocks: Matrices by the name of the partition; "" for the one that serves every other partition.
    """

    path: Path
    mode: str
    blocks: Mapping[str, ScoreBlock]


def read_scores(path: Path) -> ScoreFile:
    """Read a score file; the first bytes say whether it is npz or parquet, never its name.

    An npz holds `query_ids` [Q] and `database_ids` [N], texts, `scores` [Q, N], and optionally `mode` (one text, the
    label of the row), `expressions` [Q] (MUVR-Filter: the tag expression of each row). Partitions with galleries of
    their own are further blocks `query_ids/NAME`, `database_ids/NAME`, `scores/NAME`. Nothing is unpickled.

    Raises:
        DataError: not such a file, or broken; arrays are missing, of a wrong type or shape; an id stands twice.
    """
    path = Path(path)
    try:
        return _read(path)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def write_scores(path: Path, mode: str, blocks: Mapping[str, ScoreBlock]) -> None:
    """Write an npz that `read_scores` reads, at once (temp file + rename).

    Args:
        path: the file.
        mode: the label of its rows.
        blocks: matrices by the name of the partition, "" for one that serves all.
    """
    arrays: dict[str, Any] = {"mode": np.array(mode)}
    for name, block in blocks.items():
        end = f"/{name}" if name else ""
        arrays[f"query_ids{end}"] = np.array(block.queries)
        arrays[f"database_ids{end}"] = np.array(block.database)
        arrays[f"scores{end}"] = block.scores
        if block.expressions is not None:
            arrays[f"expressions{end}"] = np.array(block.expressions)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    os.replace(temporary, path)


def texts_of(array: NDArray[Any], name: str) -> tuple[str, ...]:
    """Ids as texts; whole numbers become their digits.

    Raises:
        DataError: another type, more than one dimension, bytes that are not UTF-8, or an empty id.
    """
    if array.ndim != 1 or array.dtype.kind not in "USiu":
        raise DataError(f"{name} must be texts in one dimension, got {array.dtype} of shape {list(array.shape)}")
    try:
        texts = tuple(item.decode() if isinstance(item, bytes) else str(item) for item in array.tolist())
    except UnicodeDecodeError as error:
        raise DataError(f"{name} holds bytes that are not UTF-8: {error}") from error
    if "" in texts and name != "expressions":
        raise DataError(f"{name}: entry {texts.index('')} is empty")
    return texts


def scores_of(array: NDArray[Any]) -> NDArray[Any]:
    """Scores as float32 or float64 of this machine's byte order.

    Raises:
        DataError: another type than real numbers.
    """
    if array.dtype.kind not in "fiu":
        raise DataError(f"scores must be float32 or float64, got {array.dtype}: save them with .astype('float32')")
    if array.dtype == np.float16:
        log.warning("the scores are float16: different pairs tie falsely (see counts.ties); save float32 instead")
        return array.astype(np.float32)
    return array.astype(np.float32 if array.dtype.kind == "f" and array.dtype.itemsize == 4 else np.float64, copy=False)


def _read(path: Path) -> ScoreFile:
    if not path.is_file():
        raise DataError("there is no such score file")
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"PAR1"):
        from muvr_train.search.score_parquet import read_parquet

        return ScoreFile(path, "scores", {"": read_parquet(path)})
    if not zipfile.is_zipfile(path):
        raise DataError(f"{_what_it_is(start)}. A score file is a parquet table, or made with {HOW}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _read_archive(path, archive)
    except _BROKEN as error:
        raise DataError(f"damaged ({error}): copy or write it again") from error


def _read_archive(path: Path, archive: Any) -> ScoreFile:
    names = [name for name in archive.files if name.partition("/")[0] in (*ARRAYS, *OPTIONAL)]
    ends = list(dict.fromkeys(name.partition("/")[2] for name in names))
    if not ends:
        have = shorten(archive.files) if archive.files else "nothing"
        raise DataError(f"it holds {have}; it needs {', '.join(ARRAYS)}: {HOW}")
    if unused := [name for name in archive.files if name not in names and name != "mode"]:
        log.warning("%s: arrays that are not looked at: %s", path, shorten(unused))
    mode = "scores"
    if "mode" in archive.files:
        given = _array(archive, "mode")
        mode = str(given.item()) if given.size == 1 and given.dtype.kind == "U" else ""
        if not mode.strip() or "/" in mode:
            raise DataError(f"mode must be one text without '/', got {given!r}")
    return ScoreFile(path, mode, {end: _read_block(archive, end) for end in ends})


def _read_block(archive: Any, end: str) -> ScoreBlock:
    names = {name: f"{name}/{end}" if end else name for name in (*ARRAYS, *OPTIONAL)}
    missing = [names[name] for name in ARRAYS if names[name] not in archive.files]
    if missing:
        raise DataError(f"{', '.join(missing)} is missing; there are {shorten(archive.files)}. Make it with {HOW}")
    found = {name: _array(archive, key) for name, key in names.items() if key in archive.files}
    try:
        return ScoreBlock(
            queries=texts_of(found["query_ids"], "query_ids"),
            database=texts_of(found["database_ids"], "database_ids"),
            scores=scores_of(found["scores"]),
            expressions=texts_of(found["expressions"], "expressions") if "expressions" in found else None,
        )
    except DataError as error:
        raise DataError(f"block {end}: {error}" if end else str(error)) from error


def _array(archive: Any, name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"{name} holds Python objects, which are never unpickled: save ids as np.array(ids, dtype=str) and scores "
            "with .astype('float32')"
        ) from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name} is no array")
    return array


def _refuse_twice(name: str, ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        twice = [item for item, count in Counter(ids).items() if count > 1]
        raise DataError(f"{len(twice)} {name} stand twice: {shorten(twice)}; give every id one row or column")


def _what_it_is(start: bytes) -> str:
    if not start:
        return "it is empty"
    if start.startswith(b"PK"):
        return "it is cut short (an interrupted copy or download?)"
    if start.startswith(b"\x93NUMPY"):
        return "it is a single array without ids (.npy)"
    if start.startswith(b"\x80"):
        return "it is a pickle, which is never read"
    return f"it is no score file (it begins with {start!r})"
