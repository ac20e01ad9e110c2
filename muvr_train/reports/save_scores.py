"""Score files of a run's own scores, in the format that `evaluate.py scores=` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from muvr_train.results import Kept, Results
from muvr_train.search.judged import JudgedScores
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


def save_reranked(folder: Path, changed: Sequence[Kept]) -> Path:
    """Write `reranked_scores_<mode>.npz`: reranked scores of one mode, a block for each partition.

    Tasks that share their queries share no block: each has an order of its own.

    Returns:
        The path.
    """
    path = folder / f"reranked_scores_{changed[0].mode}.npz"
    write_scores(path, changed[0].mode, {one.partition.name: _block([one]) for one in changed})
    return path


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
    return score_block(replace(first, database=tuple(database), scores=scores))


def score_block(judged: JudgedScores) -> ScoreBlock:
    """Give the scores of a partition in one mode, with the tag expressions of its rows where they have some."""
    expressions = tuple(row.expression or "" for row in judged.judgements)
    return ScoreBlock(judged.queries, judged.database, judged.scores, expressions if judged.tagged else None)
