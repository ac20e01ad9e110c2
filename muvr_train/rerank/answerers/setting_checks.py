"""Checks of the values of answerers' settings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from muvr_train.errors import ConfigError


def check_number(
    name: str, value: object, least: float, whole: bool = False, optional: bool = False, above: bool = False
) -> None:
    """Refuse a value that is no number from `least` on.

    Args:
        name: of the setting.
        value: what was given.
        least: smallest possible value.
        whole: whole numbers only.
        optional: None is possible.
        above: more than `least` is needed.

    Raises:
        ConfigError: names the setting.
    """
    if value is None and optional:
        return
    kinds: tuple[type, ...] = (int,) if whole else (int, float)
    right = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)  # type: ignore[arg-type]
    if not right or not (value > least if above else value >= least):  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise ConfigError(f"answerer.{name} must be {kind} {bound}{', or null' if optional else ''}, got {value!r}")


def check_texts(**settings: object) -> None:
    """Refuse values that are no texts; None is possible.

    Raises:
        ConfigError: names the setting.
    """
    for name, value in settings.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"answerer.{name} must be a text or null, got {value!r}")


def check_flags(**settings: object) -> None:
    """Refuse values that are neither true nor false.

    Raises:
        ConfigError: names the setting.
    """
    for name, value in settings.items():
        if not isinstance(value, bool):
            raise ConfigError(f"answerer.{name} must be true or false, got {value!r}")


def check_mappings(**settings: object) -> None:
    """Refuse values that are not keys with values; None is possible.

    Raises:
        ConfigError: names the setting.
    """
    for name, value in settings.items():
        if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
            raise ConfigError(f"answerer.{name} must be keys with values (+answerer.{name}.KEY=VALUE), got {value!r}")
