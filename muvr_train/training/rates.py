"""Learning rates of groups of parameters, which a piece of their names chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from muvr_train.errors import ConfigError, shorten
from muvr_train.names import hint, nearest_names

BASE = "base"
"""The group of the parameters that no piece chooses."""
TAGS = ("tag_", "tag_weight", "tag_threshold")
OPTIONAL = ("residual_scale", "text_part", "text_map", *TAGS, "network", "head", "loss")
"""Pieces that may choose nothing, for settings that are shared by models with and without such a part."""
NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


def group_of(name: str, ratios: Mapping[str, float]) -> str:
    """The piece of `ratios` that a parameter's name has: one that freezes, else the first in their order, or "base"."""
    pieces = [piece for piece in ratios if piece in name]
    return next((piece for piece in pieces if ratios[piece] == 0), pieces[0] if pieces else BASE)


def refuse_unused(names: Iterable[str], ratios: Mapping[str, float]) -> None:
    """Refuse a piece that no parameter's name has, or only names that an earlier piece has chosen.

    Raises:
        ConfigError: naming the piece, and names that may be meant.
    """
    names = list(names)
    used = {group_of(name, ratios) for name in names}
    parts = {".".join(name.split(".")[:depth]) for name in names for depth in (2, 3)}
    known = sorted(parts | {part for name in names for part in name.split(".") if not part.isdigit()})
    for piece in ratios:
        if piece in used:
            continue
        taken = [group_of(name, ratios) for name in names if piece in name]
        if taken and all(ratios[other] != 0 for other in taken):
            raise ConfigError(
                f"optimizer.lr_ratios: {taken[0]!r}, which comes before {piece!r}, has taken all of its parameters"
            )
        if taken or piece.strip(".").split(".")[-1] in OPTIONAL:
            continue
        near = nearest_names(piece, known, limit=3, least=0.5)
        listed = (
            hint(near) or f"; the names begin with {', '.join(sorted({'.'.join(n.split('.')[:2]) for n in names}))}"
        )
        raise ConfigError(f"optimizer.lr_ratios: no parameter has {piece!r} in its name{listed}")


def freeze(module: nn.Module, ratios: Mapping[str, float]) -> dict[str, str]:
    """Freeze the parameters of a ratio of 0: no gradient, no weight decay. Says how many and where, by piece."""
    frozen: dict[str, dict[str, int]] = {}
    for name, parameter in module.named_parameters():
        part = group_of(name, ratios)
        if ratios.get(part) == 0:
            parameter.requires_grad_(False)
            end = name.index(part) + len(part.rstrip("."))
            place = name[:end] + name[end:].partition(".")[0]
            places = frozen.setdefault(part, {})
            places[place] = places.get(place, 0) + parameter.numel()
    return {part: f"{sum(places.values())} numbers in {shorten(list(places), 8)}" for part, places in frozen.items()}


def parameter_groups(
    module: nn.Module, lr: float, weight_decay: float, ratios: Mapping[str, float], without: nn.Module | None
) -> list[dict[str, Any]]:
    """Groups for an optimiser, each with its rate, the `part` it is named by and the `names` of its parameters.

    Biases, norms and scalars are not decayed; they are groups of their own even where nothing is, so that a run may go
    on with another `weight_decay`.
    """
    groups: dict[tuple[bool, str], dict[str, nn.Parameter]] = {}
    for path, layer in module.named_modules():
        for name, parameter in layer.named_parameters(recurse=False):
            if parameter.requires_grad and layer is not without:
                bare = isinstance(layer, NORMS) or name.endswith("bias") or parameter.ndim < 2
                part = group_of(f"{path}.{name}", ratios)
                groups.setdefault((bare, part), {})[f"{path}.{name}"] = parameter
    return [
        {
            "params": list(group.values()),
            "names": list(group),
            "part": part,
            "weight_decay": 0.0 if bare else weight_decay,
            "lr": lr * ratios.get(part, 1.0),
        }
        for (bare, part), group in groups.items()
    ]
