"""A folder of videos without annotation: the copies benchmark and its features, made once and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from muvr_train.benchmarks.copies import CopiesPlan, plan_copies
from muvr_train.benchmarks.copies_draw import NAME, CopiesSettings
from muvr_train.benchmarks.types import Benchmark
from muvr_train.cache import cache_root, locked
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.compose import SourceFrames
from muvr_train.features.copies import PLAN, find_usable, read_plan
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.listing import list_videos
from muvr_train.features.status import DUPLICATE, FILE, VideoStatus, read_statuses
from muvr_train.features.store import FeatureStore
from muvr_train.training.copies import extract_copies

log = logging.getLogger(__name__)


def open_copies(cfg: DictConfig, device: str) -> tuple[str, FeatureStore, Benchmark]:
    """Open the copies benchmark of `data.videos`, or the store `data.features` that was made for one.

    Videos that cannot be decoded are left out with a warning that names them.

    Returns:
        What the corpus is, the features, and the benchmark with its splits.

    Raises:
        ConfigError: neither videos nor features, or settings that a store was not made with.
        DataError: no videos, too few that can be used, or a broken store.
    """
    fractions = [float(fraction) for fraction in cfg.data.fractions]
    if cfg.data.features:
        store = Path(cfg.data.features)
        plan = read_plan(store)
        if plan.folds is None:
            _check_fractions(plan, fractions, store)
        _check_folds(plan, cfg.benchmark.get("folds"), cfg.benchmark.get("fold"), store)
    elif cfg.data.videos:
        encoder: FrameEncoder = instantiate(cfg.encoder, device=device)
        store, plan = _extracted(cfg, Path(cfg.data.videos), encoder, fractions)
    else:
        raise ConfigError("data=folder needs data.videos=DIR (a folder of videos), or data.features=STORE made from it")
    sizes = ", ".join(f"{len(plan.names(split))} {split}" for split in ("train", "val", "test"))
    left_out = len(_left_out(store, plan))
    corpus = f"edited copies of the videos in {cfg.data.videos or store} ({sizes})"
    benchmark = plan.benchmark()
    if left_out:
        count = "1 video of the folder is" if left_out == 1 else f"{left_out} videos of the folder are"
        warning = f"{count} left out; {store / FILE} says why"
        corpus += f"; {warning}"
        benchmark = replace(benchmark, warnings=(warning, *benchmark.warnings))
    return corpus, FeatureStore(store, cfg.residency, device), benchmark


def _extracted(cfg: DictConfig, videos: Path, encoder: FrameEncoder, fractions: list[float]) -> tuple[Path, CopiesPlan]:
    """The store and plan of a folder; makes or completes them, in one process at a time."""
    wanted = cfg.benchmark
    settings = CopiesSettings(views=cfg.data.views, intros=wanted.intros, gallery=wanted.get("database_size"))
    paths = dict(list_videos(videos))
    sources = SourceFrames(paths, short_side=_short_side(encoder))
    drawn = [vars(settings), fractions, wanted.seed, wanted.get("folds"), wanted.get("fold")]
    digest = _digest(videos, paths, [sources.manifest(), encoder.manifest(), *drawn])
    store = cache_root() / "features" / f"copies-{digest}"
    with locked(store.with_suffix(".lock")):
        if (store / PLAN).is_file():
            plan = read_plan(store)
            failures = _left_out(store, plan)
        else:
            usable, failures = _usable(sources, videos)
            try:
                plan = plan_copies(usable, wanted.seed, fractions, settings, wanted.get("folds"), wanted.get("fold"))
            except DataError as error:
                raise DataError(f"data.videos={videos}: {error}{_names(failures)}") from error
        if not _complete(store, plan):
            report = extract_copies(plan, sources, encoder, store, failures)
            known = {failure.id for failure in failures}
            if report is not None and (broken := [made for made in report.failures if made.id not in known]):
                raise DataError(
                    f"data.videos={videos}: {len(broken)} of the benchmark's videos could not be made: "
                    f"{shorten([failure.id for failure in broken], 5)}; {store / FILE} says why. Repair the videos "
                    "and run again (what was made is kept)"
                )
    return store, plan


def _usable(sources: SourceFrames, videos: Path) -> tuple[list[str], list[VideoStatus]]:
    """Sources that decode, each content once; the others with the reason."""
    usable, failures = find_usable(sources)
    first: dict[str, str] = {}
    twins = _equal_files({name: sources.paths[name] for name in usable})
    for name in list(usable):
        if name in twins and (other := first.setdefault(twins[name], name)) != name:
            usable.remove(name)
            reason = f"the same file as {other}"
            failures.append(VideoStatus(f"{NAME}/{name}", str(sources.paths[name]), DUPLICATE, reason))
    if failures:
        log.warning("%d of %d videos in %s are left out%s", len(failures), len(sources.paths), videos, _names(failures))
    if not usable:
        raise DataError(f"data.videos={videos}: none of its {len(failures)} videos can be decoded{_names(failures)}")
    return usable, failures


def _equal_files(paths: Mapping[str, Path]) -> dict[str, str]:
    """Name -> digest of the content, for files that have the size of another one."""
    sizes: dict[int, list[str]] = {}
    for name, path in paths.items():
        sizes.setdefault(path.stat().st_size, []).append(name)
    digests = {}
    for names in sizes.values():
        for name in names if len(names) > 1 else ():
            digest = hashlib.sha256()
            with paths[name].open("rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
            digests[name] = digest.hexdigest()
    return digests


def _left_out(store: Path, plan: CopiesPlan) -> list[VideoStatus]:
    """Videos of the folder that are not in the plan."""
    made = {recipe.id for recipe in plan.recipes}
    return [status for id_, status in read_statuses(store).items() if id_ not in made]


def _complete(store: Path, plan: CopiesPlan) -> bool:
    if not (store / "index.json").is_file():
        return False
    opened = FeatureStore(store)
    return all(opened.has(recipe.id, recipe.stream) for recipe in plan.recipes)


def _names(failures: list[VideoStatus]) -> str:
    if not failures:
        return ""
    return ": " + shorten([f"{Path(failure.path).name} ({failure.reason})" for failure in failures], 5)


def _check_folds(plan: CopiesPlan, folds: int | None, fold: int | None, store: Path) -> None:
    if (None if folds is None else (folds, fold)) != plan.folds:
        give = "null" if plan.folds is None else f"{plan.folds[0]} benchmark.fold={plan.folds[1]}"
        raise ConfigError(
            f"benchmark.folds={folds} benchmark.fold={fold}, but {store} was not made so; give benchmark.folds={give}"
        )


def _check_fractions(plan: CopiesPlan, fractions: list[float], store: Path) -> None:
    if list(plan.fractions) != fractions:
        raise ConfigError(
            f"data.fractions={fractions}, but {store} was split by {list(plan.fractions)}; give data.fractions="
            f"[{','.join(str(fraction) for fraction in plan.fractions)}], or data.videos=DIR to make it anew"
        )


def _short_side(encoder: FrameEncoder) -> int:
    """Half as much again as the encoder takes, so that crops keep their detail."""
    return round(1.5 * int(getattr(encoder, "size", 224)))


def _digest(videos: Path, paths: Mapping[str, Path], recipe: list[object]) -> str:
    """A name for the state of a folder and everything that is done with it."""
    files = [(name, path.stat().st_size, path.stat().st_mtime_ns) for name, path in sorted(paths.items())]
    content = json.dumps([str(videos.resolve()), files, recipe], sort_keys=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()[:24]
