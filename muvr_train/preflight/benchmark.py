"""Which modes, splits and folds a benchmark can be asked for."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.values import modes_of


def check_benchmark(cfg: DictConfig) -> None:
    """Check the benchmark of a composed config.

    Raises:
        ConfigError: a mode, split or fold that it does not have, or that contradicts another setting.
    """
    _check_modes(cfg)
    _check_filter(cfg)
    _check_folds(cfg)


def _check_modes(cfg: DictConfig) -> None:
    benchmark = cfg.get("benchmark")
    if benchmark is None or benchmark.modes is None:
        return
    wrong = [mode for mode in benchmark.modes if mode not in modes_of(benchmark.name)]
    if wrong:
        allowed = ", ".join(modes_of(benchmark.name))
        raise ConfigError(
            f"benchmark.modes={list(benchmark.modes)}: benchmark={benchmark.name} has no mode {wrong[0]}; "
            f"it has {allowed}"
        )


def _check_filter(cfg: DictConfig) -> None:
    if OmegaConf.select(cfg, "benchmark.name") != "muvr_filter":
        return
    if "loss" in cfg:
        raise ConfigError(
            "benchmark=muvr_filter is evaluated, not trained on: train with benchmark=muvr_base (the same queries), "
            "then python evaluate.py ckpt_path=checkpoints/NAME/best.ckpt benchmark=muvr_filter"
        )
    if cfg.benchmark.modes is not None and len(cfg.benchmark.modes) > 1:
        raise ConfigError(
            f"benchmark.modes={list(cfg.benchmark.modes)}: benchmark=muvr_filter merges tags with one score of the "
            "query, [v], [t] or [tv] (null: tv)"
        )


def _check_folds(cfg: DictConfig) -> None:
    folds, fold = (OmegaConf.select(cfg, f"benchmark.{key}") for key in ("folds", "fold"))
    if fold is not None and (folds is None or fold >= folds):
        raise ConfigError(f"benchmark.fold={fold} needs benchmark.folds, and is 0 to folds - 1; folds is {folds}")
    if folds is None:
        return
    if fold is None and cfg.benchmark.name == "copies":
        raise ConfigError(
            f"benchmark.folds={folds}: every fold of benchmark=copies has a database of its own; give one of them, "
            "benchmark.fold=0 (and then the others)"
        )
    if "ckpt_path" in cfg and fold is None:
        raise ConfigError(
            "benchmark.folds trains models: use train.py. To evaluate one fold's checkpoint give ckpt_path=checkpoints/"
            "NAME/fold-0/best.ckpt, which brings its fold along"
        )
    if "ckpt_path" not in cfg and fold is None and cfg.benchmark.split not in (None, "all"):
        raise ConfigError(
            f"benchmark.split={cfg.benchmark.split}: benchmark.folds scores all queries, leave the split out"
        )
