"""Command line: `python -m muvr_train.reports.compare RUN RUN ...` tabulates runs and tests their differences.

RUN is a folder with results.json and per_query.csv (checkpoints/NAME, outputs/NAME), or FOLDER:MODEL for another model
in it: an untrained or a calibrated one. Every run is compared with the first, or with --baseline. Of `checkpoints/*`
what is no run is left out, as are runs on another benchmark; a single run is compared with its best untrained row.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muvr_train.errors import ConfigError, MuvrTrainError

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print tables or JSON, write files where asked.

    Returns:
        The exit code: 0, 1 where the runs cannot be compared, 2 for a wrong argument.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    from muvr_train.reports.compare_choice import choose_runs
    from muvr_train.reports.comparison import compare_runs
    from muvr_train.reports.overview import overview, print_overview
    from muvr_train.reports.settings import differing_settings

    try:
        choice = choose_runs(options.runs, options.baseline, options.metric, options.mode)
        found = compare_runs(choice.runs, options.metric, options.mode, options.common, options.resamples, options.seed)
        found["notes"] = [*choice.notes, *found["notes"]]
        found["overview"] = overview(choice.runs)
        found["settings"] = differing_settings(choice.runs)
        if options.out is not None:
            _write(options.out, found)
    except MuvrTrainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, ConfigError) else 1
    if options.json:
        sys.stdout.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    else:
        from muvr_train.reports.compare_tables import print_comparison

        print_overview(found["overview"])
        print_comparison(found)
    return 0


def _write(folder: Path, found: dict[str, Any]) -> None:
    from muvr_train.reports.compare_picture import save_forest_plot
    from muvr_train.reports.compare_tables import MOST_RUNS, markdown, page
    from muvr_train.reports.runs_picture import save_differences, save_values
    from muvr_train.reports.write import write_json

    values, differences = folder / "runs.png", folder / "compare.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "compare.json", found)
        (folder / "compare.md").write_text(markdown(found), encoding="utf-8")
        save_values(values, found["overview"], found["metric"] if found["metric"] == "uAP" else "mAP")
        (save_differences if len(found["runs"]) > MOST_RUNS else save_forest_plot)(differences, found)
        pictures = {"what runs reach": values.read_bytes(), "differences": differences.read_bytes()}
        (folder / "compare.html").write_text(page(found, pictures), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be written ({error.strerror})") from error
    log.info("compare.html, .md, .json and .png and runs.png are in %s", folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m muvr_train.reports.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder, or FOLDER:MODEL")
    parser.add_argument("--baseline", metavar="RUN", help="what the others are compared with: one of the runs, or best")
    parser.add_argument("--metric", default="mAP", help="mAP (default), uAP, recall@200, MRR, ... as in per_query.csv")
    parser.add_argument("--mode", help="v, t, tv, ...; default: every mode that all runs have, without the upper bound")
    parser.add_argument("--common", action="store_true", help="compare the queries that all runs have")
    parser.add_argument("--out", type=Path, help="folder for compare.html, .md, .json and .png, and runs.png")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--resamples", type=_at_least_100, default=1000, help="bootstrap resamples (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the resamples")
    return parser


def _at_least_100(text: str) -> int:
    number = int(text)
    if number < 100:
        raise argparse.ArgumentTypeError("an interval needs at least 100 resamples")
    return number


if __name__ == "__main__":
    sys.exit(main())
