"""Score files of a run's own scores, in the format that `evaluate.py scores=` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from muvr_train.results import Kept, Results
from muvr_train.search.score_files import ScoreBlock, write_scores


def save_scores(folder: Path, results: Results) -> list[Path]:
    """Write `scores_<mode>.npz` for every mode of results that kept their scores.

    Returns:
        The paths.
    """
    paths = []
    for mode in dict.fromkeys(kept.mode for kept in results.kept):
        paths.append(folder / f"scores_{mode}.npz")
        write_scores(paths[-1], mode, score_blocks([kept for kept in results.kept if kept.mode == mode]))
    return paths


def score_blocks(kept: Sequence[Kept]) -> dict[str, ScoreBlock]:
    """Give the matrices of one mode by partition.

    Partitions that ask the same queries (the tasks of FIVR) share the block of the first, over all of their videos. A
    single block has no name: it serves every partition.
    """
    groups: dict[tuple[str, ...], list[Kept]] = {}
    for part in kept:
        groups.setdefault(part.partition.query_ids, []).append(part)
    blocks = {parts[0].partition.name: _block(parts) for parts in groups.values()}
    return dict(zip([""], blocks.values(), strict=True)) if len(blocks) == 1 else blocks


def _block(parts: Sequence[Kept]) -> ScoreBlock:
    first = parts[0].judged
    database, columns = dict.fromkeys(first.database), [first.scores]
    for part in parts[1:]:
        more = [place for place, video in enumerate(part.judged.database) if video not in database]
        if more:
            database |= dict.fromkeys(part.judged.database)
            columns.append(part.judged.scores[:, more])
    scores = np.concatenate(columns, axis=1) if len(columns) > 1 else first.scores
    expressions = tuple(row.expression or "" for row in first.judgements)
    return ScoreBlock(first.queries, tuple(database), scores, expressions if any(expressions) else None)
