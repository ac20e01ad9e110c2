"""Hard cases of a results folder or of a score file: read, mined, written as questions, and counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.table import Table

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_qa import write_qa
from muvr_train.benchmarks.table import read_table
from muvr_train.benchmarks.table_files import VIDEOS
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.reports.hard_cases import Mined, mine, questions
from muvr_train.runner.benchmark import open_benchmark
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import ScoreFile, read_scores

COLUMNS = {
    "no_positive": "without\na match",
    "not_scored": "no match\nscored",
    "no_false": "only\nmatches",
    "below": "below",
}


def mine_run(folder: Path, mode: str | None, threshold: float, pairs: int | None, out: Path | None) -> None:
    """Mine the scores of a results folder, on the benchmark of its run.

    Raises:
        ConfigError: no such scores.
        DataError: results.json or the annotation it names is missing or broken.
    """
    scores = read_scores(_scores_of(folder, mode))
    path = folder / "results.json"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))["meta"]
        cfg, split = OmegaConf.create(meta["config"]), meta["protocol"]["split"]
        data = open_benchmark(cfg)
    except (OSError, ValueError, KeyError, TypeError, OmegaConfBaseException) as error:
        raise DataError(f"{path} is missing or is no results file of this version: {error!r}") from error
    _mine(scores, data.part(split), threshold, pairs, out)


def mine_file(path: Path, annotations: Path, threshold: float, pairs: int | None, out: Path | None) -> None:
    """Mine a score file of any model.

    Raises:
        DataError: the file or the annotation is missing or broken.
    """
    scores = read_scores(path)
    if (annotations / VIDEOS).is_file():
        benchmark = read_table(annotations)
    else:
        tagged = any(block.expressions is not None for block in scores.blocks.values())
        benchmark = read_muvr(annotations, filters=tagged)
    _mine(scores, benchmark, threshold, pairs, out)


def _scores_of(folder: Path, mode: str | None) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder: name a results folder (checkpoints/NAME, outputs/NAME)")
    found = {path.stem.removeprefix("scores_"): path for path in sorted(folder.glob("scores_*.npz"))}
    if not found:
        raise ConfigError(f"{folder} holds no scores_<mode>.npz: evaluate again with save_scores=true")
    if mode is None and len(found) > 1 and "tv" not in found:
        raise ConfigError(f"{folder} holds several scores: choose --mode {' or '.join(found)}")
    chosen = mode or ("tv" if "tv" in found else next(iter(found)))
    if chosen not in found:
        raise ConfigError(f"--mode {chosen}: {folder} holds {', '.join(found)}")
    return found[chosen]


def _mine(scores: ScoreFile, benchmark: Benchmark, threshold: float, pairs: int | None, out: Path | None) -> None:
    protocol = Protocol(ks=(1,), on_missing="official", keep_scores=True)
    kept = evaluate_scores(FileScores(scores), benchmark, protocol).kept
    found = {part.partition.name: mine(part.partition, part.judged, threshold, pairs) for part in kept}
    folder = out or scores.path.parent / f"hard_cases_{scores.mode}"
    for part in kept:
        name = part.partition.name
        path = folder / f"{name}.jsonl"
        if found[name].cases:
            folder.mkdir(parents=True, exist_ok=True)
            write_qa(path, questions(part.partition, found[name]))
        else:
            path.unlink(missing_ok=True)  # of an earlier mining
    _print(found, scores, threshold, folder)


def _print(found: Mapping[str, Mined], scores: ScoreFile, threshold: float, folder: Path) -> None:
    asked = "expressions" if any(block.expressions is not None for block in scores.blocks.values()) else "queries"
    table = Table(title=f"{asked} with average precision below {threshold:g} ({scores.mode})", title_justify="left")
    table.add_column("partition")
    for heading in (asked, *COLUMNS.values(), "pairs", "false one\nnot listed"):
        table.add_column(heading, justify="right")
    lines = {
        name: [
            *(mined.counts[key] for key in ("queries", *COLUMNS)),
            len(mined.cases),
            sum(not case.listed for case in mined.cases),
        ]
        for name, mined in found.items()
    }
    total = [sum(column) for column in zip(*lines.values(), strict=True)]
    for name, numbers in {**lines, "all": total}.items():
        table.add_row(name, *map(str, numbers))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    pairs = sum(len(mined.cases) for mined in found.values())
    if pairs:
        console.print(f"{pairs} pairs are in {folder}/<partition>.jsonl", soft_wrap=True, markup=False)
    else:
        console.print(f"no {asked} are below {threshold:g}: no file is written", soft_wrap=True, markup=False)
