"""Loading weights from files so that nothing is left out unnoticed, and hashing what was loaded."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from muvr_train.errors import DataError, shorten
from muvr_train.features.encoders.running import first_line


def weights_hash(model: nn.Module) -> str:
    """SHA-256 over the names, types, shapes and bits of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors or from a PyTorch file (tensors and plain containers only).

    Raises:
        DataError: no such file, not a weight file, no tensors inside.
    """
    if not path.is_file():
        raise DataError(f"encoder.pretrained={path}: there is no such file; give true, false or a weight file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (
        RuntimeError,
        OSError,
        EOFError,
        ValueError,
        KeyError,
        pickle.UnpicklingError,
        _safetensors_error(),
    ) as error:
        raise DataError(f"{path}: is not a readable weight file ({first_line(error)})") from error
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    tensors = {str(k): v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, Mapping) else {}
    if not tensors:
        raise DataError(f"{path}: holds no weights (a state dict was expected)")
    return {name.removeprefix("module."): value for name, value in tensors.items()}


def load_checked(model: nn.Module, weights: Mapping[str, Tensor], source: str, ignore: tuple[str, ...] = ()) -> None:
    """Load weights that must fit completely.

    Args:
        model: where they go.
        weights: names to tensors.
        source: where they come from, for messages.
        ignore: names of modules whose weights may be in the file although the model lacks them (classifier heads).

    Raises:
        DataError: some or all of the model's weights are missing, others are left over, or shapes differ.
    """
    own = model.state_dict()
    given = {
        name: value
        for name, value in weights.items()
        if name in own or not any(name == part or name.startswith(f"{part}.") for part in ignore)
    }
    missing = [name for name in own if name not in given]
    left = [name for name in given if name not in own]
    if len(missing) == len(own):
        raise DataError(
            f"{source}: none of its {len(given)} weights fits (it has {shorten(list(given), 3)}; "
            f"the network wants {shorten(list(own), 3)}); is it another architecture?"
        )
    if missing or left:
        raise DataError(
            f"{source}: fits only in part: {len(missing)} of {len(own)} weights are missing"
            + (f" ({shorten(missing, 3)})" if missing else "")
            + (f", {len(left)} are left over ({shorten(left, 3)})" if left else "")
        )
    wrong = [
        f"{name} is {tuple(given[name].shape)}, the network wants {tuple(own[name].shape)}"
        for name in own
        if given[name].shape != own[name].shape
    ]
    if wrong:
        raise DataError(f"{source}: {len(wrong)} weights have another shape ({shorten(wrong, 2)})")
    model.load_state_dict(given, strict=True)


def _safetensors_error() -> type[Exception]:
    from safetensors import SafetensorError

    error: type[Exception] = SafetensorError
    return error
