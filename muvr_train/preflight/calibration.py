"""Calibration steps as a config names them, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.rules import Rule, number, optional, whole
from muvr_train.search.calibration.order import OWN_STEPS, check_order

RULES: dict[str, Rule] = {
    "PcaWhitening.components": optional(whole(1)),
    "PcaWhitening.regularization": number(0),
    "ScoreNorm.k": whole(1),
    "ScoreNorm.weight": number(0),
    "ScoreNorm.videos": whole(1),
    "QueryExpansion.k": whole(1),
    "QueryExpansion.alpha": number(0),
    "QueryExpansion.chunk": whole(1),
    "Harris.weight": number(0),
}
"""Settings of the package's own steps, by class."""


def check_calibration(cfg: DictConfig, modes: Sequence[str] | None) -> None:
    """Check the steps of a composed config: their entries, settings and order.

    Args:
        cfg: where `calibration` names no step nothing is checked.
        modes: that will be evaluated, None where that is not known.

    Raises:
        ConfigError: a step is impossible where it stands, or a setting is.
    """
    node = cfg.get("calibration")
    if not node:
        if cfg.get("calibration_background") is not None:
            raise ConfigError(
                f"calibration_background={cfg.calibration_background} is given, but no step: add calibration=[NAME,...]"
            )
        return
    one_fold = OmegaConf.select(cfg, "benchmark.fold", throw_on_missing=False) is not None  # one model of them
    for key in ("scores",) if one_fold else ("benchmark.folds", "scores"):
        if OmegaConf.select(cfg, key, throw_on_missing=False):
            raise ConfigError(f"calibration acts on the features and scores of one model and cannot go with {key}")
    _refuse_repeated(OmegaConf.select(cfg, "hydra.overrides.task", default=[]))
    targets = {str(name): _target(str(name), node[name]) for name in node}
    check_order({name: OWN_STEPS.get(target) for name, target in targets.items()}, modes)
    for name, target in targets.items():
        for key, value in node[name].items():
            rule = RULES.get(f"{target.rpartition('.')[2]}.{key}") if target in OWN_STEPS else None
            if rule is not None and not rule.allows(value):
                raise ConfigError(f"calibration.{name}.{key}={value} is not possible: it is {rule.text}")
        whiten = OmegaConf.select(cfg, "model.whiten", default=False, throw_on_missing=False)
        if target.endswith(".PcaWhitening") and whiten:
            raise ConfigError(
                f"calibration={name} and model.whiten={whiten} both whiten what the network compares: keep one of them"
            )


def _refuse_repeated(typed: Sequence[str]) -> None:
    for text in typed:  # Hydra merges a step that is named twice with itself
        names = [name.strip() for name in text.partition("calibration=[")[2].rstrip("]").split(",")]
        if text.startswith("calibration=[") and (twice := {name for name in names if names.count(name) > 1}):
            raise ConfigError(f"{text}: {', '.join(sorted(twice))} is named twice")


def _target(name: str, entry: Any) -> str:
    if not isinstance(entry, DictConfig) or entry.get("_target_") is None:
        raise ConfigError(
            f"calibration.{name}: a step is `{name}: {{_target_: package.module.Class, ...}}`; choose steps by "
            "calibration=[NAME,...]"
        )
    return str(entry["_target_"])
