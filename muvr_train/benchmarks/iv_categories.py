"""Categories of IV-Bench's videos, from a metadata file of the user: a row of results for each."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from muvr_train.errors import DataError, shorten

COLUMNS = ("video_id", "category")
FORM = "a CSV with the columns video_id and category, or a JSON object {video id: category}"


def read_categories(path: Path, videos: Collection[str]) -> dict[str, str]:
    """Read the category of each video.

    Args:
        path: a CSV with the columns `video_id` and `category` (and any others), or a JSON object.
        videos: ids of those that are asked about; others are passed over.

    Returns:
        Video id -> category, of those that have one.

    Raises:
        DataError: it cannot be read or is neither (file and line are named), an entry is empty or no text, a video has
            two categories, or none of the videos is in it.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    entries = _from_json(text, path) if text.lstrip().startswith(("{", "[")) else _from_csv(text, path)
    found: dict[str, tuple[str, str]] = {}
    for where, video, category in entries:
        if not isinstance(video, str) or not isinstance(category, str) or not video.strip() or not category.strip():
            raise DataError(
                f"{where}: video {video!r} has the category {category!r}; both must be texts with something"
            )
        name, other = found.setdefault(video.strip(), (category.strip(), where))
        if name != category.strip():
            raise DataError(f"{where}: video {video} has the category {category}, in {other} it has {name}: keep one")
    known = {video: found[video][0] for video in videos if video in found}
    if not known:
        raise DataError(
            f"{path} has none of the {len(set(videos))} videos that are asked about; it has {shorten(list(found), 3)}"
        )
    return known


def _from_csv(text: str, path: Path) -> Iterator[tuple[str, Any, Any]]:
    rows = csv.reader(text.splitlines())
    try:
        names = [name.strip() for name in next(rows, [])]
        if any(names.count(name) != 1 for name in COLUMNS):
            raise DataError(f"{path}:1 has the columns {', '.join(names) or 'nothing'}: give {FORM}")
        places = [names.index(name) for name in COLUMNS]
        for row in rows:
            if any(field.strip() for field in row):
                cells = [*row, *[""] * (len(names) - len(row))]
                yield f"{path}:{rows.line_num}", cells[places[0]], cells[places[1]]
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num} is no CSV: {error}") from error


def _from_json(text: str, path: Path) -> Iterator[tuple[str, Any, Any]]:
    pairs: list[tuple[str, Any]] = []

    def keep(inner: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs[:] = inner  # also what stands twice; the outermost object comes last
        return dict(inner)

    try:
        content = json.loads(text, object_pairs_hook=keep)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno} is not JSON: {error.msg}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}:1 is no object: give {FORM}")
    place = 0
    for video, category in pairs:
        place = max(place, text.find(json.dumps(video, ensure_ascii=False), place))
        yield f"{path}:{text.count(chr(10), 0, place) + 1}", video, category
        place += 1
