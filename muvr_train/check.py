"""Examination of a data set and its features: `python -m muvr_train.check data=... [--json]`.

Takes the settings of evaluate.py that name data. Extracts and trains nothing. Exit code 0 where all will work, 1 where
something will not, 2 for a mistake in the settings.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from muvr_train import cli, ending
from muvr_train.preflight.annotated import with_data
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.flags import parse_flags
from muvr_train.preflight.quoting import quote_override

WIDTH = 140
"""Columns of the table where the output is no terminal."""


def compose(arguments: Sequence[str]) -> DictConfig:
    """Read the settings.

    Raises:
        ConfigError: a setting is unknown, missing or impossible.
    """
    args = parse_flags(arguments)
    extra = Path(args.config_dir) if args.config_dir else None
    cli.add_import_paths(extra)
    composer = Composer(cli.config_dir(), "evaluate", extra)
    typed = with_data([quote_override(text) for text in args.overrides], training=False)
    return cli.check(composer, typed, False, features=False)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Examine, print what is found to stdout, and exit."""
    parser = argparse.ArgumentParser(
        prog="python -m muvr_train.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    options, settings = parser.parse_known_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    with ending.reporting():
        cfg = compose(settings)

        from muvr_train.doctor.examine import examine

        examination = examine(cfg)
        if options.json:
            sys.stdout.write(examination.to_json() + "\n")
        else:
            examination.print(Console(width=None if sys.stdout.isatty() else WIDTH))
        sys.exit(examination.exit_code)


if __name__ == "__main__":
    main()
