"""Going on from a checkpoint: weights that must fit, and the settings of the optimiser, which may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten


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
    if _digest(then.get("teacher")) != _digest(now.get("teacher")):
        raise ConfigError(
            f"teacher: the run was begun with {then.get('teacher')}, and would go on with {now.get('teacher')}. Give "
            "the former as teacher=... (teacher=null where there was none)"
        )


def _digest(teacher: Mapping[str, Any] | None) -> str | None:
    """What tells teachers apart, wherever their files lie."""
    return None if teacher is None else teacher.get("sha256")


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
    kinds = ((absent, "lacks {}"), (besides, "holds {} besides"), (sizes, "has other sizes of {}"))
    if found := [text.format(shorten(names, 4)) for names, text in kinds if names]:
        raise DataError(
            "resume_from: the checkpoint's weights do not fit the model, fusion, losses and features of these "
            f"settings: it {', and '.join(found)}. Go on with the settings that the run was begun with, or train these "
            "as a new run=NAME"
        )


def refuse_unnamed(optimizer: Mapping[str, Any]) -> None:
    """Refuse an optimiser that does not say which moments are whose.

    Raises:
        DataError: it does not.
    """
    if any("names" not in group for group in optimizer["param_groups"]):
        raise DataError(
            "resume_from: the checkpoint was written by an earlier version, which did not name the parameters of its "
            "optimiser: it can be evaluated and exported, but not go on. Train a new run=NAME"
        )


def place_in_schedule(checkpoint: Mapping[str, Any], accumulate: int) -> int:
    """The optimiser steps that a run has made, in steps of `accumulate` batches.

    Args:
        checkpoint: of the run, which may have made steps of another size.
        accumulate: batches of a step from now on. The step that is not complete yet is the next one.

    >>> checkpoint = {"callbacks": {"Progress": {"finished": 5}}, "lr_schedulers": [{"last_epoch": 3}]}
    >>> [place_in_schedule(checkpoint, accumulate) for accumulate in (1, 2, 4)]  # begun with 2, its last step had one
    [5, 3, 1]
    """
    batches, made = checkpoint["callbacks"]["Progress"]["finished"], checkpoint["lr_schedulers"][0]["last_epoch"]
    return int(made if made == -(-batches // accumulate) else batches // accumulate)


def take_settings(
    optimizer: dict[str, Any],
    schedule: dict[str, Any],
    own: Sequence[Mapping[str, Any]],
    factor: Callable[[int], float],
) -> None:
    """Put a run's groups, with their settings, into a checkpoint's optimiser and schedule.

    The moments go with their parameters by name, whatever group these are in now; one that was not trained before has
    none and begins them, those of one that is frozen now are dropped.

    Args:
        optimizer: its saved state, by the places of the parameters in the saved groups; changed.
        schedule: the saved state of its `LambdaLR`; changed.
        own: groups of the run, of `rates.parameter_groups`, with the `initial_lr` that a scheduler gives them.
        factor: of the schedule, at a step.
    """
    saved = {
        name: optimizer["state"][place]
        for group in optimizer["param_groups"]
        for name, place in zip(group["names"], group["params"], strict=True)
        if place in optimizer["state"]
    }
    names = [name for group in own for name in group["names"]]
    rates = [group["initial_lr"] * factor(schedule["last_epoch"]) for group in own]
    places = iter(range(len(names)))
    optimizer["param_groups"] = [
        {**group, "lr": rate, "params": [next(places) for _ in group["names"]]}
        for group, rate in zip(own, rates, strict=True)
    ]
    optimizer["state"] = {place: saved[name] for place, name in enumerate(names) if name in saved}
    schedule.update(base_lrs=[group["initial_lr"] for group in own], _last_lr=rates, lr_lambdas=[None] * len(own))
