"""Hydra's flags as typed; a wrong one is named in one line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from muvr_train.errors import ConfigError

UNKNOWN = "unrecognized arguments: "


def parse_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Hydra's flags, and in `overrides` the settings; flags are written out in full.

    Raises:
        ConfigError: there is no such flag, or its value is wrong.
    """
    parser = get_args_parser()
    parser.allow_abbrev = False  # --experiment is not --experimental-rerun
    parser.error = _refuse  # type: ignore[method-assign]
    return parser.parse_intermixed_args(argv)


def _refuse(message: str) -> NoReturn:
    if not message.startswith(UNKNOWN):
        raise ConfigError(f"{message} (--help tells more)")
    flag = message.removeprefix(UNKNOWN).split()[0]
    if "=" in flag:
        raise ConfigError(f"there is no flag {flag}: a setting is written without dashes, {flag.lstrip('-')}")
    raise ConfigError(f"there is no flag {flag} (--help lists them)")
