"""Command line: `python -m muvr_train.mine RUN` finds the queries that a run fails on and makes questions of them.

RUN is a results folder that was written with save_scores=true (checkpoints/NAME, outputs/NAME). As MUVR-QA was made, a
query whose average precision is below the threshold gives one pair: its highest-scoring true match and its
highest-scoring false one, as two adjacent lines of <partition>.jsonl.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from muvr_train import ending
from muvr_train.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> None:
    """Mine, write the files, print a table to stdout; exit code 1 for unusable data, 2 for a wrong argument."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    with ending.reporting():
        if (options.run is None) == (options.scores is None) or (options.scores is None) != (
            options.annotations is None
        ):
            raise ConfigError("give RUN, a results folder, or --scores FILE --annotations DIR")
        if options.scores is not None and options.mode is not None:
            raise ConfigError("--mode chooses among the score files of RUN; --scores names one already")

        from muvr_train.runner.mine_run import mine_file, mine_run

        how = (options.threshold, options.pairs, options.out)
        if options.run is not None:
            mine_run(options.run, options.mode, *how)
        else:
            mine_file(options.scores, options.annotations, *how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m muvr_train.mine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="results folder with scores_<mode>.npz")
    parser.add_argument("--mode", help="which scores of RUN: v, t, tv, tag_0.3, ...; default: tv, else the only one")
    parser.add_argument("--scores", type=Path, metavar="FILE", help="instead of RUN: a score file of any model")
    parser.add_argument("--annotations", type=Path, metavar="DIR", help="with --scores: MUVR's layout, or a table")
    parser.add_argument(
        "--threshold", type=_share, default=0.05, help="average precision below which a query counts (default 0.05)"
    )
    parser.add_argument("--pairs", type=_at_least_one, metavar="N", help="at most N pairs a partition, hardest first")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: hard_cases_<mode> beside the scores")
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


if __name__ == "__main__":
    main()
