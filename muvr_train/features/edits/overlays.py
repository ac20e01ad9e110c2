"""Edits that lay something over the picture, or put it into another one: texts, marks, other videos, title cards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from muvr_train.features.edits.arrays import SMOOTH, Frames, each_picture, rgb, stamp

Draw = ImageDraw.ImageDraw
FINE = 4  # marks are drawn so many times larger, for smooth edges


def text_bar(frames: Frames, text: str, top: float, height: float, ink: Sequence[int], paper: Sequence[int]) -> Frames:
    """Put a bar with a line of text across all frames."""
    rows, columns = frames.shape[1:3]
    high = max(1, round(height * rows))
    y = min(round(top * rows), rows - high)
    out = frames.copy()
    out[:, y : y + high] = np.array(text_picture(text, columns, high, ink, paper))
    return out


def caption(frames: Frames, text: str, left: float, top: float, height: float, ink: Sequence[int]) -> Frames:
    """Write a line of outlined text; `left` and `top` in [0, 1] say where it lies in the room that it leaves."""
    rows, columns = frames.shape[1:3]
    line = _line(text, max(4, round(height * rows)), ink, 255, edge=True)
    if line.width > 0.96 * columns:
        line = line.resize((max(1, round(0.96 * columns)), line.height), SMOOTH)
    return stamp(frames, line, round(left * (columns - line.width)), round(top * (rows - line.height)))


def watermark(frames: Frames, text: str, height: float, opacity: float, ink: Sequence[int]) -> Frames:
    """Write a text all over the picture, in slanting rows that show the picture through."""
    rows, columns = frames.shape[1:3]
    line = _line(text, max(4, round(height * rows)), ink, round(255 * opacity), edge=False)
    side = math.ceil(math.hypot(rows, columns))
    sheet = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    for number, y in enumerate(range(0, side, 4 * line.height)):
        for x in range(-line.width * (number % 2), side, 2 * line.width):
            sheet.paste(line, (x, y))
    sheet = sheet.rotate(20, SMOOTH)
    left, top = (side - columns) // 2, (side - rows) // 2
    return stamp(frames, sheet.crop((left, top, left + columns, top + rows)), 0, 0)


def logo(
    frames: Frames, sides: int, left: float, top: float, size: float, ink: Sequence[int], paper: Sequence[int]
) -> Frames:
    """Put a filled polygon on a disc over all frames; `size` is a fraction of the short side."""
    rows, columns = frames.shape[1:3]
    edge = max(2, round(size * min(rows, columns)))
    mark = Image.new("RGBA", (edge, edge), (0, 0, 0, 0))
    draw = ImageDraw.Draw(mark)
    draw.ellipse((0, 0, edge - 1, edge - 1), fill=rgb(paper))
    draw.regular_polygon((edge / 2, edge / 2, 0.4 * edge), sides, fill=rgb(ink))
    return stamp(frames, mark, round(left * columns), round(top * rows))


def emoji(frames: Frames, kind: str, left: float, top: float, size: float) -> Frames:
    """Put a mark of `MARKS` over all frames; `size` is a fraction of the short side, the place is as in `caption`."""
    rows, columns = frames.shape[1:3]
    edge = max(2, round(size * min(rows, columns)))
    large = Image.new("RGBA", (FINE * edge, FINE * edge), (0, 0, 0, 0))
    MARKS[kind](ImageDraw.Draw(large), FINE * edge / 100)
    mark = large.resize((edge, edge), Image.Resampling.BOX)
    return stamp(frames, mark, round(left * (columns - edge)), round(top * (rows - edge)))


def _face(draw: Draw, u: float) -> None:
    draw.ellipse((2 * u, 2 * u, 98 * u, 98 * u), fill=(255, 204, 60), outline=(180, 120, 0), width=math.ceil(3 * u))
    for x in (33, 67):
        draw.ellipse(((x - 7) * u, 28 * u, (x + 7) * u, 46 * u), fill=(70, 40, 0))
    draw.chord((22 * u, 38 * u, 78 * u, 86 * u), 10, 170, fill=(110, 30, 20))


def _heart(draw: Draw, u: float) -> None:
    for x in (28, 72):
        draw.ellipse(((x - 26) * u, 10 * u, (x + 26) * u, 62 * u), fill=(230, 30, 60))
    draw.polygon([(6 * u, 48 * u), (94 * u, 48 * u), (50 * u, 96 * u)], fill=(230, 30, 60))


def _star(draw: Draw, u: float) -> None:
    turns = [(math.pi * n / 5 - math.pi / 2, 48 if n % 2 == 0 else 20) for n in range(10)]
    points = [((50 + r * math.cos(a)) * u, (50 + r * math.sin(a)) * u) for a, r in turns]
    draw.polygon(points, fill=(255, 210, 0), outline=(150, 110, 0))


def _play(draw: Draw, u: float) -> None:
    draw.rounded_rectangle((2 * u, 16 * u, 98 * u, 84 * u), 18 * u, fill=(220, 20, 20))
    draw.polygon([(38 * u, 32 * u), (38 * u, 68 * u), (70 * u, 50 * u)], fill=(255, 255, 255))


def _arrow(draw: Draw, u: float) -> None:
    draw.polygon(
        [(x * u, y * u) for x, y in ((4, 38), (54, 38), (54, 14), (97, 50), (54, 86), (54, 62), (4, 62))],
        fill=(250, 40, 30),
        outline=(255, 255, 255),
    )


def _ring(draw: Draw, u: float) -> None:
    draw.ellipse((4 * u, 4 * u, 96 * u, 96 * u), outline=(250, 30, 20), width=math.ceil(7 * u))


MARKS: dict[str, Callable[[Draw, float], None]] = {
    "face": _face,
    "heart": _heart,
    "star": _star,
    "play": _play,
    "arrow": _arrow,
    "ring": _ring,
}
"""Kinds of `emoji`: drawn into a square of 100 units."""


def inset(frames: Frames, host: Frames, scale: float, left: float, top: float) -> Frames:
    """Shrink the video into the frames of another one.

    Args:
        frames: the video.
        host: what it is shown in, uint8 [T', H', W', 3]; stretched in time to T.
        scale: edges of the inset as a share of the host's.
        left: 0 puts the inset at the left edge, 1 at the right.
        top: 0 puts it at the upper edge, 1 at the lower.
    """
    rows, columns = host.shape[1:3]
    high, wide = max(1, round(scale * rows)), max(1, round(scale * columns))
    y, x = round(top * (rows - high)), round(left * (columns - wide))
    out: Frames = host[_stretched(host, len(frames))]
    out[:, y : y + high, x : x + wide] = each_picture(frames, lambda picture: picture.resize((wide, high), SMOOTH))
    return out


def guest(frames: Frames, host: Frames, scale: float, left: float, top: float) -> Frames:
    """Show another video (`host`) small in this one, as reactions to videos do; see `inset`."""
    return inset(host[_stretched(host, len(frames))], frames, scale, left, top)


def beside(frames: Frames, host: Frames, side: str) -> Frames:
    """Show another video (`host`) beside this one, at its "left", "right", "top" or "bottom", equally large."""
    rows, columns = frames.shape[1:3]
    other = each_picture(host, lambda picture: picture.resize((columns, rows), SMOOTH))
    pair = [frames, other[_stretched(host, len(frames))]]
    return np.concatenate(
        pair if side in ("right", "bottom") else pair[::-1], axis=1 if side in ("top", "bottom") else 2
    )


def pad(frames: Frames, scale: float, blur: float) -> Frames:
    """Shrink the video onto a blurred, darker copy of itself, as portrait uploads are."""
    soft = each_picture(frames, lambda picture: picture.filter(ImageFilter.GaussianBlur(blur * min(picture.size))))
    return inset(frames, soft // 2, scale, 0.5, 0.5)


def _stretched(frames: Frames, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which of the frames are shown where `count` are needed, each equally long."""
    places: np.ndarray[tuple[int], np.dtype[np.int64]] = np.arange(count) * len(frames) // count
    return places


def _line(text: str, height: int, ink: Sequence[int], alpha: int, edge: bool) -> Image.Image:
    """A line of text on nothing, `height` pixels high; `edge` draws a dark or light outline around it."""
    font = ImageFont.load_default(0.8 * height)
    stroke = max(1, height // 16) if edge else 0
    box = ImageDraw.Draw(Image.new("L", (1, 1))).textbbox((0, 0), text, font=font, stroke_width=stroke)
    line = Image.new("RGBA", (max(1, math.ceil(box[2] - box[0])), max(1, math.ceil(box[3] - box[1]))), (0, 0, 0, 0))
    outline = (0, 0, 0, alpha) if sum(ink) > 380 else (255, 255, 255, alpha)
    ImageDraw.Draw(line).text(
        (-box[0], -box[1]), text, fill=(*rgb(ink), alpha), font=font, stroke_width=stroke, stroke_fill=outline
    )
    return line


def text_picture(text: str, width: int, height: int, ink: Sequence[int], paper: Sequence[int]) -> Image.Image:
    """Draw one line of text, scaled to fill a picture of width x height pixels."""
    font = ImageFont.load_default()
    left, top, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), text, font=font)
    line = Image.new("RGB", (int(right - left) + 8, int(bottom - top) + 4), rgb(paper))
    ImageDraw.Draw(line).text((4 - left, 2 - top), text, fill=rgb(ink), font=font)
    return line.resize((width, height), SMOOTH)


def title_card(name: str, count: int, height: int = 144, width: int = 256) -> Frames:
    """Draw `count` equal frames of a title card; the name alone decides what it looks like."""
    rng = np.random.default_rng(list(name.encode()))
    paper, ink = (rng.integers(0, 256, 3).tolist() for _ in range(2))
    card = Image.new("RGB", (width, height), rgb(paper))
    draw = ImageDraw.Draw(card)
    for _ in range(4):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        shape = (x, y, float(rng.uniform(0.1, 0.3)) * height)
        draw.regular_polygon(shape, int(rng.integers(3, 9)), fill=rgb(rng.integers(0, 256, 3).tolist()))
    letters = "".join(chr(65 + int(letter)) for letter in rng.integers(0, 26, 8))
    card.paste(text_picture(letters, width // 2, height // 4, ink, paper), (width // 4, height // 3))
    return np.repeat(np.array(card)[None], count, axis=0)
