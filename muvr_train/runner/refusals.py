"""What ends a training run before it begins: settings that do not build, features that are missing."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch
from omegaconf import DictConfig
from torch import nn

from muvr_train.benchmarks.splits import split_by_fold
from muvr_train.benchmarks.types import Benchmark
from muvr_train.budget import demands, mining_demands, refuse_small_budget
from muvr_train.errors import ConfigError
from muvr_train.features.open import check_features
from muvr_train.losses.composite import CompositeLoss
from muvr_train.models.fusion.covr import CoVR
from muvr_train.models.retriever import Retriever
from muvr_train.preflight.teacher import missing_teacher, unread_teacher
from muvr_train.processes import Group
from muvr_train.runner.calibrate import try_calibration
from muvr_train.runner.classes import build, check_classes
from muvr_train.runner.data import Data, protocol_of
from muvr_train.runner.models import trial_model
from muvr_train.runner.subject import split_of
from muvr_train.runner.trial import try_losses, try_scoring
from muvr_train.search.required import needed_modes, refuse_missing
from muvr_train.search.sources import ModelScores, supported_modes
from muvr_train.search.texts import best_mode, official_texts, served_modes
from muvr_train.training.rates import refuse_unused
from muvr_train.training.teacher import read_from_teacher

log = logging.getLogger(__name__)


def try_settings(cfg: DictConfig) -> None:
    """Build model and losses once on made-up sizes, so that a wrong setting ends the run before any data is touched.

    Raises:
        ConfigError: a setting, or a class of the user's own, that cannot work.
        DataError: data.features holds no features.
    """
    model = trial_model(cfg)
    try_calibration(cfg, model)
    loss = build_loss(cfg)
    try_losses(loss, model, try_scoring(model, loss.needs))
    for name, node in cfg.callbacks.items():
        if isinstance(node, DictConfig):
            check_classes(node, f"callbacks.{name}")
    check_reader(cfg, loss)
    if cfg.data.get("soft_mixing") and not any(getattr(part, "soft", False) for part in loss.losses.values()):
        raise ConfigError(
            f"data.soft_mixing={cfg.data.soft_mixing} makes partial matches, which none of the losses "
            f"{', '.join(loss.losses)} reads: add one with soft labels to loss.losses, or leave soft_mixing out"
        )
    if cfg.data.get("features"):
        check_features(Path(cfg.data.features))


def build_loss(cfg: DictConfig) -> CompositeLoss:
    """Build the losses.

    Raises:
        ConfigError: the class cannot be imported or refuses the settings.
    """
    loss = build(cfg.loss, "loss")
    if not isinstance(loss, CompositeLoss):
        raise ConfigError(f"loss._target_={cfg.loss._target_}: must be a CompositeLoss (it may hold any losses)")
    return loss


def check_reader(cfg: DictConfig, loss: CompositeLoss) -> None:
    """Check that a teacher is given if and only if a loss reads one, whoever wrote the loss.

    Raises:
        ConfigError: naming the loss, or the teacher.
    """
    for name, part in loss.losses.items():
        if cfg.teacher is None and read_from_teacher(getattr(part, "needs", ())):
            raise missing_teacher(name)
    if cfg.teacher is not None and not read_from_teacher(loss.needs):
        raise unread_teacher(cfg)


def refuse_unused_rates(cfg: DictConfig, model: Retriever) -> None:
    """Refuse entries of `optimizer.lr_ratios` that choose no parameter; see `refuse_unused`."""
    with torch.random.fork_rng(devices=[]):
        parts = {"retriever": model, "loss": build_loss(cfg)}
    refuse_unused(
        [f"{key}.{name}" for key, part in parts.items() for name, _ in part.named_parameters()],
        cfg.optimizer.lr_ratios or {},
    )


def warn_unasked(model: Retriever) -> None:
    """Warn of a network with weights that the fusion head never asks."""
    network = type(model.network).__name__
    if isinstance(model.head, CoVR) and any(True for _ in model.network.parameters()):
        log.warning("fusion=covr never asks the network: %s stays as it is; choose model=mean_pool", network)


def refuse_holes(cfg: DictConfig, model: Retriever, data: Data) -> None:
    """Raise before anything is trained if training or evaluation will lack features, or memory to score in."""
    protocol, trained = protocol_of(cfg), cfg.trainer.max_epochs > 0
    modes = needed_modes(protocol.modes, supported_modes(model, data.store))
    if cfg.on_missing == "error":
        for name in ("train", "val", "test") if trained else ("all",):
            refuse_missing(data.store, data.part(name), modes)
    if protocol.memory_budget is not None:
        as_text = official_texts(cfg.on_missing, data.benchmark)
        source = ModelScores(model, data.store, as_text, protocol.memory_budget)
        parts = evaluated_parts(cfg, data, trained)
        found = [demands(source, part, protocol.modes or served_modes(source, part)) for part in parts]
        if trained and cfg.data.mining.every_n_epochs is not None:
            mined = best_mode(served_modes(source, data.train_part))
            found.append(mining_demands(source, data.train_part, mined))
        refuse_small_budget(source, chain(*found))


def evaluated_parts(cfg: DictConfig, data: Data, trained: bool) -> list[Benchmark]:
    """What a run evaluates from its beginning to its end; of a cross-fit, also in the folds that follow."""
    last, folds = split_of(cfg, data, trained), cfg.benchmark.get("folds")
    splits = [data.benchmark]
    if folds and cfg.benchmark.fold is not None:
        splits = [split_by_fold(data.benchmark, folds, fold) for fold in range(cfg.benchmark.fold, folds)]
    names = ("val", last) if trained else (last,)
    return [replace(data, benchmark=one).part(name) for one in splits for name in names]


def refuse_batch_norm(model: Retriever, group: Group) -> None:
    """Raise if several processes would each normalise by the statistics of their own share.

    Raises:
        ConfigError: naming the layer.
    """
    norms = [name for name, layer in model.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if norms and group.size > 1:
        raise ConfigError(
            f"the model has batch norm ({norms[0]}), and each of the {group.size} processes would normalise by the "
            "statistics of its own share of a batch. Train in one process, or use another norm"
        )
