"""Exported models: the names of their files, and where they are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError

BEST = "best.ckpt"
MODEL, CONFIG = "model.safetensors", "config.json"
FORMAT, VERSION = "muvr_train model", 1


def weights_file(path: Path) -> Path:
    """The file of weights that a path names: of a run's folder best.ckpt, of an exported model's the one inside."""
    return next((path / name for name in (BEST, MODEL) if (path / name).is_file()), path)


def checkpoint_file(value: str, key: str) -> Path:
    """The checkpoint that a setting names: a file, the best one of a run's folder, or an exported model.

    Raises:
        ConfigError: there is none.
    """
    path = weights_file(Path(value))
    if path.is_dir():
        there = sorted(path.glob("*.ckpt")) or sorted(path.glob("*/best.ckpt"))
        inside = f"try {key}={there[0]}" if there else "nor does a folder in it"
        raise ConfigError(f"{key}={value}: this folder holds no {BEST} and no {MODEL}; {inside}")
    if not path.is_file():
        raise ConfigError(f"{key}={value}: there is no such file or folder; give checkpoints/NAME or one of its files")
    return path


def refuse_overwriting(out: Path, overwrite: bool) -> None:
    """Refuse to export into a folder with files, unless they may be replaced.

    Raises:
        ConfigError: naming the folder.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"out={out}: a file of this name is there; name a folder")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise ConfigError(f"out={out}: the folder is not empty. Name another one, or add overwrite=true")


def record_of(checkpoint: Path) -> dict[str, Any]:
    """What an exported model says about its run: `choices` of config groups and `settings`; empty for others."""
    if checkpoint.name != MODEL:
        return {}
    try:
        content = json.loads((checkpoint.parent / CONFIG).read_text(encoding="utf-8"))
        return dict(content.get("run") or {})
    except (OSError, ValueError, AttributeError, TypeError):
        return {}  # the reader of the weights says what is wrong with it
