"""The classes that a config names: their modules must be there."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError


def check_targets(cfg: DictConfig) -> None:
    """Check that the modules of all `_target_` can be found, without importing them.

    Raises:
        ConfigError: naming the key and the module.
    """
    for key, target in _targets(cfg, ""):
        top = target.partition(".")[0]
        if not top.isidentifier() or importlib.util.find_spec(top) is None:
            raise ConfigError(
                f"{key}._target_={target}: there is no module {top!r}. Looked in the working directory, in the parent "
                "of --config-dir and among the installed packages"
            )


def _targets(node: Any, key: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node, DictConfig):
        return
    if "target" in node and "_target_" not in node and not key.startswith("hydra"):
        raise ConfigError(f"{key}.target={node.target}: the class is named by {key}._target_, with both underscores")
    for name in map(str, node):
        if OmegaConf.is_missing(node, name) or name == "hydra":
            continue
        if name == "_target_":
            yield key, str(OmegaConf.select(node, "_target_"))
        else:
            yield from _targets(node[name], f"{key}.{name}" if key else name)
