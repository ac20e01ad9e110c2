"""Models without a run: weights as safetensors, all else as JSON. Written from checkpoints, read by evaluation."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.features.manifest import version
from muvr_train.preflight.exported import CONFIG, FORMAT, MODEL, VERSION, refuse_overwriting, weights_file
from muvr_train.preflight.runs import INHERITED
from muvr_train.search.calibration.saving import FILE as CALIBRATION

PREFIX = "retriever."
Contents = tuple[dict[str, Any], dict[str, Tensor]]
"""A recipe and the weights of a Retriever."""


def export(checkpoint: Path, out: Path, overwrite: bool = False) -> Path:
    """Write the model of a checkpoint as `out`/model.safetensors and `out`/config.json.

    config.json holds the recipe (model, fusion head, sizes, encoder, data, benchmark, trained queries: names and paths
    are those of the run), facts of the training, and the SHA-256 of the weights. A fitted calibration beside the
    checkpoint is copied. Files are replaced one by one, each at once.

    Args:
        checkpoint: best.ckpt or last.ckpt of a run, or an exported model.
        out: folder; made.
        overwrite: whether files of an earlier export may be replaced.

    Returns:
        The file of weights.

    Raises:
        ConfigError: the folder holds files.
        DataError: the checkpoint is missing, damaged or of another program.
    """
    recipe, weights = read_weights(checkpoint)
    refuse_overwriting(out, overwrite)
    out.mkdir(parents=True, exist_ok=True)
    partial = out / f".{MODEL}.tmp"
    partial.write_bytes(save({name: value.contiguous().clone() for name, value in weights.items()}, {"format": "pt"}))
    content = {
        "format": FORMAT,
        "format_version": VERSION,
        "muvr_train": version(),
        "recipe": recipe,
        "training": _training(checkpoint),
        "run": _run(weights_file(checkpoint)),
        "weights_sha256": hashlib.sha256(partial.read_bytes()).hexdigest(),
    }
    written = out / f".{CONFIG}.tmp"
    written.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, out / MODEL)
    os.replace(written, out / CONFIG)
    fitted = weights_file(checkpoint).parent / CALIBRATION
    if fitted.is_file() and fitted.resolve() != (out / CALIBRATION).resolve():
        shutil.copyfile(fitted, out / CALIBRATION)
    return out / MODEL


def read_weights(path: Path, key: str = "ckpt_path") -> Contents:
    """Read the recipe and the weights of a checkpoint or of an exported model; runs no code that a file holds.

    Args:
        path: a checkpoint, a folder with an exported model, or its model.safetensors.
        key: the setting that names it, for messages.

    Raises:
        DataError: no such file, damaged, or of another program.
    """
    path = weights_file(path)
    if not path.is_file():
        raise DataError(f"{key}={path}: no such file. Runs write checkpoints/<run>/best.ckpt and last.ckpt")
    if path.suffix == ".safetensors":
        return _read_exported(path, key)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        recipe, weights = content["muvr_train"], content["state_dict"]
        own = {name.removeprefix(PREFIX): value for name, value in weights.items() if name.startswith(PREFIX)}
    except Exception as error:
        kind = type(error).__name__
        raise DataError(f"{key}={path} is no checkpoint of muvr-train, or it is damaged ({kind})") from error
    return dict(recipe), own


def _read_exported(path: Path, key: str) -> Contents:
    """Read model.safetensors and the config.json beside it."""
    config = path.parent / CONFIG
    if not config.is_file():
        raise DataError(f"{key}={path}: {CONFIG} is missing beside it; export the model again, or copy both files")
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
        kind, number = content["format"], content["format_version"]
        recipe, digest = content["recipe"], content["weights_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{config} describes no model of muvr-train, or it is damaged ({error!r})") from error
    if kind != FORMAT or number != VERSION or not isinstance(recipe, dict):
        raise DataError(f"{config}: format {kind!r} version {number!r} cannot be read; needed is {FORMAT!r} {VERSION}")
    if absent := [name for name in ("model", "fusion", "dims", "data", "benchmark") if not recipe.get(name)]:
        raise DataError(f"{config}: its recipe lacks {', '.join(absent)}; export the model again")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{path} is damaged, or it is not the file that {CONFIG} beside it belongs to: export it again")
    try:
        return recipe, load(data)
    except (SafetensorError, ValueError) as error:
        raise DataError(f"{path} is no safetensors file, or it is damaged ({type(error).__name__})") from error


def _training(checkpoint: Path) -> dict[str, Any]:
    """Facts of the training; those of an exported model are kept."""
    file = weights_file(checkpoint)
    if file.suffix == ".safetensors":
        return dict(json.loads((file.parent / CONFIG).read_text(encoding="utf-8")).get("training") or {})
    content = torch.load(file, map_location="cpu", weights_only=True)
    facts = {"checkpoint": file.name, "step": content.get("global_step"), "epoch": content.get("epoch")}
    record = file.parent / "training.json"
    return facts | (json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {})


def _run(file: Path) -> dict[str, Any]:
    """What evaluate.py takes over from a run: its choices of data, encoder and benchmark, and their settings."""
    if file.name == MODEL:
        return dict(json.loads((file.parent / CONFIG).read_text(encoding="utf-8")).get("run") or {})
    hydra, config = (file.parent / ".hydra" / name for name in ("hydra.yaml", "config.yaml"))
    if not (hydra.is_file() and config.is_file()):
        return {}
    choices = OmegaConf.select(OmegaConf.load(hydra), "hydra.runtime.choices") or {}
    settings: Any = OmegaConf.to_container(OmegaConf.load(config), resolve=False)
    return {
        "choices": {group: choices[group] for group in INHERITED if choices.get(group)},
        "settings": {group: settings[group] for group in INHERITED if settings.get(group)},
    }
