"""Command line: `python -m muvr_train.import_features SOURCE OUT` makes a feature store of cached features."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from muvr_train.errors import MuvrTrainError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the import, print a table of what is stored.

    Returns:
        The exit code: 0, or 1 where something could not be imported.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    from rich.console import Console
    from rich.table import Table

    from muvr_train.features.import_muvr import import_muvr
    from muvr_train.features.import_s2vs import import_s2vs

    try:
        if options.source.is_file():
            report = import_s2vs(options.source, options.out, options.partition, float16=options.float16)
        else:
            report = import_muvr(options.source, options.out, float16=options.float16, token_rows=options.token_rows)
    except MuvrTrainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    table = Table("stored in", "entries")
    for stream, count in report.stored.items():
        table.add_row(stream, str(count))
    table.add_row("failed", str(len(report.failures)))
    Console().print(table)
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m muvr_train.import_features", description=__doc__)
    parser.add_argument("source", type=Path, help="folder in MUVR's layout, or HDF5 file with a data set per video")
    parser.add_argument("out", type=Path, help="folder of the store; an interrupted import continues")
    parser.add_argument("--float16", action="store_true", help="store float16 (the default keeps the source's type)")
    parser.add_argument(
        "--token-rows",
        choices=("mean", "keep"),
        default="mean",
        help="features [frames, 32, D]: average over the 32 as the official evaluator does, or keep them as regions",
    )
    parser.add_argument("--partition", help="HDF5 only: put before every id as PARTITION/ID")
    return parser


if __name__ == "__main__":
    sys.exit(main())
