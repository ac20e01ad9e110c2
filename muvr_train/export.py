"""Command line: `python -m muvr_train.export ckpt_path=checkpoints/NAME/best.ckpt out=DIR` exports a model.

DIR gets model.safetensors (weights) and config.json (model, fusion head, sizes, encoder, training, trained queries).
`python evaluate.py ckpt_path=DIR` gives the same scores as the checkpoint. overwrite=true replaces an earlier export.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from muvr_train import ending
from muvr_train.errors import ConfigError
from muvr_train.names import hint, nearest_names
from muvr_train.preflight.exported import checkpoint_file, refuse_overwriting

SETTINGS = ("ckpt_path", "out", "overwrite")


def main(arguments: Sequence[str] | None = None) -> None:
    """Export, and print the path of the weights; exit code 1 for an unusable checkpoint, 2 for a wrong argument."""
    parser = argparse.ArgumentParser(
        prog="python -m muvr_train.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help=f"one of {', '.join(SETTINGS)}")
    typed = parser.parse_args(arguments).settings
    with ending.reporting():
        checkpoint, out, overwrite = read_settings(typed)
        from muvr_train.runner.exported import export

        sys.stdout.write(f"{export(checkpoint, out, overwrite)}\n")


def read_settings(typed: Sequence[str]) -> tuple[Path, Path, bool]:
    """Read `ckpt_path`, `out` and `overwrite`; a file name means itself, whatever letters it has.

    Raises:
        ConfigError: a setting is unknown, missing or twice there, or the checkpoint is not there.
    """
    values: dict[str, str] = {}
    for text in typed:
        key, equals, value = text.partition("=")
        if not equals or key not in SETTINGS:
            raise ConfigError(f"{text}: settings are {', '.join(f'{name}=...' for name in SETTINGS)}{_near(key)}")
        if key in values:
            raise ConfigError(f"{key}= is given twice")
        values[key] = value
    for key, example in (("ckpt_path", "checkpoints/NAME/best.ckpt"), ("out", "DIR")):
        if not values.get(key):
            raise ConfigError(f"{key} must be given: add {key}={example}")
    overwrite = values.get("overwrite", "false").lower()
    if overwrite not in ("true", "false"):
        raise ConfigError(f"overwrite={values['overwrite']}: must be true or false")
    checkpoint, out = checkpoint_file(values["ckpt_path"], "ckpt_path"), Path(values["out"])
    refuse_overwriting(out, overwrite == "true")
    return checkpoint, out, overwrite == "true"


def _near(key: str) -> str:
    return hint(nearest_names(key, SETTINGS))


if __name__ == "__main__":
    main()
