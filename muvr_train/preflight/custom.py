"""A benchmark with a reader of the user's own: what goes together, before anything is read."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.names import hint, nearest_names
from muvr_train.preflight.values import MODES

KIND = "custom"
"""The kind of data of such a benchmark."""


def check_custom(cfg: DictConfig) -> None:
    """Check the benchmark's name, and that `benchmark.reader` and data=custom come together.

    Raises:
        ConfigError: an unknown benchmark without a reader, a known one with one, or other data.
    """
    name, kind = str(cfg.benchmark.name), cfg.data.kind
    reader = OmegaConf.select(cfg, "benchmark.reader._target_")
    if reader is None and kind == KIND:
        raise ConfigError(
            f"data={KIND} needs a benchmark of your own, whose benchmark.reader._target_ names a function; "
            f"benchmark={name} has none"
        )
    if reader is None and name not in MODES:
        raise ConfigError(
            f"benchmark.name={name} is not possible: benchmark.name is {' | '.join(MODES)}, or any other name with "
            f"benchmark.reader._target_, a function that reads it{hint(nearest_names(name, list(MODES)))}"
        )
    if reader is not None and name in MODES:
        raise ConfigError(
            f"benchmark.name={name} comes with this program: give the one that {reader} reads another name"
        )
    if reader is not None and kind != KIND:
        raise ConfigError(f"data={kind} and benchmark={name} do not go together: {reader} is of data={KIND}")
