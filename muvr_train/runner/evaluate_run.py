"""Evaluation: a checkpoint or an untrained model on a benchmark."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from muvr_train.benchmarks.leakage import HELD_OUT
from muvr_train.errors import ConfigError, shorten
from muvr_train.preflight.runs import grammar_text
from muvr_train.runner.calibrate import try_calibration
from muvr_train.runner.classes import plain
from muvr_train.runner.data import Data, open_data, query_names
from muvr_train.runner.finish import finish
from muvr_train.runner.models import (
    build_retriever,
    fit_model,
    limited,
    load_checkpoint,
    share_state,
    trial_model,
)
from muvr_train.runner.overview import encoder_name
from muvr_train.runner.processes import pick_device, started
from muvr_train.runner.rerank_run import try_reranking
from muvr_train.runner.score_run import evaluate_files
from muvr_train.runner.subject import Subject, split_of
from muvr_train.training.launch import Here, first_then_all

log = logging.getLogger(__name__)
CORPUS = ("kind", "annotations", "videos", "size")


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Evaluate `ckpt_path`, the untrained `model` or the files `scores`; write the result files and print the table.

    Returns:
        The flat metrics `<split>/<benchmark>/<mode>/<partition>/<metric>`.
    """
    torch.manual_seed(cfg.seed)
    try_reranking(cfg)
    if cfg.get("scores"):
        return evaluate_files(cfg)
    device = pick_device(cfg)
    trained = cfg.ckpt_path is not None
    if trained == (cfg.model is not None):
        raise ConfigError("give either ckpt_path=... (a trained model) or model=frame_max (or another untrained one)")
    if not trained:
        try_calibration(cfg, trial_model(cfg))
    with started(cfg, device) as here:
        return evaluate_model(cfg, here)


def evaluate_model(cfg: DictConfig, here: Here) -> dict[str, float]:
    """Evaluate `ckpt_path` or the untrained `model`; see `evaluate`."""
    subject, data = first_then_all(here.group, lambda: open_subject(cfg, here))
    if subject.model is not None:
        share_state(subject.model, here.group)
    return finish(cfg, Path(cfg.out), subject, data, [], here.group)


def open_subject(cfg: DictConfig, here: Here) -> tuple[Subject, Data]:
    """Open the data, and the checkpoint or the untrained model on this process's device.

    Raises:
        ConfigError: the checkpoint was trained on what it would be scored on.
        DataError: missing or broken data, or a checkpoint that does not fit them.
    """
    trained = cfg.ckpt_path is not None
    training = trained or bool(cfg.model.get("whiten")) or bool(cfg.get("calibration"))
    data = open_data(cfg, here.device, training=training)
    facts: dict[str, Any] = {}
    known: frozenset[str] = frozenset()
    if trained:
        loaded = load_checkpoint(Path(cfg.ckpt_path), data.store)
        check_origin(cfg, loaded.recipe, data)
        known = trained_queries(cfg, loaded.recipe, data)
        check_queries(split_of(cfg, data, trained), known, data)
        data.regime = loaded.recipe["data"]["regime"]
        data.train_partitions = trained_partitions(loaded.recipe, data)
        model, label = limited(loaded.model, cfg), Path(cfg.ckpt_path).resolve().parent.name
        facts = {"checkpoint": str(cfg.ckpt_path), "checkpoint_sha256": loaded.digest}
        facts |= {"teacher": loaded.recipe["teacher"]} if loaded.recipe.get("teacher") else {}
    else:
        model = limited(build_retriever(cfg.model, cfg.fusion, data.store.dims), cfg)
        fit_model(model, data.store, data.train_videos if model.needs_fit else ())
        label = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(model.network).__name__).lower()
        if weights := cfg.model.get("weights"):
            facts = {"weights": str(weights), "weights_sha256": hashlib.sha256(Path(weights).read_bytes()).hexdigest()}
    if here.group.is_first:
        data.print_overview(cfg, here.device)
    try_calibration(cfg, model)
    return Subject(label, trained, model.to(here.device), baselines=trained, facts=facts, trained_queries=known), data


def check_origin(cfg: DictConfig, recipe: dict[str, Any], data: Data) -> None:
    """Refuse to call training topics test topics, and warn of features of another encoder.

    Raises:
        ConfigError: the checkpoint was trained on this corpus under other splits.
    """
    now, then = plain(cfg.data), recipe["data"]
    if all(now.get(key) == then.get(key) for key in CORPUS):
        pairs = {
            "data.fractions": (list(now["fractions"]), list(then["fractions"])),
            "benchmark.split_source": (cfg.benchmark.split_source, recipe["benchmark"]["split_source"]),
            **{f"benchmark.{key}": (cfg.benchmark.get(key), recipe["benchmark"].get(key)) for key in ("folds", "fold")},
        }
        unlike = {key: (given, trained) for key, (given, trained) in pairs.items() if given != trained}
        if unlike and cfg.benchmark.split != "all":
            now_is = ", ".join(f"{key}={given}" for key, (given, _) in unlike.items())
            was = " ".join(f"{key}={grammar_text(trained)}" for key, (_, trained) in unlike.items())
            raise ConfigError(
                f"{now_is}, but the checkpoint was trained with {was}: its training topics would be scored as held-out "
                f"ones. Pass {was}, or benchmark.split=all"
            )
    check_encoder("checkpoint", recipe, data)


def check_encoder(what: str, recipe: dict[str, Any], data: Data) -> None:
    """Warn of features of another encoder than a checkpoint was trained on."""
    if recipe.get("encoder") != data.store.manifest.get("encoder"):
        log.warning(
            "the %s was trained on features of %s; this store holds features of %s",
            what,
            recipe.get("encoder"),
            encoder_name(data.store),
        )


def trained_queries(cfg: DictConfig, recipe: dict[str, Any], data: Data) -> frozenset[str]:
    """Name the queries that a checkpoint was trained on, wherever their annotation lies now.

    Checkpoints that do not know them were trained on what their config names.
    """
    now, then = plain(cfg.data), recipe["data"]
    if now["kind"] == then["kind"] == "demo" and now["size"] != then["size"]:
        return frozenset()  # built-in corpora have the same ids, of other videos
    if "trained_queries" in recipe:
        return frozenset(recipe["trained_queries"])
    return data.trained_queries if all(now.get(key) == then.get(key) for key in CORPUS) else frozenset()


def trained_partitions(recipe: dict[str, Any], data: Data) -> Sequence[str] | None:
    """Name the partitions that a checkpoint was trained on, on which the untrained rows are fitted too; None for all.

    On other data the config's own choice holds.
    """
    names: Sequence[str] | None = recipe["data"].get("train_partitions")
    known = {partition.name for partition in data.benchmark.partitions}
    return names if names is not None and known.issuperset(names) else data.train_partitions


def check_queries(split: str, trained: frozenset[str], data: Data) -> None:
    """Refuse to score queries as held-out ones that the checkpoint was trained on.

    Raises:
        ConfigError: the split is validation or test and holds some of them.
    """
    if split not in HELD_OUT:
        return
    evaluated = query_names(data.part(split))
    if seen := sorted(evaluated & trained):
        raise ConfigError(
            f"benchmark.split={split}: {len(seen)} of the {len(evaluated)} queries are training queries of the "
            f"checkpoint and would be scored as held-out ones: {shorten(seen, 3)}. Give the splits of its training "
            "(data.fractions, benchmark.split_source, benchmark.folds, benchmark.fold), or benchmark.split=all; also "
            "where these are other videos that only have the same ids"
        )
