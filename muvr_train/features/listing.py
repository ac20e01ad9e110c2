"""Which videos a folder holds, and what they are called in a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from muvr_train.benchmarks.muvr_files import ALIASES
from muvr_train.errors import DataError

SUFFIXES = (
    *(".3gp", ".asf", ".avi", ".divx", ".f4v", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg"),
    *(".mpg", ".mts", ".ogv", ".ts", ".vob", ".webm", ".wmv"),
)
Videos = list[tuple[str, Path]]


def list_videos(folder: Path | str, empty: bool = False, key: str = "videos") -> Videos:
    """(id, path) of every video file below `folder`, sorted by id; hidden files and folders are left out.

    The id is the path relative to the folder without suffix, with `/` between folders: `news/BV1xx` for
    `news/BV1xx.mp4`. Upper-case suffixes and links are followed.

    Args:
        folder: where they lie.
        empty: whether there may be none.
        key: the setting that names the folder, for messages.

    Raises:
        DataError: no such folder, no video in it, two files with one id, a name that is not valid UTF-8.
    """
    folder = Path(folder)
    if not folder.is_dir():
        kind = "is a file, a folder of videos is needed" if folder.exists() else "there is no such folder"
        raise DataError(f"{key}={folder}: {kind}")
    found = []
    for path in _walk(folder):
        if path.suffix.lower() in SUFFIXES:
            found.append((path.relative_to(folder).with_suffix("").as_posix(), path))
    if not found and not empty:
        raise DataError(f"{key}={folder}: holds no video file (looked for {', '.join(SUFFIXES)}, also in subfolders)")
    return check_videos(found)


def check_videos(videos: Iterable[tuple[str, Path]]) -> Videos:
    """Sort (id, path) pairs by id.

    Raises:
        DataError: two files share an id (both are named), or an id is not valid UTF-8.
    """
    paths: dict[str, Path] = {}
    for name, path in videos:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{os.fsencode(path)!r}: the file name is not valid UTF-8; rename the file") from error
        if name in paths:
            raise DataError(f"two files have the id {name!r}: {paths[name]} and {path}; rename or move one")
        paths[name] = Path(path)
    return sorted(paths.items())


def match_videos(folder: Path | str, wanted: Mapping[str, str | None]) -> tuple[Videos, dict[str, str]]:
    """Find the files of named videos below a folder.

    Args:
        folder: Searched with its subfolders.
        wanted: Id -> file, relative to the folder. Where that is None, the id itself is the path with or without its
            suffix, or else the name of the file, which must then be the only one of that name.

    Returns:
        (id, path) of the videos that are there, sorted by id, and for each of the others why it is not.

    Raises:
        DataError: no such folder, or no video in it.
    """
    folder = Path(folder)
    listed = list_videos(folder)
    names: dict[str, list[Path]] = {}
    for name, path in listed:
        for key in {name, path.relative_to(folder).as_posix()}:
            names[key] = [path]
    short: dict[str, list[Path]] = {}
    for _, path in listed:
        for key in {path.stem, path.name}:
            short.setdefault(key, []).append(path)
    found, absent = [], {}
    for video, file in wanted.items():
        paths = names.get(video, short.get(video, [])) if file is None else [folder / file]
        paths = [path for path in paths if path.is_file()]
        if len(paths) == 1:
            found.append((video, paths[0]))
        else:
            several = ", ".join(path.relative_to(folder).as_posix() for path in paths[:3])
            absent[video] = f"several files of this name: {several}" if paths else f"no file {file or video}"
    return check_videos(found), absent


def renamed(videos: Videos) -> Videos:
    """Give ids of partitions by the names of today: older copies of MUVR call others `geng` and instance `animal`."""
    parts = [(video.split("/", 1), path) for video, path in videos]
    return [("/".join([ALIASES.get(names[0], names[0]), *names[1:]]), path) for names, path in parts]


def _walk(folder: Path) -> Iterable[Path]:
    """All visible files below a folder; linked folders are entered, each real folder once."""
    seen: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename}: cannot be listed ({error.strerror})") from error

    for place, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place) / name for name in files if not name.startswith("."))
