"""Evaluation of score files: anybody's scores on any benchmark, several of them beside their fusions."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import shorten
from muvr_train.preflight.scores import fusions_of, score_paths
from muvr_train.runner.benchmark import open_benchmark
from muvr_train.runner.finish import Subject, finish, split_of
from muvr_train.runner.overview import print_warnings
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import read_scores
from muvr_train.search.score_fusion import FusedScores
from muvr_train.search.sources import ScoreSource

log = logging.getLogger(__name__)


def evaluate_files(cfg: DictConfig) -> dict[str, float]:
    """Evaluate `scores`, one file or several and their fusions; no features are needed.

    Returns:
        The flat metrics of the file, or of the first fusion.

    Raises:
        DataError: a file or the annotation is broken, or they do not fit each other.
    """
    paths = score_paths(cfg)
    files = [FileScores(read_scores(path), label) for path, label in zip(paths, labels_of(paths), strict=True)]
    data = open_benchmark(cfg)
    log.info("judged by: %s", data.corpus)
    print_warnings(data.benchmark)
    part = data.part(split_of(cfg, data, trained=False))
    facts = {"scores": [describe_file(file, part) for file in files]}
    fused = [FusedScores(files, method) for method in fusions_of(cfg)] if len(files) > 1 else []
    shown: list[FileScores | FusedScores] = [*fused[:1], *files, *fused[1:]]
    main, *others = shown
    rivals: dict[str, ScoreSource] = {other.label: other for other in others}
    compared = tuple(file.label for file in files) if fused else ()
    subject = Subject(main.label, source=main, rivals=rivals, compared=compared, facts=facts)
    return finish(cfg, Path(cfg.out), subject, data, [])


def labels_of(paths: Sequence[Path]) -> list[str]:
    """Name files by their stems, with as many folders before them as it takes to tell them apart.

    >>> labels_of([Path("a/scores_tv.npz"), Path("b/scores_tv.npz"), Path("b/x.npz")])
    ['a/scores_tv', 'b/scores_tv', 'x']
    """
    names = [path.resolve().with_suffix("").parts[1:] for path in paths]
    labels = ["/".join(parts[-1:]) for parts in names]
    for depth in range(2, max(map(len, names)) + 1):
        times = Counter(labels)
        labels = [
            label if times[label] == 1 else "/".join(parts[-depth:]) for label, parts in zip(labels, names, strict=True)
        ]
    return labels


def describe_file(file: FileScores, part: Benchmark) -> dict[str, Any]:
    """Collect the facts of a score file, and warn of ids that nobody asks for."""
    unknown = file.unknown(part)
    blocks = file.file.blocks.values()
    sizes = [f"{len(block.queries)} x {len(block.database)}" for block in blocks]
    log.info("%s: %s, mode %s", file.file.path, shorten(sizes, 5), file.file.mode)
    if any(unknown.values()):
        log.warning(
            "%s: %d rows and %d columns are not of %s (%s) and are left out",
            *(file.file.path, unknown["queries"], unknown["database"], part.name, part.protocol.get("split", "all")),
        )
    return {
        "file": str(file.file.path),
        "label": file.label,
        "mode": file.file.mode,
        "sha256": sha256_of(file.file.path),
        "blocks": sizes,
        "unknown_queries": unknown["queries"],
        "unknown_database": unknown["database"],
    }


def sha256_of(path: Path) -> str:
    """Hash a file, a piece at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
