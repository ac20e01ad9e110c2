"""The folder of a training run: taken by one run only, with its loggers, and found again to go on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, DataError
from muvr_train.preflight.resume import LAST, SETTINGS
from muvr_train.runner.classes import plain
from muvr_train.training.loggers import CsvLogger, make_wandb

log = logging.getLogger(__name__)


def run_folder(cfg: DictConfig) -> Path:
    """The folder of the run."""
    return Path("checkpoints") / str(cfg.run)


def claim_folder(cfg: DictConfig) -> Path:
    """Take the run's folder for this run: a folder that holds another run is refused.

    The settings of a run that is continued are still those it was begun with: see `keep_settings`.

    Raises:
        ConfigError: the folder already belongs to a run and this is no resume.
    """
    folder = run_folder(cfg)
    folder.mkdir(parents=True, exist_ok=True)
    if not cfg.resume_from:
        _take(cfg, folder)
    latest = folder.parent / "latest"
    if not (folder.parent / SETTINGS).is_file() and (latest.is_symlink() or not latest.exists()):
        temporary = folder.parent / f".latest-{os.getpid()}"
        temporary.symlink_to(folder.name)
        os.replace(temporary, latest)
    return folder


def _take(cfg: DictConfig, folder: Path) -> None:
    text = OmegaConf.to_yaml(cfg, resolve=True)
    try:
        with (folder / SETTINGS).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"run={cfg.run}: {folder} already holds a run. Choose another run=NAME, or continue it with "
            f"resume_from={folder}"
        ) from None


def keep_settings(cfg: DictConfig, folder: Path) -> None:
    """Write the settings of a run that goes on, and Hydra's record of them, over those it had.

    Only after all that may refuse to go on: the next resume starts from them.
    """
    temporary = folder / f".{SETTINGS}-{os.getpid()}"
    temporary.write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
    os.replace(temporary, folder / SETTINGS)
    if not HydraConfig.initialized():
        return
    hydra: Any = HydraConfig.get()
    own = OmegaConf.select(hydra, "runtime.output_dir", throw_on_missing=False)
    if own is None or Path(own).resolve() != folder.resolve():
        return  # a seed's or fold's, which `cross_fit.record_settings` writes
    record = folder / ".hydra"
    record.mkdir(exist_ok=True)
    OmegaConf.save(cfg, record / "config.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": hydra}), record / "hydra.yaml")
    OmegaConf.save(hydra.overrides.task, record / "overrides.yaml")


def loggers_of(cfg: DictConfig, folder: Path) -> list[Any]:
    """Build the CSV logger, and W&B where asked for."""
    loggers: list[Any] = [CsvLogger(folder)]
    if cfg.logger.kind == "wandb":
        tracker = make_wandb(folder, cfg.run, cfg.logger.project, plain(cfg))
        loggers += [tracker] if tracker is not None else []
    return loggers


def find_resume(
    cfg: DictConfig, folder: Path, loggers: Sequence[Any], refuse: Callable[[dict[str, Any]], None]
) -> str | None:
    """Find the checkpoint to go on from, take over the new settings, and cut metrics.csv back to its step.

    Args:
        cfg: of the run that goes on.
        folder: its folder, of which nothing is changed before all is known to fit.
        loggers: of which the CSV one is cut back.
        refuse: is given the checkpoint and raises where the run cannot go on from it.

    Returns:
        The checkpoint's path; None starts at step 0.

    Raises:
        DataError: the checkpoint is damaged; or what `refuse` raises.
    """
    csv = next((logger for logger in loggers if isinstance(logger, CsvLogger)), None)
    if not cfg.resume_from:
        return None
    given = Path(cfg.resume_from)
    path = given if given.is_file() else folder / LAST
    if not path.is_file():
        log.warning("%s has no checkpoint yet: the run starts again at step 0", folder)
        keep_settings(cfg, folder)
        if csv is not None:
            csv.cut_back(-1)
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        finished = int(state["callbacks"]["Progress"]["finished"])
    except Exception as error:
        kind = type(error).__name__
        raise DataError(f"resume_from={path} is no checkpoint of a run, or it is damaged ({kind})") from error
    refuse(state)
    keep_settings(cfg, folder)
    if csv is not None:
        csv.cut_back(finished)
    total = cfg.trainer.max_epochs * cfg.trainer.steps_per_epoch
    log.info(
        "going on from step %d of %d: %s%s", finished, total, path, "; nothing is left" if finished >= total else ""
    )
    return str(path)
