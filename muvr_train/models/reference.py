"""Weights of the original S2VS / ViSiL programs for our `S2VS`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from muvr_train.errors import DataError, shorten
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
    settings = content.get("args", {})
    return dict(content["model"]), dict(vars(settings) if isinstance(settings, Namespace) else settings)
