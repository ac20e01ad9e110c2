"""Calibrated rows: the steps that the config names, fitted or taken from the checkpoint's run, beside the raw row."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.leakage import HeldOut
from muvr_train.benchmarks.types import Benchmark, Query
from muvr_train.cache import cache_root
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.open import open_features
from muvr_train.models.retriever import Retriever
from muvr_train.results import CalibratedRow
from muvr_train.runner.classes import build, plain
from muvr_train.runner.data import Data, digests_of
from muvr_train.search.calibration.base import CalibrationStep
from muvr_train.search.calibration.fitting import Sample, fit
from muvr_train.search.calibration.pipeline import MODES, CalibratedScores, Calibration
from muvr_train.search.calibration.saving import FILE, model_digest, read_facts, read_state, save_state
from muvr_train.search.planning import device_of
from muvr_train.search.sources import ModelScores
from muvr_train.search.texts import official_texts, served_modes
from muvr_train.types import StoreDims

log = logging.getLogger(__name__)
DIFFERENT = {
    "steps": "other steps",
    "background": "another background",
    "model": "another model",
    "format": "another version",
}


def build_calibration(cfg: DictConfig) -> Calibration | None:
    """Build the steps of a config, unfitted; None where it names none.

    Raises:
        ConfigError: a class cannot be imported, is no step, refuses its settings, or stands at an impossible place.
    """
    steps: dict[str, CalibrationStep] = {}
    for name, node in (cfg.get("calibration") or {}).items():
        steps[str(name)] = step = build(node, f"calibration.{name}")
        if not isinstance(step, CalibrationStep):
            raise ConfigError(
                f"calibration.{name}._target_ gives a {type(step).__name__}; it must be a CalibrationStep"
            )
    return Calibration(steps) if steps else None


def try_calibration(cfg: DictConfig, model: Retriever) -> None:
    """Build the steps once, so that a wrong one ends the program before anything is scored or trained.

    Raises:
        ConfigError: see `build_calibration`, or a step that cannot act on this model in the modes asked for.
    """
    calibration = build_calibration(cfg)
    if calibration is not None:
        able = ("v", "t", "tv") if model.text_part is not None else ("v",)
        _modes(calibration, model, cfg.benchmark.modes or able)


def calibrated_rows(
    cfg: DictConfig, folder: Path, model: Retriever | None, label: str, data: Data, part: Benchmark, protocol: Protocol
) -> list[CalibratedRow]:
    """Evaluate a model once more behind the calibration of the config; nothing where it names no step.

    The fitted state is written to `folder`/calibration.safetensors.

    Args:
        cfg: the composed config.
        folder: of the results.
        model: on its device, as it was evaluated.
        label: of its raw row.
        data: store and benchmark.
        part: the queries that are evaluated.
        protocol: of the raw row.

    Raises:
        ConfigError: the steps change no mode that is evaluated.
        DataError: there is nothing, or too little, to fit them on.
    """
    calibration = build_calibration(cfg)
    if calibration is None or model is None:
        return []
    source = ModelScores(model, data.store, official_texts(protocol.on_missing, part), protocol.memory_budget)
    asked = protocol.modes or served_modes(source, part)
    modes = _modes(calibration, model, asked)
    facts = _fitted(cfg, calibration, model, data)
    save_state(folder / FILE, calibration.state(), facts)
    wanted = replace(protocol, modes=modes, keep_scores=False, noise=None, details=False)
    results = evaluate_scores(CalibratedScores(source, calibration), part, wanted)
    if raw := [mode for mode in asked if mode not in MODES]:
        results.notes.append(f"no row in mode {', '.join(raw)}: calibration steps know the modes {', '.join(MODES)}")
    name = " + ".join([label, *calibration.steps])
    fitted_on = {**facts["fitted_on"], **_shared(facts, data, part)}
    return [CalibratedRow(name, facts["steps"], fitted_on, results)]


def _shared(facts: Mapping[str, Any], data: Data, part: Benchmark) -> dict[str, Any]:
    """Count the evaluated queries and the searched videos whose features (not labels) the steps were fitted on.

    Videos are known by their ids, those of a background also by the digests of their features.
    """
    videos: Mapping[str, str | None] = facts["videos"]
    queries = sum(query.id in facts["queries"] for query in part.queries)
    if queries:
        log.warning(
            "calibration: %d of the %d evaluated queries are of the training split, on whose features (not labels) the "
            "steps were fitted; benchmark.split=test evaluates the others",
            queries,
            len(part.queries),
        )
    background = any(videos.values())
    gallery = {video for partition in part.partitions for video in partition.database}
    digests = {data.digests.get(video) for video in gallery} - {None} if background else set()
    shared = sum(video in gallery or digest in digests for video, digest in videos.items())
    if shared:
        log.log(
            logging.WARNING if background else logging.INFO,
            "calibration: %d of the %d videos whose features (not labels) the steps were fitted on are also searched: "
            "the calibrated rows are transductive",
            shared,
            len(videos),
        )
    return {
        "evaluated_queries_among_them": queries,
        "gallery_videos_among_them": shared,
        "transductive": shared + queries > 0,
    }


def _modes(calibration: Calibration, model: Retriever, asked: Sequence[str]) -> tuple[str, ...]:
    """Of the modes asked for, those that change."""
    changed = calibration.changed_modes(model.network)
    modes = tuple(mode for mode in asked if MODES.get(mode) in changed)
    if not modes:
        raise ConfigError(
            f"calibration=[{','.join(calibration.steps)}] changes only the modes {', '.join(changed)} of this model, "
            f"and those that are evaluated are {', '.join(asked)}"
        )
    return modes


def _fitted(cfg: DictConfig, calibration: Calibration, model: Retriever, data: Data) -> dict[str, Any]:
    """Fit the steps, or take over what the checkpoint's run has saved; give the facts of the state."""
    background = cfg.get("calibration_background")
    facts: dict[str, Any] = {
        "steps": [{"name": name, **plain(node)} for name, node in cfg.calibration.items()],
        "background": None if background is None else str(Path(background).resolve()),
        "model": model_digest(model),
        "format": 2,
    }
    saved = Path(cfg.ckpt_path).parent / FILE if cfg.get("ckpt_path") else None
    if saved is not None and saved.is_file():
        then = read_facts(saved)
        other = [key for key in facts if then.get(key) != facts[key]]
        if not other:
            calibration.load(read_state(saved))
            log.info("calibration: the state of %s is used", saved)
            return {**facts, "fitted_on": then["fitted_on"], "videos": then["videos"], "queries": then["queries"]}
        names = " and ".join(DIFFERENT[key] for key in other)
        log.warning("calibration: %s was fitted with %s; the steps are fitted again", saved, names)
    video, text, fitted_on = samples_of(cfg, data, str(device_of(model)))
    fit(calibration, model, video, text, cfg.seed)
    counts = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in fitted_on.items() if key != "source")
    log.info("calibration: %s fitted on %s (%s)", ", ".join(calibration.steps), fitted_on["source"], counts)
    videos = {name: video.digests.get(name) for name in video.videos}
    queries = sorted({query.id for query in (*video.queries, *text.queries)})
    return {**facts, "fitted_on": fitted_on, "videos": videos, "queries": queries}


def samples_of(cfg: DictConfig, data: Data, device: str) -> tuple[Sample, Sample, dict[str, Any]]:
    """Give what may be learned from: for videos, for texts, and a description of both.

    The training split, without whatever matches a held-out query; or the store `calibration_background`, without the
    benchmark's queries and their matches, other cuts of their uploads, and equal features under other ids. Where that
    store has no texts, they come from the training split.

    Raises:
        DataError: the background has features of other sizes.
    """
    path = cfg.get("calibration_background")
    if path is None:
        sample = training_sample(data)
        return sample, sample, _described("training split", sample, sample)
    store = open_features(Path(path), cache_root(), cfg.residency, device)
    have, need = store.dims, data.store.dims
    if (have.regions, have.dim, have.fine_regions, have.fine_dim) != (
        need.regions,
        need.dim,
        need.fine_regions,
        need.fine_dim,
    ):
        raise DataError(
            f"calibration_background={path} holds features of other sizes ({_sizes(have)}) than the run's store "
            f"({_sizes(need)}); extract both with the same encoder"
        )
    held_out, digests = HeldOut(data.benchmark, data.digests, splits=None), digests_of(store, store.ids())
    videos = tuple(
        video
        for video in store.ids()
        if not (held_out.match(video, None) or held_out.match(video, digests[video]))  # by name, or by features
    )
    if len(videos) < len(store.ids()):
        log.warning(
            "calibration_background: %d videos are queries of the benchmark or match one (by id, upload or features), "
            "and are left out",
            len(store.ids()) - len(videos),
        )
    queries = tuple(Query(id=name, partition="background", topic="") for name in videos)
    video = Sample(store, videos, queries, {name: digests[name] for name in videos})
    text = video if video.texts or need.text_dim is None else training_sample(data)
    return video, text, _described(str(path), video, text)


def _sizes(dims: StoreDims) -> str:
    grids = [(dims.regions, dims.dim), (dims.fine_regions, dims.fine_dim)]
    return " and ".join(f"{regions} x {dim} numbers a frame" for regions, dim in grids if regions)


def training_sample(data: Data) -> Sample:
    """Give the training split's videos that match no held-out query, and the training queries that show them.

    Raises:
        DataError: the benchmark has no training split.
    """
    try:
        videos = tuple(video for video in data.train_videos if data.store.has(video))
        known = frozenset(videos)
        queries = tuple(query for query in data.train_part.queries if query.video_id in known)
    except DataError as error:
        raise DataError(
            f"calibration: there is no training split to fit the steps on ({error}); give calibration_background=STORE"
        ) from error
    return Sample(data.store, videos, queries)


def _described(source: str, video: Sample, text: Sample) -> dict[str, Any]:
    texts_from = {} if text is video else {"texts_from": "training split"}
    counts = {"videos": len(video.videos), "queries": len(video.queries), "texts": len(text.texts)}
    return {"source": source, **counts, **texts_from}
