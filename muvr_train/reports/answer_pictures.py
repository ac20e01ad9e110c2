"""Pictures of what was shown to a model, as JPEG files beside a page: images, and frames of videos on sheets."""

from __future__ import annotations

import hashlib
import io
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from muvr_train.errors import DataError
from muvr_train.reports.thumbnails import in_time
from muvr_train.rerank.types import Clip, Picture, Pixels, Question, Visual

FRAME = (160, 90)  # the most pixels of a frame on a sheet, width and height
PICTURE = (480, 270)  # the same of an image, and of a video of one frame
QUALITY = 72
SLACK = 2**21  # bytes more than there is room for that may be made, so that the first ones surely are
MADE = 1  # changes whenever sheets are made differently: files of another number are not used again


@dataclass(frozen=True)
class Sheet:
    """A file of a picture folder with its size in pixels and bytes; or why there is none."""

    file: str = ""
    width: int = 0
    height: int = 0
    size: int = 0
    why: str = ""


LEFT_OUT = Sheet(why="left out to keep the page small and quick to make")


def save_sheets(folder: Path, visuals: Sequence[Visual], seconds: float, most_bytes: int) -> dict[int, Sheet]:
    """Write a JPEG for each image or video into `folder`, as far as time and room go.

    Files are named by what they show (`Visual.key`), so that those of an earlier page are used again. A decoder that
    hangs costs no more than `seconds`.

    Args:
        folder: is made.
        visuals: the most important first; equal ones share a file.
        seconds: for all.
        most_bytes: of all files.

    Returns:
        Sheet by `id(visual)`, for every one of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = time.monotonic() + seconds
    own = {id(visual): visual for visual in visuals}
    files = in_time(own, lambda number: _file_name(own[number]), seconds / 2)
    first = {file: own[number] for number, file in files.items() if isinstance(file, str)}
    written: list[int] = []
    wanted = [file for file in (files.get(number) for number in own) if isinstance(file, str)]

    def save(file: str) -> Sheet:
        if sum(written) > most_bytes + SLACK:
            return LEFT_OUT
        sheet = _saved(folder / file, first[file])
        written.append(sheet.size)
        return sheet

    made = in_time(wanted, save, stop - time.monotonic())
    return _within(most_bytes, {number: _judged(made, files.get(number)) for number in own})


def _within(most_bytes: int, sheets: Mapping[int, Sheet]) -> dict[int, Sheet]:
    """The first ones that fit; the others stay out."""
    files: set[str] = set()
    kept, total = {}, 0
    for number, sheet in sheets.items():
        if sheet.file in files or total + sheet.size <= most_bytes:
            kept[number] = sheet
            total += 0 if sheet.file in files else sheet.size
            files.add(sheet.file)
        else:
            kept[number] = LEFT_OUT
    return kept


def _file_name(visual: Visual) -> str:
    return hashlib.sha256(f"{MADE}\n{visual.key()}".encode()).hexdigest()[:20] + ".jpg"


def remove_stale(folder: Path, sheets: Mapping[int, Sheet]) -> None:
    """Remove what earlier pages left in a picture folder, and the folder where it is empty."""
    used = {sheet.file for sheet in sheets.values()}
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.suffix in (".jpg", ".tmp") and path.name not in used:
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def sheet_of(frames: Sequence[Pixels]) -> bytes:
    """Frames uint8 [H, W, 3] in reading order on one JPEG; a single one is larger."""
    from PIL import Image

    pieces = [_fitted(frame, PICTURE if len(frames) == 1 else FRAME) for frame in frames]
    columns = len(pieces) if len(pieces) <= 4 else round(math.sqrt(2 * len(pieces)))
    wide, high = max(piece.shape[1] for piece in pieces), max(piece.shape[0] for piece in pieces)
    rows = -(-len(pieces) // columns)
    sheet = np.full((rows * (high + 2) - 2, columns * (wide + 2) - 2, 3), 128, dtype=np.uint8)
    for number, piece in enumerate(pieces):
        top, left = number // columns * (high + 2), number % columns * (wide + 2)
        sheet[top : top + piece.shape[0], left : left + piece.shape[1]] = piece
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, "JPEG", quality=QUALITY, optimize=True)
    return file.getvalue()


def _fitted(frame: Pixels, box: tuple[int, int]) -> Pixels:
    from PIL import Image

    height, width = frame.shape[:2]
    scale = min(box[0] / width, box[1] / height, 1.0)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR))


def keep_sheets(questions: Iterable[Question], folder: Path, most_bytes: int) -> list[Question]:
    """The same questions, but what is loaded to ask them leaves its JPEG in `folder`: `save_sheets` finds it there.

    That is done in `Visual.loaded`, so outside of the time that an answer takes.

    Args:
        questions: to be asked.
        folder: the one of the page.
        most_bytes: after so many bytes no more are kept.
    """
    sizes: list[int] = []

    def keeping(visual: Visual) -> Visual:
        def keep(part: Picture | Clip) -> None:
            path = folder / _file_name(visual)
            if sum(sizes) <= most_bytes and not path.is_file():
                sizes.append(_written(path, visual, part).size)

        return replace(visual, loaded=keep)

    return [
        replace(question, parts=tuple(part if isinstance(part, str) else keeping(part) for part in question.parts))
        for question in questions
    ]


def _saved(path: Path, visual: Visual) -> Sheet:
    """The sheet in a file, made where it is not there yet."""
    if not path.is_file():
        return _written(path, visual, visual.load())
    return _sheet(path, path.read_bytes())


def _written(path: Path, visual: Visual, part: Picture | Clip) -> Sheet:
    frames = (part.pixels,) if isinstance(part, Picture) else part.frames
    if not frames:
        raise DataError(f"{visual.name}: has no frames")
    content = sheet_of(frames)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{threading.get_ident()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
    return _sheet(path, content)


def _sheet(path: Path, content: bytes) -> Sheet:
    from PIL import Image

    width, height = Image.open(io.BytesIO(content)).size
    return Sheet(path.name, width, height, len(content))


def _judged(made: Mapping[str, Sheet | Exception], file: str | Exception | None) -> Sheet:
    """What became of a file, or why it has no name."""
    result = made.get(file) if isinstance(file, str) else file
    if isinstance(result, DataError):
        return Sheet(why=str(result))
    if isinstance(result, Exception):
        raise result
    return result or LEFT_OUT
