"""Weights of the original S2VS / ViSiL programs for our `S2VS`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten

if TYPE_CHECKING:
    from muvr_train.models.s2vs import S2VS

RENAMED = {"visil_head.": "head.", "binarization.W": "binarization.projection"}
"""Beginnings of names in the reference and in ours; all other names (attention.*) are the same."""


def own_name(name: str) -> str:
    """Our name of a tensor of the reference.

    >>> own_name("visil_head.conv1.weight")
    'head.conv1.weight'
    """
    for theirs, ours in RENAMED.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def load_released(network: S2VS, path: str | Path) -> None:
    """Load a released file such as s2vs_dns.pth into a network of the same settings (model.weights).

    Raises:
        ConfigError: settings under which the weights cannot be used, each with what the file says.
        DataError: no such file, or one that is damaged or of another program.
    """
    weights, settings = read_reference_checkpoint(path)
    wanted = settings_of(weights, settings)
    if not any(name.startswith("visil_head.") for name in weights):
        raise DataError(f"model.weights={path}: holds no weights of the S2VS program (names begin with visil_head.)")
    have = {
        "attention": network.attention is not None,
        "attention_norm": network.attention is not None and network.attention.transform is None,
        "binarization": None if network.binarization is None else network.binarization.projection.shape[1],
        "batch_norm": network.head.batch_norm,
        "symmetric": network.symmetric,
        "whiten": network.whitening is not None,
    }
    other = [f"model.{key}={_yaml(wanted[key])}, not {_yaml(own)}" for key, own in have.items() if wanted[key] != own]
    if other:
        raise ConfigError(f"model.weights={path} was trained with other settings: it needs {'; '.join(other)}")
    if wanted["dim"] not in (None, network.dim):
        raise DataError(
            f"model.weights={path} is for features of {wanted['dim']} dimensions; those of the store have {network.dim}"
        )
    load_reference_weights(network, weights)


def settings_of(weights: Mapping[str, Tensor], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings of a network under the reference's names: what the tensors show, and `symmetric` as it is told."""
    context, bits = weights.get("attention.context_vector.weight"), weights.get("binarization.W")
    dims = [tensor.shape[at] for tensor, at in ((context, -1), (bits, 0)) if tensor is not None and tensor.ndim == 2]
    return {
        "attention": context is not None,
        "attention_norm": context is not None and "attention.transform.weight" not in weights,
        "binarization": None if bits is None else int(bits.shape[-1]),
        "batch_norm": "visil_head.conv1.1.weight" in weights,
        "symmetric": bool(settings.get("symmetric", False)),
        "whiten": False,  # features are whitened as they are extracted
        "dim": int(dims[0]) if dims else settings.get("dims"),
    }


def _yaml(value: object) -> str:
    return "null" if value is None else str(value).lower()


def load_reference_weights(network: S2VS, mapping: Mapping[str, Tensor]) -> None:
    """Copy tensors under the reference's names into a network of the same settings.

    What the reference does not have (`residual_scale`, `whitening.*`, the channels of extra maps) stays as it is.

    Raises:
        DataError: if a tensor is missing, has no place in the network, or has another shape.
    """
    own = network.state_dict()
    given = {own_name(name): value for name, value in mapping.items()}
    first = next(name for name in own if name.startswith("head.conv1") and name.endswith("weight"))
    if first in given and network.extra_maps and given[first].shape == own[first][:, :1].shape:
        given[first] = torch.cat([given[first], own[first][:, 1:].to(given[first])], dim=1)
    needed = {name for name in own if not name.startswith(("whitening.", "residual_scale", "base."))}
    problems = [f"missing {name}" for name in sorted(needed - given.keys())]
    problems += [f"unexpected {name}" for name in sorted(given.keys() - needed)]
    problems += [
        f"{name} has shape {tuple(given[name].shape)}, needed is {tuple(own[name].shape)}"
        for name in sorted(needed & given.keys())
        if given[name].shape != own[name].shape
    ]
    if problems:
        raise DataError(
            f"the reference weights do not fit the network: {shorten(problems)}; "
            "check model.attention, model.binarization, model.batch_norm and the feature size"
        )
    network.load_state_dict({**own, **given})


def read_reference_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a released file such as s2vs_dns.pth ({"model": weights, "args": settings}) without running its pickles.

    Returns:
        The weights under the reference's names, for `load_reference_weights`, and the settings as a plain dict.

    Raises:
        DataError: if the file is missing, is no such file, or holds anything but tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint file")
    try:
        with torch.serialization.safe_globals([Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds; all of them mean an unusable file
        raise DataError(f"{path}: cannot be read as a weights-only checkpoint ({error})") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise DataError(f"{path}: expected a dict with the key 'model', as the S2VS program writes it")
    weights, settings = content["model"], content.get("args", {})
    if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()):
        raise DataError(f"{path}: 'model' holds more than named tensors")
    settings = vars(settings) if isinstance(settings, Namespace) else settings
    return dict(weights), dict(settings) if isinstance(settings, Mapping) else {}
