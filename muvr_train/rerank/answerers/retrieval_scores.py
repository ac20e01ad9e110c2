"""What a retriever's scores say to questions about a query and a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muvr_train.errors import DataError, shorten
from muvr_train.rerank.types import Question
from muvr_train.search.score_files import ScoreBlock, ScoreFile
from muvr_train.search.score_ids import OLD_NAMES, index_of, places_of


def leave_one_out(scores: Any, truth: Any, groups: Sequence[str]) -> list[bool]:
    """Answer every question by the threshold that is best for the questions of all other groups.

    Args:
        scores: float [N], finite.
        truth: bool [N].
        groups: [N] the query of each.

    Returns:
        [N] whether the score is above the threshold. It lies in the middle between two neighbouring scores of the
        others, below all of them, or on the highest; of those that answer most of the others' questions rightly it is
        the lowest.

    Raises:
        DataError: there is only one group.
    """
    members: dict[str, list[int]] = {}
    for place, name in enumerate(groups):
        members.setdefault(name, []).append(place)
    if len(members) < 2:
        raise DataError(f"all questions are about one query, {groups[0]}: there are no others to learn a threshold on")
    values, index = np.unique(scores, return_inverse=True)
    cuts = np.concatenate([[-np.inf], values])
    whole, standing = _right(scores, truth, cuts), np.bincount(index, minlength=len(values))
    says = np.zeros(len(scores), dtype=bool)
    for places in members.values():
        others = standing - np.bincount(index[places], minlength=len(values))
        best = int(np.argmax(whole - _right(scores[places], truth[places], cuts)))
        above = values[best:][others[best:] > 0]
        threshold = cuts[best] / 2 + above[0] / 2 if len(above) else cuts[best]
        says[places] = scores[places] > threshold
    return [bool(yes) for yes in says]


def _right(scores: Any, truth: Any, cuts: Any) -> Any:
    """Right answers at each threshold, with yes to what is above it."""
    true, false = np.sort(scores[truth]), np.sort(scores[~truth])
    return len(true) - np.searchsorted(true, cuts, "right") + np.searchsorted(false, cuts, "right")


def find_scores(file: ScoreFile, questions: Sequence[Question]) -> list[float]:
    """Look up the score of query and target of every question.

    Args:
        file: as `read_scores` gives it; ids may stand without their partition. Where its rows are queries with tag
            expressions, the row with the question's own tag is taken.
        questions: with partition, query and target in `about`.

    Raises:
        DataError: scores are missing or not finite; the questions are listed.
    """
    by_partition: dict[str, list[Question]] = {}
    for question in questions:
        by_partition.setdefault(str(question.about["partition"]), []).append(question)
    found: dict[str, float] = {}
    for partition, kept in by_partition.items():
        for block in _blocks(file, partition):
            found = {**_look_up(block, partition, kept), **found}
    lost = [question.id for question in questions if question.id not in found]
    if lost:
        raise DataError(f"{file.path} has no score for {len(lost)} of {len(questions)} questions: {shorten(lost, 3)}")
    broken = [question.id for question in questions if not math.isfinite(found[question.id])]
    if broken:
        raise DataError(f"{file.path}: the scores of {len(broken)} questions are not finite: {shorten(broken, 3)}")
    return [found[question.id] for question in questions]


def query_of(question: Question) -> str:
    """The query's id as score files have it: MUVR's with its partition."""
    return _full(question, "query")


def _full(question: Question, part: str) -> str:
    name, partition = str(question.about[part]), question.about["partition"]
    return f"{partition}/{name}" if question.about.get("benchmark") == "muvr_qa" else name


def _blocks(file: ScoreFile, partition: str) -> list[ScoreBlock]:
    """Blocks that may hold a partition: its own and the plain one, else all."""
    names = (partition, OLD_NAMES.get(partition, ""), "")
    return [file.blocks[name] for name in dict.fromkeys(names) if name in file.blocks] or list(file.blocks.values())


def _look_up(block: ScoreBlock, partition: str, questions: Sequence[Question]) -> dict[str, float]:
    """Scores by question id, of those that the block has."""
    targets = {question.id: _full(question, "target") for question in questions}
    columns = places_of(index_of(block.database), partition, list(dict.fromkeys(targets.values())))
    scores: dict[str, float] = {}
    for tag, kept in _by_tag(block, questions).items():
        queries = list(dict.fromkeys(map(query_of, kept)))
        rows = places_of(_rows(block, tag), partition, queries)
        for question in kept:
            row, column = rows.get(query_of(question)), columns.get(targets[question.id])
            if row is not None and column is not None:
                scores[question.id] = float(block.scores[row, column])
    return scores


def _by_tag(block: ScoreBlock, questions: Sequence[Question]) -> dict[str, list[Question]]:
    """Questions by the tag expression of their row; all under "" where rows have none."""
    groups: dict[str, list[Question]] = {}
    for question in questions:
        tag = question.about.get("tag", question.about.get("expression")) or ""
        groups.setdefault("" if block.expressions is None else str(tag), []).append(question)
    return groups


def _rows(block: ScoreBlock, tag: str) -> Mapping[str, int]:
    if block.expressions is None:
        return index_of(block.queries)
    rows = enumerate(zip(block.queries, block.expressions, strict=True))
    return {query: place for place, (query, expression) in rows if expression == tag}
