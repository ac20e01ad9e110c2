"""Images and video frames that are not loaded before they are needed, found by the ids that questions name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from muvr_train.benchmarks.muvr_files import ALIASES
from muvr_train.errors import DataError
from muvr_train.features.listing import list_videos, renamed
from muvr_train.features.masks import mask_of
from muvr_train.rerank.digests import digest_of
from muvr_train.rerank.film import Film
from muvr_train.rerank.pictures import VERSION, read_picture, shrink
from muvr_train.rerank.types import Clip, Picture, Question, Visual


def video_visual(path: Path, name: str, frames: int, resolution: int | None = None) -> Visual:
    """Frames in the centres of equal segments of a video, as a `Clip`; a shorter video gives each of its frames once.

    Args:
        path: the video file.
        name: its id.
        frames: how many.
        resolution: most pixels of the long side; smaller frames stay as they are, all of them for None.
    """
    film = Film(path, frames, resolution)
    return Visual("video", name, film.key, film.load)


def query_visual(
    path: Path, name: str, masks: Path | None = None, frames: int = 1, resolution: int | None = None
) -> Visual:
    """What a query shows: one frame of its video as a `Picture`, or several as a `Clip`.

    With masks, they are chosen among the frames that have one with anything inside (the middle one of these, or the
    centres of equal segments), and the region is outlined (`outline.outline`).

    Args:
        path: the video file.
        name: id of the query.
        masks: the query's file or folder of masks (see `features.masks`), None where it has none.
        frames: how many.
        resolution: see `video_visual`.
    """
    film = Film(path, frames, resolution, masks, still=frames == 1)
    return Visual("image" if film.still else "video", name, film.key, film.load)


def image_visual(path: Path, name: str, resolution: int | None = None) -> Visual:
    """An image file as a `Picture`; `resolution` as in `video_visual`."""

    def key() -> str:
        return json.dumps({"image": digest_of(path), "resolution": resolution, "version": VERSION})

    return Visual("image", name, key, lambda: Picture(shrink(read_picture(path), resolution)))


@dataclass(frozen=True)
class Absent:
    """Stands where a visual's file should be: loading it says what is missing."""

    what: str

    def __call__(self) -> Picture | Clip:
        """Refuse.

        Raises:
            DataError: always.
        """
        raise DataError(self.what)

    def key(self) -> str:
        """Refuse, too."""
        raise DataError(self.what)

    def visual(self, kind: str, name: str) -> Visual:
        """A visual that cannot be loaded."""
        return Visual("image" if kind == "image" else "video", name, self.key, self)


@dataclass(frozen=True)
class Media:
    """Where the files of questions lie.

    Attributes:
        videos: `<partition>/<id>` or `<id>` -> video file.
        images: folder of the image files that questions name, None where there is none.
        masks: folder of the queries' masks (see `features.masks`), None where there is none.
    """

    videos: Mapping[str, Path] = field(default_factory=dict)
    images: Path | None = None
    masks: Path | None = None

    @classmethod
    def open(
        cls,
        videos: Path | str | None,
        images: Path | str | None = None,
        masks: Path | str | None = None,
        empty: bool = False,
    ) -> Media:
        """List a folder of videos (and its subfolders); older names of partitions are understood.

        Args:
            videos: the folder, None for none.
            images: see above.
            masks: see above.
            empty: whether the folder may hold no video.

        Raises:
            DataError: one of the folders is not there, or that of the videos holds none.
        """
        for name, folder in (("images", images), ("masks", masks)):
            if folder is not None and not Path(folder).is_dir():
                raise DataError(f"data.{name}={folder}: there is no such folder")
        listed = {} if videos is None else dict(renamed(list_videos(videos, empty, "data.videos")))
        return cls(listed, None if images is None else Path(images), None if masks is None else Path(masks))

    def video(self, name: str, frames: int, resolution: int | None = None) -> Visual:
        """`video_visual` of an id; where its file is missing, a visual that says so when it is loaded."""
        path = self._find(name)
        if isinstance(path, Absent):
            return path.visual("video", name)
        return video_visual(path, name, frames, resolution)

    def query(self, name: str, masks: Path | None, frames: int = 1, resolution: int | None = None) -> Visual:
        """`query_visual` of a video's id; where its file is missing, a visual that says so when it is loaded."""
        path = self._find(name)
        if isinstance(path, Absent):
            return path.visual("image" if frames == 1 else "video", name)
        return query_visual(path, name, masks, frames, resolution)

    def image(self, name: str, resolution: int | None = None) -> Visual:
        """`image_visual` of a file name; where it is missing, a visual that says so when it is loaded."""
        place = PurePosixPath(name)
        inside = self.images is not None and not place.is_absolute() and ".." not in place.parts
        if self.images is None or not inside or not (self.images / place).is_file():
            where = "no folder of images is given (data.images=DIR)" if self.images is None else f"not in {self.images}"
            return Absent(f"image {name}: {where}").visual("image", name)
        return image_visual(self.images / place, name, resolution)

    def masks_of(self, query: str, entry: str | None = None) -> Path | None:
        """The file or folder of a query's masks (`features.masks.mask_of`), None where it has none."""
        return None if self.masks is None else mask_of(query, entry, self.masks)

    @staticmethod
    def missing(questions: Iterable[Question]) -> dict[tuple[str, str], tuple[str, ...]]:
        """Which files questions lack: (id, setting) -> one line per file that is not there."""
        lacking = {}
        for question in questions:
            visuals = [part for part in question.parts if isinstance(part, Visual)]
            if lines := tuple(visual.load.what for visual in visuals if isinstance(visual.load, Absent)):
                lacking[question.id, question.setting] = lines
        return lacking

    def _find(self, name: str) -> Path | Absent:
        for known in (name, name.rpartition("/")[2]):
            if known in self.videos:
                return self.videos[known]
        found = self._by_end.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            return Absent(f"video {name}: several files have this name: {found[0]}, {found[1]}")
        where = "no such file in data.videos" if self.videos else "no folder with videos is given (data.videos=DIR)"
        return Absent(f"video {name}: {where}")

    @cached_property
    def _by_end(self) -> dict[str, list[Path]]:
        """Videos by their ids without the folders before: `BV1`, `news/BV1` of `all_videos/news/BV1`."""
        ends: dict[str, list[Path]] = {}
        for name, path in self.videos.items():
            *folders, last = name.split("/")
            for end in {last, "/".join([*(ALIASES.get(folder, folder) for folder in folders[-1:]), last])}:
                ends.setdefault(end, []).append(path)
        return ends
