"""Evaluation: a checkpoint or an untrained model on a benchmark."""

from __future__ import annotations

from pathlib import Path

import torch
from omegaconf import DictConfig

from muvr_train.errors import ConfigError
from muvr_train.runner.data import open_data
from muvr_train.runner.finish import finish
from muvr_train.runner.models import build_retriever, fit_model, load_checkpoint
from muvr_train.runner.train_run import pick_device


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Evaluate `ckpt_path`, or the untrained `model`, write results.json and per_query.csv, and print the table.

    Returns:
        The flat metrics `<split>/<benchmark>/<mode>/<partition>/<metric>`.
    """
    torch.manual_seed(cfg.seed)
    device = pick_device(cfg)
    trained = cfg.ckpt_path is not None
    if trained == (cfg.model is not None):
        raise ConfigError("give either ckpt_path=... (a trained model) or model=frame_max (or another untrained one)")
    data = open_data(cfg, device, training=False)
    if trained:
        loaded = load_checkpoint(Path(cfg.ckpt_path), data.store)
        model, extra = loaded.model, {"checkpoint": str(cfg.ckpt_path), "checkpoint_sha256": loaded.digest}
    else:
        model, extra = build_retriever(cfg.model, cfg.fusion, data.store.dims), {}
        fit_model(model, data.store, data.train_videos if model.needs_fit else (), cfg.seed)
    data.print_overview(cfg, device)
    name = Path(cfg.ckpt_path).parent.name if trained else type(model.network).__name__
    return finish(cfg, Path(cfg.out), model.to(device), data, [], trained, name, extra)
