"""One shard of a feature store on disk: a safetensors file with a packed `tokens` tensor and its `offsets`.

The file is a plain safetensors file, so any safetensors reader opens it. It is parsed and mapped here by hand, because
a memory map over the packed data section reads an order of magnitude faster than one tensor per video.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from muvr_train.errors import DataError

Array = npt.NDArray[Any]

# Name -> (name in the safetensors header, numpy type of the raw values). bfloat16, unknown to numpy, is held as int16.
DTYPES: dict[str, tuple[str, npt.DTypeLike]] = {
    "float16": ("F16", np.dtype("<f2")),
    "bfloat16": ("BF16", np.dtype("<i2")),
    "float32": ("F32", np.dtype("<f4")),
}
_NAMES = {code: name for name, (code, _) in DTYPES.items()}
_REPAIR = "Copy the file again from its source, or delete the store folder and build it again."


@dataclass(frozen=True)
class Shard:
    """An open shard: `raw` [sum of T, R, D] is a read-only map (int16 bits for bfloat16), `offsets` int64 [n + 1]."""

    dtype: str
    raw: Array
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def common_length(self) -> int:
        """The number of rows T that all entries have, 0 where they differ."""
        lengths = np.diff(self.offsets)
        return int(lengths[0]) if (lengths == lengths[0]).all() else 0

    def entries(self, count: int) -> list[Array]:
        """The first `count` entries, each a view [T, R, D]."""
        return [self.raw[self.offsets[i] : self.offsets[i + 1]] for i in range(count)]


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Fill a temporary file, sync it, and rename it to `path`: readers see the old content or the new, never a half.

    Raises:
        DataError: the disk is full, or the folder cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "is full" if full else "cannot be written"
        how = "make room there" if full else "repair that"
        raise DataError(
            f"The folder {path.parent} {what} ({error.strerror}, {path.name}): what was written before is kept; {how}, "
            "and run again"
        ) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file atomically."""

    def write(file: IO[bytes]) -> None:
        file.write(data)

    write_atomically(path, write)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically. Lone surrogates (odd file names) survive because only ASCII is written."""
    write_bytes(path, json.dumps(content, indent=1).encode("ascii"))


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: the file is missing, unreadable, or no JSON object.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path} is missing, so {path.parent} is no feature store ({what})") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} ({what}) cannot be read: {error}. {_REPAIR}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} ({what}) should hold a JSON object, got {type(content).__name__}. {_REPAIR}")
    return content


def write_shard(path: Path, arrays: Sequence[Array], dtype: str) -> None:
    """Write raw arrays [T_i, R, D] (int16 bits for bfloat16) of one dtype as a shard, atomically."""
    code, kind = DTYPES[dtype]
    offsets = np.cumsum([0] + [len(array) for array in arrays], dtype="<i8")
    shape = [int(offsets[-1]), *arrays[0].shape[1:]]
    split = offsets.nbytes
    end = split + int(np.prod(shape)) * np.dtype(kind).itemsize
    header = {
        "offsets": {"dtype": "I64", "shape": [len(offsets)], "data_offsets": [0, split]},
        "tokens": {"dtype": code, "shape": shape, "data_offsets": [split, end]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)

    def write(file: IO[bytes]) -> None:
        file.write(struct.pack("<Q", len(text)) + text + offsets.tobytes())
        for array in arrays:
            file.write(np.ascontiguousarray(array, dtype=kind).data)

    write_atomically(path, write)


def open_shard(path: Path, entries: int) -> Shard:
    """Check a shard's header against its size and map its data section.

    Args:
        path: the shard file.
        entries: how many videos (texts) the index lists in it; the shard must hold at least these.

    Raises:
        DataError: the file is missing, truncated, not a shard, or holds fewer entries than the index lists.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header, start = _read_header(path, file, size)
    except FileNotFoundError:
        raise DataError(f"{path} is missing, but the index lists {entries} entries in it. {_REPAIR}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}. {_REPAIR}") from error
    where, tokens = _section(path, header, "offsets", 1), _section(path, header, "tokens", 3)
    expected = start + max(where[2], tokens[2])
    if size != expected:
        kind = "truncated" if size < expected else "longer than its header says"
        raise DataError(f"{path} is {kind}: {size} bytes instead of {expected}. {_REPAIR}")
    dtype = _NAMES.get(tokens[0])
    if dtype is None or where[0] != "I64":
        raise DataError(
            f"{path} holds types {tokens[0]} and {where[0]}, expected one of {sorted(_NAMES)} and I64. {_REPAIR}"
        )
    offsets = np.array(_map(path, "<i8", start, where))
    if offsets[:1].tolist() != [0] or int(offsets[-1]) != tokens[3][0] or not (np.diff(offsets) > 0).all():
        raise DataError(f"{path} has offsets that do not fit its {tokens[3][0]} rows. {_REPAIR}")
    if entries > len(offsets) - 1:
        raise DataError(f"The index lists {entries} entries in {path}, which holds {len(offsets) - 1}. {_REPAIR}")
    return Shard(dtype, _map(path, DTYPES[dtype][1], start, tokens), offsets)


Section = tuple[str, int, int, tuple[int, ...]]


def _map(path: Path, kind: npt.DTypeLike, start: int, section: Section) -> Array:
    return np.memmap(path, dtype=kind, mode="r", offset=start + section[1], shape=section[3]).view(np.ndarray)


def _read_header(path: Path, file: IO[bytes], size: int) -> tuple[dict[str, Any], int]:
    prefix = file.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
    if len(prefix) < 8 or length > size - 8:
        raise DataError(f"{path} is truncated inside its header (file of {size} bytes). {_REPAIR}")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a safetensors file: its header is no JSON ({error}). {_REPAIR}") from error
    if not isinstance(header, dict):
        raise DataError(f"{path} is not a safetensors file: its header is no JSON object. {_REPAIR}")
    return header, 8 + length


def _section(path: Path, header: dict[str, Any], name: str, rank: int) -> Section:
    """(dtype code, begin, end, shape) of one tensor, checked for consistency."""
    entry = header.get(name)
    try:
        code, (begin, end), shape = entry["dtype"], entry["data_offsets"], tuple(entry["shape"])  # type: ignore[index]
        width = {"I64": 8, "F32": 4}.get(code, 2)
        numbers_fit = all(type(number) is int and number >= 0 for number in (begin, end, *shape))
        fits = (
            numbers_fit
            and len(shape) == rank
            and min(shape) > 0
            and end - begin == width * int(np.prod(shape, dtype=object))
        )
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise DataError(f"{path} has no usable tensor {name!r} of {rank} dimensions (header entry: {entry}). {_REPAIR}")
    return code, begin, end, shape
