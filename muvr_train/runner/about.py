"""What every results file says about the run that wrote it."""

from __future__ import annotations

import shlex
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from omegaconf import DictConfig

from muvr_train.runner.classes import plain


def about_program(cfg: DictConfig) -> dict[str, Any]:
    """The first facts of results.json's `meta`: version, time, command, config and seed."""
    return {
        "version": package_version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command_line(),
        "config": plain(cfg),
        "seed": cfg.seed,
    }


def command_line() -> str:
    """The command as it was typed, to be pasted into a shell."""
    return shlex.join(sys.orig_argv)


def package_version() -> str:
    """The installed version, or "source" where the package is not installed."""
    try:
        return version("muvr-train")
    except PackageNotFoundError:
        return "source"
