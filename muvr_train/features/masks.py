"""Masks of query regions: a PNG for each frame or for all, or run-length codes of COCO in a JSON file.

Below the folder of masks, a query has one of

    <query id>/<frame>.png    number of the frame in display order from 0, a word may stand before it (`frame_12.png`);
                              or the seconds since the first frame, with an s (`3.25s.png`)
    <query id>.png            one mask for all frames
    <query id>.json           {"<frame>": RLE, ...}, [RLE or null for frame 0, 1, ...], or one RLE for all frames,
                              RLE = {"size": [height, width], "counts": [...] or "..."}

or what its entry `mask` names, relative to that folder. Pixels other than 0 are inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_files import ALIASES
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError, shorten

SUFFIXES = (".png", ".json")
_NUMBER = re.compile(r"(?:[A-Za-z]+[_-]?)?(\d+)")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_OLD_NAMES = {new: old for old, new in ALIASES.items()}


@dataclass(frozen=True)
class Mask:
    """A mask that is not yet read.

    Attributes:
        where: file, and the entry in it, for messages.
        frame: number of its frame; None: all frames, or that at `seconds`.
        seconds: since the first frame; None where `frame` says it.
        path: the PNG file.
        rle: the run-length code, None for a PNG file.
    """

    where: str
    frame: int | None
    seconds: float | None
    path: Path
    rle: Mapping[str, Any] | None = None

    @property
    def for_all(self) -> bool:
        """Whether it is meant for every frame."""
        return self.frame is None and self.seconds is None

    def read(self) -> NDArray[np.bool_]:
        """Decode it to bool [height, width].

        Raises:
            DataError: it is no mask.
        """
        return read_png(self.path) if self.rle is None else decode_rle(self.rle, self.where)


def find_masks(folder: Path | str, benchmark: Benchmark) -> dict[str, Path]:
    """Find which queries have masks: query id -> file or folder.

    Raises:
        DataError: no such folder, no mask for any query, files that belong to no query, a query with two of them, or an
            entry `mask` without a file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"masks={folder}: {'is no folder' if folder.exists() else 'there is no such folder'}")
    found = {
        query.id: path for query in benchmark.queries if (path := mask_of(query.id, query.mask, folder)) is not None
    }
    used, files = set(found.values()), [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES]
    unknown = [path for path in files if used.isdisjoint((path, *path.parents))]
    unknown = [path for path in unknown if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if unknown or not found:
        names = shorten([path.relative_to(folder).as_posix() for path in unknown], 5)
        problem = f"{len(unknown)} files belong to no query: {names}" if unknown else "no query has a mask"
        raise DataError(
            f"masks={folder}: {problem}. A query has <query id>/<frame>.png, <query id>.png or <query id>.json; "
            f"the queries are {shorten([query.id for query in benchmark.queries], 3)}"
        )
    return found


def mask_of(query: str, entry: str | None, folder: Path) -> Path | None:
    """Find the file or folder of a query's masks, None where there is none.

    Args:
        query: its id.
        entry: what its annotation names, None where it names nothing.
        folder: of all masks.

    Raises:
        DataError: what the annotation names is not there, or the query has two of them.
    """
    if entry is not None:
        path = folder / entry
        if not path.exists():
            raise DataError(f"the mask of query {query} is not there: {path}")
        return path
    partition, _, rest = query.partition("/")
    names = [query, *([f"{_OLD_NAMES[partition]}/{rest}"] if rest and partition in _OLD_NAMES else [])]
    paths = [folder / f"{name}{suffix}" for name in names for suffix in ("", *SUFFIXES)]
    paths = [path for path in paths if (path.is_dir() if path.suffix not in SUFFIXES else path.is_file())]
    if len(paths) > 1:
        raise DataError(f"query {query} has several masks, leave one: {', '.join(map(str, paths))}")
    return paths[0] if paths else None


def list_masks(path: Path) -> list[Mask]:
    """List the masks in a file or folder of a query; those of frame numbers are sorted.

    Raises:
        DataError: there are none, names that tell no frame, a JSON file that holds something else.
    """
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if not file.name.startswith(".")]
        masks = [_png_mask(file) for file in files]
    elif path.suffix.lower() == ".json":
        masks = _json_masks(path)
    else:
        masks = [Mask(str(path), None, None, path)]
    if not masks:
        raise DataError(f"{path}: holds no mask")
    return masks


def _png_mask(path: Path) -> Mask:
    if path.suffix.lower() != ".png":
        raise DataError(f"{path}: is no PNG file; a folder of masks holds <frame>.png")
    if number := _NUMBER.fullmatch(path.stem):
        return Mask(str(path), int(number[1]), None, path)
    if seconds := _SECONDS.fullmatch(path.stem):
        return Mask(str(path), None, float(seconds[1]), path)
    raise DataError(f"{path}: the name tells no frame; write its number (12.png) or its time in seconds (3.25s.png)")


def _json_masks(path: Path) -> list[Mask]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: is no JSON file ({error})") from error
    if isinstance(content, dict) and "counts" in content:
        return [Mask(str(path), None, None, path, content)]
    if isinstance(content, list):
        content = {str(frame): code for frame, code in enumerate(content)}
    if not isinstance(content, dict):
        raise DataError(f"{path}: must hold run-length codes by frame number, got {type(content).__name__}")
    if unknown := [key for key in content if not re.fullmatch(r"\d+", key)]:
        raise DataError(f"{path}: keys must be frame numbers, got {shorten([repr(key) for key in unknown], 3)}")
    numbered = sorted((int(key), code) for key, code in content.items() if code is not None)
    return [Mask(f"{path} (frame {frame})", frame, None, path, code) for frame, code in numbered]


def read_png(path: Path) -> NDArray[np.bool_]:
    """Read a mask: bool [height, width], True where a pixel has any colour (or label) other than 0 and is not clear.

    Raises:
        DataError: it is no PNG file, or damaged.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.format != "PNG":
                raise DataError(f"{path}: is no PNG file but {picture.format}")
            values = np.asarray(picture if picture.mode != "PA" else picture.convert("RGBA"))
            mode = picture.mode
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as PNG ({error})") from error
    if values.ndim == 2:
        return np.asarray(values != 0)
    if mode in ("LA", "PA", "RGBA"):
        return np.asarray((values[..., :-1] != 0).any(axis=-1) & (values[..., -1] != 0))
    return np.asarray((values != 0).any(axis=-1))


def decode_rle(code: object, where: str) -> NDArray[np.bool_]:
    """Decode a run-length code of COCO to bool [height, width].

    Runs go column by column, of pixels outside and inside in turn, outside first. A text holds their lengths in groups
    of 5 bits from the lowest, each a character from "0" on, 32 added where another group follows; the last group's
    highest bit is the sign, and from the fourth length on it is the difference to the length two places before.

    Raises:
        DataError: it is no such code, or its lengths do not fill the picture.
    """
    if not isinstance(code, Mapping) or "counts" not in code:
        raise DataError(f"{where}: must be {{'size': [height, width], 'counts': ...}}, got {str(code)[:60]!r}")
    size, counts = code.get("size"), code["counts"]
    if not isinstance(size, Sequence) or [type(edge) for edge in size] != [int, int] or min(size) < 1:
        raise DataError(f"{where}: 'size' must be [height, width], got {size!r}")
    if isinstance(counts, str):
        counts = _lengths(counts, where)
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        raise DataError(f"{where}: 'counts' must be a list of lengths from 0, or a text of COCO")
    height, width = size
    if sum(counts) != height * width:
        raise DataError(f"{where}: 'counts' give {sum(counts)} pixels, 'size' {height} x {width} = {height * width}")
    inside = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return np.ascontiguousarray(inside.reshape(width, height).T)


def _lengths(text: str, where: str) -> list[int]:
    lengths: list[int] = []
    value, shift = 0, 0
    for letter in text:
        group = ord(letter) - 48
        if not 0 <= group < 64:
            raise DataError(f"{where}: 'counts' holds {letter!r}, which no code of COCO has")
        value |= (group & 31) << shift
        shift += 5
        if group & 32:
            continue
        if group & 16:
            value -= 1 << shift
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
        value, shift = 0, 0
    if shift:
        raise DataError(f"{where}: 'counts' ends in the middle of a length")
    return lengths


def fit_mask(mask: NDArray[np.bool_], height: int, width: int, where: str) -> NDArray[np.bool_]:
    """Bring a mask to the size of its frame (nearest pixels).

    Raises:
        DataError: it has another aspect ratio.
    """
    rows, columns = mask.shape
    if (rows, columns) == (height, width):
        return mask
    if abs(columns - rows * width / height) > 1 and abs(rows - columns * height / width) > 1:
        raise DataError(
            f"{where}: the mask is {columns} x {rows} pixels, the frame {width} x {height}, which is another shape; "
            "mind that frames are meant upright, as they are shown"
        )
    at_row = (2 * np.arange(height) + 1) * rows // (2 * height)
    at_column = (2 * np.arange(width) + 1) * columns // (2 * width)
    return np.asarray(mask[at_row[:, None], at_column])
