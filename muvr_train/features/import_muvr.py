"""Import of cached features in MUVR's released layout: `<partition>/<id>.npy` and `<partition>/<id>_query_dict.pkl`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.importing import ImportReport, as_float, recorded, with_progress
from muvr_train.features.manifest import make_manifest
from muvr_train.features.shards import Array
from muvr_train.features.store import tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.pickles import read_pickle

ALIASES = {"geng": "others", "animal": "instance"}
_QUERY = "_query_dict.pkl"
_TOKEN_ROWS = 32  # the official evaluator averages exactly so many middle rows,
_PROMPT_ROWS = 8  # and prompts of exactly so many


@dataclass(frozen=True)
class _File:
    partition: str
    name: str
    path: Path

    @property
    def is_query(self) -> bool:
        return self.name.endswith(_QUERY)

    @property
    def key(self) -> str:
        stem = self.name.removesuffix(_QUERY) if self.is_query else self.name.removesuffix(".npy")
        return f"{self.partition}/{stem}"


def list_partitions(folder: Path) -> dict[str, Path]:
    """The partitions of a folder in MUVR's layout, by their new names (geng is others, animal is instance).

    Returns:
        Every subfolder that holds .npy files, by name; empty where the folder has another layout.

    Raises:
        DataError: two subfolders that are the same partition.
    """
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        if (
            entry.name.startswith(".")
            or not entry.is_dir()
            or not any(name.endswith(".npy") for name in os.listdir(entry))
        ):
            continue
        name = ALIASES.get(entry.name, entry.name)
        if name in found:
            raise DataError(
                f"{folder} holds {found[name].name!r} and {entry.name!r}, which are the same partition: keep one"
            )
        found[name] = entry
    return found


def import_muvr(
    folder: Path | str, out: Path | str, *, float16: bool = False, token_rows: str = "mean"
) -> ImportReport:
    """Import a folder in MUVR's layout into a store; an interrupted import continues.

    Keys are `<partition>/<id>`, with the new names of the partitions. As the official evaluator does, features
    [frames, 32, D] are averaged over the 32 and prompts of 8 rows to one (both in float32, then stored so), and
    [1, frames, D] is squeezed unless the other files have as many regions. Other [frames, R, D] are kept as regions.

    Args:
        folder: the folder with one subfolder per partition.
        out: the store to make.
        float16: store float16; otherwise the dtype of each file is kept (float64 becomes float32).
        token_rows: "mean" as described, "keep" keeps the 32 as regions.

    Returns:
        What is stored, and what could not be imported and why; also in the store's failures.csv.

    Raises:
        ConfigError: unknown `token_rows`.
        DataError: no such layout, or `out` holds something else.
    """
    if token_rows not in ("mean", "keep"):
        raise ConfigError(f"token_rows must be mean or keep, got {token_rows!r}")
    folder = Path(folder)
    files = _list_files(folder)
    manifest = make_manifest(
        "unknown (imported)",
        text_encoder="unknown (imported)",
        text_aligned=True,
        source=str(folder.resolve()),
        token_rows=token_rows,
    )
    writer = StoreWriter(out, manifest, "float16" if float16 else None)
    with recorded(writer, folder) as report:
        regions = _common_regions(files, token_rows)
        done = {stream: writer.done(stream) for stream in ("video", "text", "tags")}
        for file in with_progress(files, len(files), "Importing features"):
            try:
                if file.is_query:
                    report.failures += _add_query(writer, file, done)
                elif file.key not in done["video"]:
                    writer.add(file.key, _frames(_load(file.path), token_rows, regions))
            except (DataError, ValueError) as error:
                report.failures.append((file.key, f"{file.path}: {error}"))
        report.failures += [(str(path), "a nested folder is not part of MUVR's layout") for path in _nested(folder)]
    return report


def _list_files(folder: Path) -> list[_File]:
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}")
    partitions = list_partitions(folder)
    if not partitions:
        raise DataError(f"{folder} is not in MUVR's layout: it has no subfolder (partition) with .npy files")
    return [
        _File(partition, name, path / name)
        for partition, path in partitions.items()
        for name in sorted(os.listdir(path))
        if name.endswith((".npy", _QUERY)) and not (path / name).is_dir()
    ]


def _nested(folder: Path) -> Iterator[Path]:
    for path in list_partitions(folder).values():
        yield from sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _load(path: Path) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, SyntaxError) as error:
        raise DataError(f"unreadable ({type(error).__name__}: {error})") from error
    if not isinstance(array, np.ndarray):
        raise DataError("an archive of several arrays, not one .npy array")
    return as_float(array)


def _common_regions(files: Sequence[_File], token_rows: str) -> int:
    """The region count of the first file that leaves no doubt ([1, n, D] may be n frames or n regions), else 1."""
    for file in files:
        if file.is_query:
            continue
        try:
            shape = np.load(file.path, mmap_mode="r", allow_pickle=False).shape
        except (OSError, ValueError, EOFError, SyntaxError):
            continue  # reported when its turn comes
        if len(shape) == 2 or (len(shape) == 3 and shape[1] == _TOKEN_ROWS and token_rows == "mean"):
            return 1
        if len(shape) == 3 and shape[0] > 1:
            return int(shape[1])
    return 1


def _frames(array: Array, token_rows: str, regions: int) -> Array:
    """Features of one file as [T, R, D]."""
    if array.ndim == 2:
        return array[:, None]
    if array.ndim != 3:
        raise ValueError(f"expected [frames, D] or [frames, regions, D], got {array.shape}")
    if array.shape[1] == _TOKEN_ROWS and token_rows == "mean":
        return np.asarray(array.astype(np.float32).mean(axis=1, keepdims=True))
    if array.shape[0] == 1 and array.shape[1] != regions:
        return array.swapaxes(0, 1)
    return array


def _rows(value: Any, what: str) -> Array:
    """A prompt's or tag's vectors as [L, 1, D]."""
    if not isinstance(value, np.ndarray) or value.ndim not in (1, 2):
        raise ValueError(f"{what} should be an array [rows, D], got {getattr(value, 'shape', type(value).__name__)}")
    return as_float(np.atleast_2d(value))[:, None]


def _add_query(writer: StoreWriter, file: _File, done: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Store what is not yet there of a query's prompt and tags; returns the tags that failed."""
    content = read_pickle(file.path)
    if not isinstance(content, dict) or "query_prompt" not in content:
        raise ValueError("no dictionary with the key 'query_prompt'")
    prompt = _rows(content["query_prompt"], "query_prompt")
    if len(prompt) == _PROMPT_ROWS:
        prompt = prompt.astype(np.float32).mean(axis=0, keepdims=True)
    if file.key not in done["text"]:
        writer.add(file.key, prompt, "text")
    tags = content.get("tags")
    if not isinstance(tags, dict):
        return [(file.key, f"{file.path}: no dictionary 'tags'; the prompt was imported")]
    failures = []
    for tag, value in tags.items():
        key = tag_key(file.key, str(tag))
        try:
            if key not in done["tags"]:
                writer.add(key, _rows(value, f"tag {tag!r}"), "tags")
        except (DataError, ValueError) as error:
            failures.append((key, f"{file.path}: {error}"))
    return failures
