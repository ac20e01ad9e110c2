"""The metric that decides which checkpoint is best, checked before anything is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.names import hint, nearest_names
from muvr_train.preflight.values import PARTITIONS, modes_of


def check_monitor(cfg: DictConfig) -> None:
    """Refuse a `trainer.monitor` that no evaluation logs.

    Raises:
        ConfigError: naming the part of the key that is wrong.
    """
    key, benchmark = OmegaConf.select(cfg, "trainer.monitor"), cfg.get("benchmark")
    if key is None or benchmark is None:
        return
    parts = str(key).split("/")
    choices = [
        ["val"],
        [benchmark.name],
        list(benchmark.modes or modes_of(benchmark.name)),
        partitions(benchmark.name),
        list(metric_names(benchmark.ks)),
    ]
    labels = ("prefix", "benchmark", "mode", "partition", "metric")
    form = "val/<benchmark>/<mode>/<partition>/<metric>"
    if len(parts) != len(choices):
        raise ConfigError(f"trainer.monitor={key} is no logged metric: the form is {form}, e.g. {_example(cfg)}")
    for part, allowed, label in zip(parts, choices, labels, strict=True):
        if allowed and part not in allowed:
            raise ConfigError(
                f"trainer.monitor={key} is no logged metric: the {label} {part!r} is none of "
                f"{', '.join(allowed)}{hint(nearest_names(part, allowed))} The form is {form}"
            )


def partitions(benchmark: str) -> list[str]:
    """List a benchmark's partitions as far as they are known before its data is read (else empty)."""
    return list(PARTITIONS) if benchmark.startswith("muvr_") else []


def metric_names(ks: Any) -> Iterator[str]:
    """List the metrics that the evaluation logs."""
    yield from ("mAP", "uAP")
    for k in ks:
        yield f"recall@{k}"


def _example(cfg: DictConfig) -> str:
    modes = cfg.benchmark.modes or modes_of(cfg.benchmark.name)
    return f"val/{cfg.benchmark.name}/{'tv' if 'tv' in modes else modes[-1]}/mean/mAP"
