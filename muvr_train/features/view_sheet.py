"""A picture of a few videos beside their edited views, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from muvr_train.features.compose import shrink
from muvr_train.features.decode import Frames
from muvr_train.features.events import Done, FrameChunk, Void
from muvr_train.features.pool import TIMEOUT_SECONDS, DecodePool
from muvr_train.features.sampling import uniform
from muvr_train.features.views import ViewsJob

CELL = (108, 84)  # width and height of a frame, in pixels
FRAMES = 4  # of every video and view
TEXT = 26  # height of what stands below
GAP = 8
WORDS_PER_LINE = 84


@dataclass(frozen=True)
class _Thumbnails:
    """Frames uint8 [T, H, W, 3] to [T, 84, 108, 3], the whole picture on grey."""

    def __call__(self, frames: Frames) -> Frames:
        width, height = CELL
        scale = min(width / frames.shape[2], height / frames.shape[1], 1.0)
        small = shrink(frames, max(1, round(scale * min(frames.shape[1:3]))))[:, :height, :width]
        out = np.full((len(frames), height, width, 3), 235, dtype=np.uint8)
        top, left = (height - small.shape[1]) // 2, (width - small.shape[2]) // 2
        out[:, top : top + small.shape[1], left : left + small.shape[2]] = small
        return out


def save_view_sheet(path: Path, jobs: Sequence[ViewsJob], workers: int = 1, timeout: float = TIMEOUT_SECONDS) -> None:
    """Draw a row per video: itself, then its views, a few frames of each, with the edits' names; write it as PNG.

    Args:
        path: the PNG.
        jobs: the videos, at least one.
        workers: processes that decode.
        timeout: seconds of silence after which one is killed.
    """
    made: dict[tuple[int, str], list[Frames]] = {}
    for event in DecodePool(jobs, _Thumbnails(), workers, timeout):
        if isinstance(event, FrameChunk):
            made.setdefault((event.job, event.stream), []).append(event.frames)
        elif isinstance(event, Void) or (isinstance(event, Done) and event.status.failed):
            made = {key: frames for key, frames in made.items() if key[0] != event.job}
    streams = max((job.streams for job in jobs), key=len)
    width, height = FRAMES * CELL[0] + GAP, CELL[1] + TEXT + GAP
    sheet = Image.new("RGB", (len(streams) * width + GAP, len(jobs) * height + GAP), (255, 255, 255))
    for row, job in enumerate(jobs):
        texts = {recipe.stream: _told(job, number) for number, recipe in enumerate(job.recipes)}
        for column, stream in enumerate(job.streams):
            place = (GAP + column * width, GAP + row * height)
            parts = made.get((row, stream), [])
            _draw(sheet, place, np.concatenate(parts) if parts else None, texts.get(stream, job.id))
    sheet.save(path, "PNG")


def _told(job: ViewsJob, number: int) -> str:
    """What is done in a view: its edits, and what comes before and after."""
    names = []
    for piece in job.recipes[number].pieces:
        if piece.card or piece.source != job.id:
            names.append("[title card]" if piece.card else "[other video]")
        names += [edit.name for edit in piece.edits if edit.name != "thin"]
    return f"{job.recipes[number].stream}: {', '.join(names) or 'as it is'}"


def _draw(sheet: Image.Image, place: tuple[int, int], frames: Frames | None, text: str) -> None:
    left, top = place
    if frames is None:
        text += ": could not be made"
    else:
        for number, index in enumerate(uniform(len(frames), FRAMES)):
            sheet.paste(Image.fromarray(frames[index]), (left + number * CELL[0], top))
        text += f" ({len(frames)})"
    lines = [text[start : start + WORDS_PER_LINE] for start in range(0, len(text), WORDS_PER_LINE)][:2]
    ImageDraw.Draw(sheet).multiline_text(
        (left, top + CELL[1] + 1), "\n".join(lines), fill=(0, 0, 0), font=ImageFont.load_default(10), spacing=1
    )
