"""A fitted calibration as a file: tensors in safetensors, all other facts as JSON in its header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.models.retriever import Retriever

FILE = "calibration.safetensors"
_KEY = "calibration"


def save_state(path: Path, state: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and plain facts at once (temp file + rename)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    tensors = {key: value.contiguous() for key, value in state.items()}
    temporary.write_bytes(save(tensors, {_KEY: json.dumps(dict(facts))}))  # of the umask's mode
    os.replace(temporary, path)


def read_facts(path: Path) -> dict[str, Any]:
    """Read the facts of a saved calibration.

    Raises:
        DataError: the file is damaged or of something else.
    """
    return _read(path, tensors=False)[0]


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a saved calibration.

    Raises:
        DataError: the file is damaged or of something else.
    """
    return _read(path, tensors=True)[1]


def _read(path: Path, tensors: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[_KEY])
            return facts, {key: file.get_tensor(key) for key in file.keys()} if tensors else {}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path} is no saved calibration, or it is damaged ({type(error).__name__}); remove it"
        ) from error


def model_digest(model: Retriever) -> str:
    """SHA-256 of a model's classes and weights, by which a saved calibration knows its model."""
    digest = hashlib.sha256(f"{type(model.network).__qualname__} {type(model.head).__qualname__}".encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
