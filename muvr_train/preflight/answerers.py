"""Settings of answerers, refused by their own classes before anything is loaded."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from omegaconf import DictConfig, OmegaConf

LIGHT = ("muvr_train.rerank.answerers.openai_server.", "muvr_train.rerank.answerers.hf.")
"""Where the classes are that check what they are given, and load nothing until they are asked to."""


def check_answerer(cfg: DictConfig) -> None:
    """Build the answerer that a config names, if that costs nothing.

    Settings that the class does not know are left to the one who builds it in earnest.

    Raises:
        ConfigError: it refuses its settings.
    """
    target = str(OmegaConf.select(cfg, "answerer._target_", default="", throw_on_missing=False))
    if not target.startswith(LIGHT) or OmegaConf.missing_keys(cfg.answerer):
        return
    module, _, name = target.rpartition(".")
    answerer = getattr(importlib.import_module(module), name)
    node: Any = OmegaConf.to_container(cfg.answerer, resolve=True)
    settings = {key: value for key, value in node.items() if key not in ("_target_", "_convert_")}
    if set(settings) <= set(inspect.signature(answerer).parameters):
        answerer(**settings)
