"""The files that an evaluation writes into its results folder, which nothing else may be kept in."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

WRITTEN = (
    "results.json",
    "metrics.json",
    "per_query.csv",
    "per_question.csv",
    "questions.jsonl",
    "resampled.npz",
    "scores_*.npz",
    "reranked_scores_*.npz",
    "similarity_map.png",
    "report.html",
    "report.md",
    "report.tex",
    "report_files/*",
    "reranking/*",
    ".hydra/*",
    "evaluate.log",
)
"""All but the answers, by their place in the folder."""


def is_written(path: Path, out: Path) -> bool:
    """Whether an evaluation with the results folder `out` writes this file, answers apart; links are followed."""
    path, out = path.resolve(), out.resolve()
    if not path.is_relative_to(out):
        return False
    place = path.relative_to(out).as_posix()
    return any(fnmatchcase(place, pattern) for pattern in WRITTEN)
