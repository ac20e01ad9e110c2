"""The folder of a training run: taken by one run only, with its loggers, and found again to go on."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, DataError
from muvr_train.runner.classes import plain
from muvr_train.training.loggers import CsvLogger, make_wandb

log = logging.getLogger(__name__)


def run_folder(cfg: DictConfig) -> Path:
    """The folder of the run."""
    return Path("checkpoints") / str(cfg.run)


def claim_folder(cfg: DictConfig) -> Path:
    """Take the run's folder for this run: a folder that holds another run is refused.

    Raises:
        ConfigError: the folder already belongs to a run and this is no resume.
    """
    folder = run_folder(cfg)
    folder.mkdir(parents=True, exist_ok=True)
    text = OmegaConf.to_yaml(cfg, resolve=True)
    try:
        with (folder / "config.yaml").open("w" if cfg.resume_from else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"run={cfg.run}: {folder} already holds a run. Choose another run=NAME, or continue it with "
            f"resume_from={folder}"
        ) from None
    latest = folder.parent / "latest"
    if not (folder.parent / "config.yaml").is_file() and (latest.is_symlink() or not latest.exists()):
        temporary = folder.parent / f".latest-{os.getpid()}"
        temporary.symlink_to(folder.name)
        os.replace(temporary, latest)
    return folder


def loggers_of(cfg: DictConfig, folder: Path) -> list[Any]:
    """Build the CSV logger, and W&B where asked for."""
    loggers: list[Any] = [CsvLogger(folder)]
    if cfg.logger.kind == "wandb":
        tracker = make_wandb(folder, cfg.run, cfg.logger.project, plain(cfg))
        loggers += [tracker] if tracker is not None else []
    return loggers


def find_resume(cfg: DictConfig, folder: Path, loggers: Sequence[Any]) -> str | None:
    """Find the checkpoint to go on from and cut metrics.csv back to its step; None starts at step 0."""
    csv = next((logger for logger in loggers if isinstance(logger, CsvLogger)), None)
    if not cfg.resume_from:
        return None
    given = Path(cfg.resume_from)
    path = given if given.is_file() else folder / "last.ckpt"
    if not path.is_file():
        log.warning("%s has no checkpoint yet: the run starts again at step 0", folder)
        if csv is not None:
            csv.cut_back(-1)
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        finished = int(state["callbacks"]["Progress"]["finished"])
    except Exception as error:
        kind = type(error).__name__
        raise DataError(f"resume_from={path} is no checkpoint of a run, or it is damaged ({kind})") from error
    if csv is not None:
        csv.cut_back(finished)
    total = cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch
    log.info(
        "going on from step %d of %d: %s%s", finished, total, path, "; nothing is left" if finished >= total else ""
    )
    return str(path)
