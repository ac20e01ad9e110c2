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
from muvr_train.errors import DataError, shorten
from muvr_train.preflight.scores import fusions_of, score_paths
from muvr_train.runner.benchmark import open_benchmark
from muvr_train.runner.finish import finish
from muvr_train.runner.overview import print_warnings
from muvr_train.runner.subject import Subject, split_of
from muvr_train.search.coverage import differing, refuse_swapped, unknown_expressions
from muvr_train.search.file_scores import FileScores
from muvr_train.search.filter_files import WITHOUT_TAGS
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
    if cfg.data.kind == "demo":
        refuse_strangers(files, data.benchmark)
    print_warnings(data.benchmark)
    part = data.part(split_of(cfg, data, trained=False))
    for file in files:
        refuse_swapped(file, data.benchmark)
    facts = {"scores": [describe_file(file, part) for file in files]}
    fused = [FusedScores(files, method) for method in fusions_of(cfg)] if len(files) > 1 else []
    shown: list[FileScores | FusedScores] = [*fused[:1], *files, *fused[1:]]
    main, *others = shown
    rivals: dict[str, ScoreSource] = {other.label: other for other in others}
    unlike = unlike_note(files, part)
    compared = tuple(file.label for file in files) if fused and not unlike else ()
    notes = (*unlike, *without_tags_notes(files, part))
    subject = Subject(main.label, source=main, rivals=rivals, compared=compared, facts=facts, notes=notes)
    return finish(cfg, Path(cfg.out), subject, data, [])


def refuse_strangers(files: Sequence[FileScores], corpus: Benchmark) -> None:
    """Refuse a file that holds nothing of the built-in corpus, which is the data where none is named.

    Raises:
        DataError: saying how to name other data.
    """
    for file in files:
        if not any(all(file.known(partition)) for partition in corpus.partitions):
            given = [name for block in file.file.blocks.values() for name in block.queries]
            raise DataError(
                f"{file.file.path} holds no scores of the built-in corpus, which is meant where no data is named: add "
                "data=muvr data.annotations=FOLDER (or data=table data.annotations=FOLDER, or benchmark=evve "
                f"benchmark.annotations=FILE, ...). Its queries are {shorten(given, 3)}"
            )


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
    if strange := unknown_expressions(file, part):
        log.warning(
            "%s: %d rows have a tag expression that %s does not have for their query, and are left out: %s",
            *(file.file.path, len(strange), part.name, shorten(strange, 5)),
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


def unlike_note(files: Sequence[FileScores], part: Benchmark) -> tuple[str, ...]:
    """Say in which partitions the files do not hold the same, so that no winner is named; nothing where they do."""
    found = differing(files, part)
    if not found:
        return ()
    labels = [file.label for file in files]
    sizes = [
        f"{name} ({', '.join(f'{label} {r} x {c}' for label, (r, c) in zip(labels, counts, strict=True))})"
        for name, counts in found.items()
    ]
    return (
        f"The score files hold other queries or database videos than each other in {shorten(sizes, 3)}: their rows "
        "are not over the same and no best one is named; a fusion is over what all of them hold.",
    )


def without_tags_notes(files: Sequence[FileScores], part: Benchmark) -> tuple[str, ...]:
    """Name the files without tag expressions where such are evaluated."""
    plain = [file.label for file in files if not any(map(file.has_expressions, part.partitions))]
    if not part.has_filters or not plain:
        return ()
    modes = " and ".join(mode for mode, _ in WITHOUT_TAGS)
    return (f"{', '.join(plain)}: no tag expressions in the file, so its rows {modes} are of scores without tags.",)


def sha256_of(path: Path) -> str:
    """Hash a file, a piece at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
