"""Going on from a checkpoint: weights and optimiser groups that must fit, and settings that may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.training.rates import OPTIONS


def refuse_other_run(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with another teacher, or with weight averaging switched on or off.

    Args:
        then: the checkpoint's recipe.
        now: that of the run which goes on.

    Raises:
        ConfigError: naming the setting.
    """
    if then.get("ema") != now.get("ema"):
        given = "null" if then.get("ema") is None else then["ema"]
        raise ConfigError(f"trainer.ema={now.get('ema')}: the run was begun with another, give trainer.ema={given}")
    if then.get("teacher") != now.get("teacher"):
        raise ConfigError(
            f"teacher: the run was begun with {then.get('teacher')}, and would go on with {now.get('teacher')}. Give "
            "the former as teacher=... (teacher=null where there was none)"
        )


def refuse_other_weights(saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse weights of another model or of other losses.

    Raises:
        DataError: naming what is missing, what is there besides, or what has another size.
    """
    absent, besides = sorted(own.keys() - saved.keys()), sorted(saved.keys() - own.keys())
    sizes = [
        f"{name} ({list(saved[name].shape)}, now {list(value.shape)})"
        for name, value in own.items()
        if name in saved and saved[name].shape != value.shape
    ]
    kinds = ((absent, "it lacks {}"), (besides, "it holds {} besides"), (sizes, "other sizes have {}"))
    if found := [text.format(shorten(names, 4)) for names, text in kinds if names]:
        raise DataError(
            "resume_from: the checkpoint's weights do not fit the model, fusion, losses and features of these "
            f"settings: {'; '.join(found)}. Go on with the settings that the run was begun with, or train these as a "
            "new run=NAME"
        )


def refuse_other_groups(saved: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]) -> None:
    """Refuse an optimiser that sorts its parameters into other groups, whose state would go to the wrong ones.

    Raises:
        ConfigError: naming both.
    """
    then, now = ([(group.get("part"), len(group["params"])) for group in groups] for groups in (saved, own))
    if then != now:
        texts = (", ".join(f"{part} ({count})" for part, count in groups) for groups in (then, now))
        raise ConfigError(
            "optimizer.lr_ratios: the run was begun with the groups of parameters {}, and would go on with {}. Give "
            "the same names as then, and 0 where it was (other ratios are free)".format(*texts)
        )


def take_settings(
    optimizer: Mapping[str, Any],
    schedule: dict[str, Any],
    own: Sequence[Mapping[str, Any]],
    factor: Callable[[int], float],
) -> None:
    """Put the settings of the run that goes on into a checkpoint's optimiser and schedule; their state is kept.

    Args:
        optimizer: its saved state, of the same groups as `own`; changed.
        schedule: the saved state of its `LambdaLR`; changed.
        own: groups of the run, with the `initial_lr` that a scheduler gives them.
        factor: of the schedule, at a step.
    """
    base = [group["initial_lr"] for group in own]
    rates = [rate * factor(schedule["last_epoch"]) for rate in base]
    for saved, group, rate in zip(optimizer["param_groups"], own, rates, strict=True):
        saved.update({key: group[key] for key in OPTIONS}, lr=rate)
    schedule.update(base_lrs=base, _last_lr=rates)
