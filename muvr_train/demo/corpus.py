"""The built-in corpus on disk: rendered once into the cache, resumed after a kill, found again by its hash."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from muvr_train.demo.annotations import write_annotations
from muvr_train.demo.draw import draw_video
from muvr_train.demo.encode import CODEC_OPTIONS, write_video
from muvr_train.demo.masks import write_masks
from muvr_train.demo.plan import make_plan
from muvr_train.demo.scenario import Plan, Video
from muvr_train.demo.spec import ANNOTATION, FPS, FRAME_SIZE, VERSION
from muvr_train.features.progress import track

WORKERS = 2
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DemoCorpus:
    """Where the corpus lies.

    Attributes:
        root: Of everything; its name is that of the videos' plan (`corpus_name`).
        annotations: `<partition>/*.json` in MUVR's layout.
        videos: `<partition>/<video id>.mp4`.
        masks: `<partition>/<video id>.json`, what the queries of `masks.MASKED` mean.
    """

    root: Path
    annotations: Path
    videos: Path
    masks: Path

    @property
    def name(self) -> str:
        """The version of everything in it: `<corpus_name>, annotation <version> <hash of the annotation files>`."""
        digest = hashlib.sha256()
        for path in sorted(self.annotations.glob("*/*.json")):
            digest.update(path.relative_to(self.annotations).as_posix().encode() + path.read_bytes())
        return f"{self.root.name}, annotation v{ANNOTATION} {digest.hexdigest()[:10]}"


def build_demo(size: str = "default", cache: Path | None = None, seed: int = 0, workers: int = WORKERS) -> DemoCorpus:
    """Give the built-in corpus, rendering what is not in the cache yet.

    Args:
        size: tiny, default or large (see spec.SIZES).
        cache: The folder of caches, None for `cache_root()`.
        seed: Another seed makes another corpus, beside the first one.
        workers: Rendering processes; 0 renders in this process.

    Raises:
        ConfigError: There is no size of this name.
    """
    from muvr_train.cache import cache_root

    plan = make_plan(size, seed)
    corpus = _place(plan, cache or cache_root())
    if not _annotated(plan, corpus):
        write_masks(plan, corpus.masks)
        write_annotations(plan, corpus.annotations)
    render_videos(plan.videos, corpus.videos, workers)
    return corpus


def find_demo(size: str, cache: Path, seed: int = 0) -> DemoCorpus | None:
    """Give the built-in corpus where the cache holds all of it; nothing is rendered."""
    plan = make_plan(size, seed)
    corpus = _place(plan, cache)
    whole = _annotated(plan, corpus) and all(video_path(corpus.videos, video).exists() for video in plan.videos)
    return corpus if whole else None


def _place(plan: Plan, cache: Path) -> DemoCorpus:
    root = cache / "demo" / corpus_name(plan)
    return DemoCorpus(root, root / f"annotations-v{ANNOTATION}", root / "videos", root / f"masks-v{ANNOTATION}")


def _annotated(plan: Plan, corpus: DemoCorpus) -> bool:
    names = {video.partition for video in plan.videos}
    return all((corpus.annotations / name / "query_tag_lists.json").exists() for name in names)  # written last


def corpus_name(plan: Plan) -> str:
    """`<size>-v<version>-<hash of the plan and of how it is drawn>`."""
    facts = [VERSION, FRAME_SIZE, FPS, sorted(CODEC_OPTIONS.items()), plan]
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()
    return f"{plan.size}-v{VERSION}-{digest[:10]}"


def video_path(folder: Path, video: Video) -> Path:
    """Where a video's file lies."""
    return folder / video.partition / f"{video.id}.mp4"


def render_video(video: Video, folder: Path) -> None:
    """Draw and encode one video, atomically."""
    write_video(video_path(folder, video), draw_video(video))


def render_videos(videos: Iterable[Video], folder: Path, workers: int = WORKERS) -> None:
    """Render those videos that `folder` does not hold yet, telling on stderr how far it is; see `build_demo`."""
    missing = [video for video in videos if not video_path(folder, video).exists()]
    if missing:
        _render(missing, folder, workers)


def _render(videos: list[Video], folder: Path, workers: int) -> None:
    for partition in {video.partition for video in videos}:
        (folder / partition).mkdir(parents=True, exist_ok=True)
    for _ in track(_rendered(videos, folder, workers), len(videos), "rendering the built-in corpus"):
        pass


def _rendered(videos: list[Video], folder: Path, workers: int) -> Iterator[None]:
    """Render, yielding after each video; where processes cannot be started or die, this one does the rest."""
    if workers and _can_spawn():
        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent) as pool:
                yield from pool.map(render_video, videos, [folder] * len(videos), chunksize=4)
            return
        except BrokenProcessPool:
            log.warning("a rendering process ended unexpectedly; the rest is rendered in the main process")
            videos = [video for video in videos if not video_path(folder, video).exists()]
    for video in videos:
        render_video(video, folder)
        yield


def _can_spawn() -> bool:
    """Spawned processes import the main module again; a program read from standard input has no file for that."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or file is None or Path(file).exists()


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
