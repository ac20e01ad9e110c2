"""Training: data, model, loss, trainer, then the final tables."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from muvr_train.data.loader import make_loader
from muvr_train.data.mining import MinedNegatives
from muvr_train.errors import ConfigError
from muvr_train.evaluation import evaluate
from muvr_train.models.retriever import Retriever
from muvr_train.processes import Group
from muvr_train.reports.write import write_json
from muvr_train.runner.batches import mining_callbacks, training_batches
from muvr_train.runner.calibrate import try_calibration
from muvr_train.runner.classes import plain
from muvr_train.runner.cross_fit import Run, cross_fit
from muvr_train.runner.data import Data, open_data, protocol_of
from muvr_train.runner.finish import finish
from muvr_train.runner.folder import claim_folder, find_resume, keep_settings, loggers_of, run_folder
from muvr_train.runner.models import (
    baseline_models,
    build_retriever,
    fit_model,
    limited,
    recipe_of,
    share_state,
)
from muvr_train.runner.processes import pick_device, started
from muvr_train.runner.refusals import (
    build_loss,
    refuse_batch_norm,
    refuse_holes,
    refuse_unused_rates,
    warn_unasked,
)
from muvr_train.runner.seeds import train_seeds
from muvr_train.runner.subject import Subject
from muvr_train.runner.teacher import Taught, open_teacher
from muvr_train.search.sources import ModelScores
from muvr_train.search.texts import best_mode, served_modes
from muvr_train.training.averaging import WeightAverage
from muvr_train.training.callbacks import EvaluateAndSave, ProgressBar, TrainLog
from muvr_train.training.launch import Here, ddp_strategy, first_then_all
from muvr_train.training.module import RetrievalModule
from muvr_train.training.progress import Progress

log = logging.getLogger(__name__)
STEP_0 = {"frame_max": "zero_shot", "frame_max whitened": "zero_shot_whitened"}
"""The untrained rows that are logged before the first step, and the names they are logged by."""


def train(cfg: DictConfig) -> dict[str, float]:
    """Train, keep the best checkpoint, and evaluate it on the test split beside the untrained rows.

    Args:
        cfg: settings that `try_settings` has tried.

    Returns:
        The final metrics, `test/<benchmark>/<mode>/<partition>/<metric>`.
    """
    device = pick_device(cfg)
    with started(cfg, device) as here:
        if OmegaConf.is_list(cfg.seed):
            return train_seeds(cfg, lambda one, data: train_model(one, here, data), here.group)
        if cfg.benchmark.get("folds") and cfg.benchmark.fold is None:
            return cross_fit(cfg, lambda fold: train_model(fold, here), here.group)
        run = train_model(cfg, here)
        return finish(cfg, run.folder, run.subject, run.data, run.loggers, here.group)


def train_model(cfg: DictConfig, here: Here, opened: Data | None = None) -> Run:
    """Train on what the config names or is already opened, and put the best checkpoint's weights into the model."""
    torch.manual_seed(cfg.seed)
    group, device = here.group, here.device

    def prepare() -> tuple[Data, Retriever, Taught | None]:
        data = opened or open_data(cfg, device)
        model = limited(build_retriever(cfg.model, cfg.fusion, data.store.dims), cfg)
        taught = open_teacher(cfg, data, device)
        if group.is_first:
            if opened is None:
                data.print_overview(cfg, device)
            refuse_holes(cfg, model, data)
            refuse_batch_norm(model, group)
            refuse_unused_rates(cfg, model)
            warn_unasked(model)
            try_calibration(cfg, model)
            claim_folder(cfg)
        return data, model, taught

    data, model, taught = first_then_all(group, prepare)
    folder = run_folder(cfg)
    fit_first(model, data, group)
    loggers = loggers_of(cfg, folder) if group.is_first else []
    if cfg.trainer.max_epochs == 0:
        if group.is_first and cfg.resume_from:
            keep_settings(cfg, folder)
        return Run(folder, Subject("untrained", model=model.to(device)), data, loggers)
    best_step = run_trainer(cfg, folder, model, data, here, loggers, taught)
    if best_step == 0:
        log.warning("no evaluation was better than that of step 0: best.ckpt is the untrained model")
    label = "trained" if best_step > 0 else "best.ckpt of step 0, untrained"
    facts, known = ({"teacher": taught.facts}, taught.trained_queries) if taught else ({}, frozenset())
    known |= data.trained_queries
    subject = Subject(label, trained=True, model=model.to(device), trained_queries=known, facts=facts)
    return Run(folder, subject, data, loggers)


def fit_first(model: Retriever, data: Data, group: Group) -> None:
    """Fit what the model learns before training in the first process, and give it to the others."""
    if group.is_first:
        fit_model(model, data.store, data.train_videos)
    share_state(model, group)


def run_trainer(
    cfg: DictConfig,
    folder: Path,
    model: Retriever,
    data: Data,
    here: Here,
    loggers: list[Any],
    taught: Taught | None = None,
) -> int:
    """Train, put the weights of the best checkpoint into the model, and give its step."""
    total = cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch
    known = data.trained_queries | (taught.trained_queries if taught else frozenset())
    recipe = recipe_of(cfg, data.store.dims, data.store, known)
    recipe |= {"teacher": taught.facts if taught else None, "ema": cfg.trainer.ema}
    module = RetrievalModule(
        model,
        build_loss(cfg),
        -(-total // cfg.trainer.accumulate),
        **plain(cfg.optimizer),
        recipe=recipe,
        group=here.group,
        teacher=taught.teacher if taught else None,
    )
    if not any(parameter.requires_grad for part in (model, module.loss) for parameter in part.parameters()):
        raise ConfigError(
            "nothing to train: this model and fusion head have no parameters, or optimizer.lr_ratios freezes them all. "
            "Use experiment=zero_shot"
        )
    progress = Progress(cfg.seed)
    first = here.group.is_first
    checkpoint = here.group.broadcast(find_resume(cfg, folder, loggers, module.refuse_other) if first else None)
    average = WeightAverage(cfg.trainer.ema) if cfg.trainer.ema else None
    evaluation = evaluation_callback(cfg, folder, model, data, here, progress, average)
    mined = MinedNegatives(cfg.data.mining.per_query)
    mining = mining_callbacks(cfg, model, data, here, progress, mined)
    between = [*callbacks_of(cfg, progress, total, here.group), *([average] if average else []), *mining, evaluation]
    trainer = make_trainer(cfg, here, loggers, between)
    batches, ahead = training_batches(cfg, data, here.group, mined), (cfg.data.workers, cfg.data.prefetch)
    pin = here.device.startswith("cuda")
    loader = make_loader(batches, progress, total, *ahead, pin, version=lambda: mined.version)
    trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=True)
    best = torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)
    module.load_state_dict(best["state_dict"])
    if here.group.is_first:
        summary = {"best_step": evaluation.best_step, "monitor": evaluation.monitor, "best": evaluation.best}
        write_json(folder / "training.json", summary)
    return evaluation.best_step


def evaluation_callback(
    cfg: DictConfig,
    folder: Path,
    model: Retriever,
    data: Data,
    here: Here,
    progress: Progress,
    average: WeightAverage | None = None,
) -> EvaluateAndSave:
    """Build the callback that evaluates on the validation split with the code of evaluate.py, the average if any."""
    settings, val, protocol = cfg.trainer, data.part("val"), protocol_of(cfg)
    mode = best_mode(protocol.modes or served_modes(ModelScores(model, data.store), val))

    def current() -> dict[str, float]:
        with average.applied() if average else nullcontext():
            return evaluate(model, data.store, val, protocol, here.group).flat("val")

    def untrained() -> dict[str, float]:
        values: dict[str, float] = {}
        for name, other in baseline_models(data.store, data.train_videos, list(STEP_0)).items():
            share_state(other, here.group)
            other.to(here.device)
            results = evaluate(other, data.store, val, data.baseline_protocol(protocol), here.group)
            values |= results.flat(STEP_0[name])
        return values

    return EvaluateAndSave(
        progress=progress,
        evaluate=current,
        baselines=untrained,
        folder=folder,
        monitor=settings.monitor or f"val/{val.name}/{mode}/mean/mAP",
        steps_per_epoch=settings.steps_per_epoch,
        every_n_epochs=settings.every_n_epochs,
        total_steps=settings.max_epochs * settings.steps_per_epoch,
        checkpoint_every_n_steps=settings.checkpoint_every_n_steps,
        patience=settings.early_stop_patience,
        group=here.group,
    )


def callbacks_of(cfg: DictConfig, progress: Progress, total: int, group: Group) -> list[pl.Callback]:
    """Build the progress, the log, the bar, and the user's own callbacks: entries of `callbacks` with a class path."""
    callbacks: list[pl.Callback] = [progress, TrainLog(progress, cfg.callbacks.log_every_n_steps)]
    if cfg.callbacks.progress_bar and group.is_first:
        callbacks.append(ProgressBar(progress, total))
    return callbacks + [instantiate(extra) for extra in cfg.callbacks.values() if OmegaConf.is_dict(extra)]


def make_trainer(cfg: DictConfig, here: Here, loggers: list[Any], callbacks: list[pl.Callback]) -> pl.Trainer:
    """Build the Lightning trainer: one long epoch (see `training.progress`), our own checkpoints and bar."""
    settings, several = cfg.trainer, here.group.size > 1
    return pl.Trainer(
        accelerator="gpu" if here.device.startswith("cuda") else "cpu",
        devices=here.group.size // settings.num_nodes,
        num_nodes=settings.num_nodes,
        strategy=ddp_strategy(here.device, settings.timeout) if several else "auto",
        precision=cfg.trainer.precision,
        max_epochs=1,
        accumulate_grad_batches=cfg.trainer.accumulate,
        gradient_clip_val=cfg.trainer.gradient_clip,
        callbacks=callbacks,
        logger=loggers or False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        log_every_n_steps=1,
    )
