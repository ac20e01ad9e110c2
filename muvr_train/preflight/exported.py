"""Exported models: the names of their files, and where they are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muvr_train.preflight.quoting import quote_value, split_override

MODEL, CONFIG = "model.safetensors", "config.json"
FORMAT, VERSION = "muvr_train model", 1


def weights_file(path: Path) -> Path:
    """The file of weights that a path names: of a folder with an exported model, the one inside."""
    return path / MODEL if (path / MODEL).is_file() else path


def with_weights_file(typed: list[str], value: str | None) -> list[str]:
    """Settings in which `ckpt_path`, typed as `value`, names the file of weights."""
    if value is None or (file := weights_file(Path(value))) == Path(value):
        return typed
    rest = [text for text in typed if split_override(text)[1] != "ckpt_path"]
    return [*rest, f"ckpt_path={quote_value(str(file))}"]


def record_of(checkpoint: Path) -> dict[str, Any]:
    """What an exported model says about its run: `choices` of config groups and `settings`; empty for others."""
    if checkpoint.name != MODEL:
        return {}
    try:
        content = json.loads((checkpoint.parent / CONFIG).read_text(encoding="utf-8"))
        return dict(content.get("run") or {})
    except (OSError, ValueError, AttributeError, TypeError):
        return {}  # the reader of the weights says what is wrong with it
